//! Natural loops and how they nest.
//!
//! Invariant: an edge `u → h` where `h` dominates `u` is a back edge; the natural loop of `h` is `h` and all that reaches
//! a back edge of `h` without passing `h`. Loops of different headers are disjoint or nested. An outer loop has a smaller
//! number than those in it.
//! Source: the usual backward walk (Aho, Lam, Sethi, Ullman, 9.6.6), inner loops first, each collapsed when it is done.
//! Cost: O((nodes + edges) · α), however deep the nest: a node is visited once, a collapsed loop once a level.

use crate::dominators::Dominators;
use crate::graph::{Graph, NONE, Node};
use crate::scc::Components;

/// A natural loop: its index in [`LoopForest::loops`].
pub type LoopIndex = u32;

/// One natural loop.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct NaturalLoop {
    /// The node that dominates the loop.
    pub header: Node,
    /// The innermost loop around it.
    pub parent: Option<LoopIndex>,
    /// 1 for an outermost loop.
    pub depth: u32,
    /// Where its back edges come from, ascending.
    pub latches: Vec<Node>,
}

/// The natural loops of a graph.
#[derive(Clone, Debug)]
pub struct LoopForest {
    loops: Vec<NaturalLoop>,
    /// The innermost loop of each node, or [`NONE`].
    innermost: Vec<LoopIndex>,
}

impl LoopForest {
    /// The loops of a graph.
    #[must_use]
    pub fn new(graph: &Graph, dominators: &Dominators) -> Self {
        let mut loops = Vec::new();
        for &header in dominators.preorder() {
            let latch = |node: &Node| dominators.dominates(header, *node);
            let latches: Vec<_> = graph.predecessors(header).iter().copied().filter(latch).collect();
            if !latches.is_empty() {
                loops.push(NaturalLoop { header, parent: None, depth: 1, latches });
            }
        }
        let mut forest = Self { innermost: vec![NONE; graph.len()], loops };
        forest.nest(graph, dominators);
        forest
    }

    /// Finds bodies and parents. Headers are in dominator order, so walking them backwards does inner loops first.
    fn nest(&mut self, graph: &Graph, dominators: &Dominators) {
        let mut outermost = Outermost(self.indices().collect());
        let mut work = Vec::new();
        for index in self.indices().rev() {
            let header = self.loops[index as usize].header;
            work.extend_from_slice(&self.loops[index as usize].latches);
            while let Some(node) = work.pop() {
                let inner = self.innermost[node as usize];
                if inner == NONE {
                    self.innermost[node as usize] = index;
                    if node != header {
                        work.extend(graph.predecessors(node).iter().filter(|p| dominators.is_reachable(**p)));
                    }
                    continue;
                }
                let inner = outermost.of(inner);
                if inner != index {
                    outermost.0[inner as usize] = index;
                    self.loops[inner as usize].parent = Some(index);
                    let entry = self.loops[inner as usize].header;
                    work.extend(graph.predecessors(entry).iter().filter(|p| dominators.is_reachable(**p)));
                }
            }
        }
        for index in 0..self.loops.len() {
            let outer = self.loops[index].parent.map_or(0, |parent| self.loops[parent as usize].depth);
            self.loops[index].depth = outer + 1;
        }
    }

    /// All loops, an outer one before those in it.
    #[must_use]
    pub fn loops(&self) -> &[NaturalLoop] {
        &self.loops
    }

    /// The indices of [`LoopForest::loops`], ascending.
    pub fn indices(&self) -> impl DoubleEndedIterator<Item = LoopIndex> + use<> {
        #[expect(clippy::cast_possible_truncation, reason = "there are no more loops than nodes")]
        let len = self.loops.len() as u32;
        0..len
    }

    /// The innermost loop that holds a node.
    #[must_use]
    pub fn innermost(&self, node: Node) -> Option<LoopIndex> {
        let index = self.innermost[node as usize];
        (index != NONE).then_some(index)
    }

    /// Whether a loop holds a node. O(nesting depth).
    #[must_use]
    pub fn contains(&self, index: LoopIndex, node: Node) -> bool {
        let mut at = self.innermost(node);
        while let Some(inner) = at {
            if inner <= index {
                return inner == index;
            }
            at = self.loops[inner as usize].parent;
        }
        false
    }

    /// For each loop, the sum over the nodes of its body.
    #[must_use]
    pub fn sums(&self, value: impl Fn(Node) -> u32) -> Vec<u32> {
        let mut sums = vec![0u32; self.loops.len()];
        for (node, index) in (0u32..).zip(&self.innermost) {
            if let Some(sum) = sums.get_mut(*index as usize) {
                *sum = sum.saturating_add(value(node));
            }
        }
        for (index, inner) in self.loops.iter().enumerate().rev() {
            if let Some(parent) = inner.parent {
                sums[parent as usize] = sums[parent as usize].saturating_add(sums[index]);
            }
        }
        sums
    }
}

/// Links from a loop towards the outermost one it was collapsed into.
struct Outermost(Vec<LoopIndex>);

impl Outermost {
    /// The outermost one, shortening the path.
    fn of(&mut self, mut index: LoopIndex) -> LoopIndex {
        while self.0[index as usize] != index {
            let above = self.0[index as usize];
            self.0[index as usize] = self.0[above as usize];
            index = above;
        }
        index
    }
}

/// The cycles that no natural loop's header closes: components that remain, as cycles, without all back edges. Each is
/// a list of nodes, ascending; they come in the order of their first node. A reducible graph has none.
#[must_use]
pub fn irreducible_cycles(graph: &Graph, dominators: &Dominators) -> Vec<Vec<Node>> {
    let rest = Components::new(graph, |node| dominators.is_reachable(node), |from, to| !dominators.dominates(to, from));
    let mut cycles = Vec::<Vec<Node>>::new();
    let mut place = vec![NONE; rest.count()];
    for node in graph.nodes() {
        let Some(component) = rest.of(node).filter(|component| rest.is_cyclic(*component)) else { continue };
        let place = &mut place[component as usize];
        if *place == NONE {
            #[expect(clippy::cast_possible_truncation, reason = "there are fewer cycles than nodes")]
            let next = cycles.len() as u32;
            *place = next;
            cycles.push(Vec::new());
        }
        cycles[*place as usize].push(node);
    }
    cycles
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forest(nodes: usize, edges: &[(Node, Node)]) -> LoopForest {
        let graph = Graph::new(nodes, 0, edges);
        LoopForest::new(&graph, &Dominators::new(&graph))
    }

    #[test]
    fn loops_nest() {
        // 0 → 1 { 2 { 3 } 4 } 5, with a self-loop at 3.
        let forest = forest(6, &[(0, 1), (1, 2), (2, 3), (3, 3), (3, 2), (2, 4), (4, 1), (4, 5)]);
        let shape: Vec<_> = forest.loops().iter().map(|l| (l.header, l.parent, l.depth, l.latches.clone())).collect();
        assert_eq!(shape, [(1, None, 1, vec![4]), (2, Some(0), 2, vec![3]), (3, Some(1), 3, vec![3])]);
        assert_eq!(forest.innermost(4), Some(0));
        assert_eq!(forest.innermost(5), None);
        assert!(forest.contains(0, 3) && !forest.contains(1, 4));
        assert_eq!(forest.sums(|_| 1), [4, 2, 1]);
    }

    #[test]
    fn a_header_may_have_many_back_edges() {
        let forest = forest(5, &[(0, 1), (1, 2), (2, 1), (2, 3), (3, 1), (3, 4)]);
        assert_eq!(forest.loops().len(), 1);
        assert_eq!(forest.loops()[0].latches, [2, 3]);
    }

    #[test]
    fn a_cycle_with_two_entries_is_reported() {
        let graph = Graph::new(4, 0, &[(0, 1), (0, 2), (1, 2), (2, 1), (2, 3)]);
        let dominators = Dominators::new(&graph);
        assert_eq!(LoopForest::new(&graph, &dominators).loops(), []);
        assert_eq!(irreducible_cycles(&graph, &dominators), [[1, 2]]);
    }
}
