//! What remains of loops when nodes are deleted: the *core* of a loop is the strongly connected component of its header
//! in the loop's body without the deleted nodes, if it still holds a cycle through the header.
//!
//! Invariant: a node is in the core of loop L exactly if, over kept nodes of L's body, it lies on a cycle with L's header.
//! An inner loop's core is wholly inside an outer one's, or wholly outside.
//!
//! Why a backward walk suffices. Let C be the component of the header `h` in the *whole* graph without the deleted nodes.
//! If `y` is in the body and in C, some kept path leads from `h` to `y`. After its last visit to `h` it stays in the body,
//! for the body can be entered only at `h`. So `h` reaches `y` within the body; the walk shows that `y` reaches `h`
//! there. Every node it visits is therefore in the core, and can be collapsed into `h`: later walks pass it once.
//! Cost: O((nodes + edges) · α) for all loops together.

use crate::forest::{LoopForest, LoopIndex, NaturalLoop};
use crate::graph::{Graph, NONE, Node};
use crate::scc::Components;

/// The cores of all loops of a graph.
#[derive(Clone, Debug)]
pub struct Cores {
    /// For each loop what its core absorbed: nodes, each standing for the core it heads, if it heads one. Empty where
    /// nothing is left.
    absorbed: Vec<Vec<Node>>,
    /// The loop that a node heads, or [`NONE`].
    headed: Vec<LoopIndex>,
}

impl Cores {
    /// The cores when only some nodes are kept.
    #[must_use]
    pub fn new(graph: &Graph, forest: &LoopForest, keep: impl Fn(Node) -> bool) -> Self {
        let components = Components::new(graph, keep, |_, _| true);
        let mut cores = Self { absorbed: vec![Vec::new(); forest.loops().len()], headed: vec![NONE; graph.len()] };
        let mut into = Into(graph.nodes().collect());
        let mut work = Vec::new();
        for index in forest.indices().rev() {
            let NaturalLoop { header, latches, .. } = &forest.loops()[index as usize];
            let header = *header;
            cores.headed[header as usize] = index;
            let members = &mut cores.absorbed[index as usize];
            work.extend(latches.iter().copied().filter(|latch| components.same(*latch, header)));
            if !work.is_empty() {
                members.push(header);
            }
            while let Some(node) = work.pop() {
                let node = into.find(node);
                if node != header {
                    into.0[node as usize] = header;
                    members.push(node);
                    work.extend(graph.predecessors(node).iter().copied().filter(|p| components.same(*p, header)));
                }
            }
        }
        cores
    }

    /// Whether a cycle through the loop's header is left.
    #[must_use]
    pub fn is_cyclic(&self, index: LoopIndex) -> bool {
        !self.absorbed[index as usize].is_empty()
    }

    /// For each loop, whether its core holds a node of a kind.
    #[must_use]
    pub fn holds(&self, kind: impl Fn(Node) -> bool) -> Vec<bool> {
        let mut holds = vec![false; self.absorbed.len()];
        for index in (0..self.absorbed.len()).rev() {
            holds[index] = self.absorbed[index].iter().enumerate().any(|(at, &node)| {
                let inner = self.headed[node as usize];
                kind(node) || (at > 0 && inner != NONE && holds[inner as usize])
            });
        }
        holds
    }

    /// The nodes of a loop's core, in no particular order.
    pub fn nodes(&self, index: LoopIndex) -> impl Iterator<Item = Node> + '_ {
        let mut inner = vec![index];
        let mut row = [].iter();
        std::iter::from_fn(move || {
            loop {
                if let Some(&node) = row.next() {
                    let headed = self.headed[node as usize];
                    if headed != NONE && !self.absorbed[headed as usize].is_empty() {
                        inner.push(headed);
                    }
                    return Some(node);
                }
                let next = inner.pop()?;
                row = self.absorbed[next as usize].iter();
                // The first node is the header, which the outer row has named already.
                if next != index {
                    row.next();
                } else if let Some(&header) = row.next() {
                    return Some(header);
                }
            }
        })
    }
}

/// Links from a node towards the header that its core was collapsed into.
struct Into(Vec<Node>);

impl Into {
    fn find(&mut self, mut node: Node) -> Node {
        while self.0[node as usize] != node {
            let above = self.0[node as usize];
            self.0[node as usize] = self.0[above as usize];
            node = above;
        }
        node
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::dominators::Dominators;

    fn core(nodes: usize, edges: &[(Node, Node)], deleted: &[Node]) -> Vec<Vec<Node>> {
        let graph = Graph::new(nodes, 0, edges);
        let forest = LoopForest::new(&graph, &Dominators::new(&graph));
        let cores = Cores::new(&graph, &forest, |node| !deleted.contains(&node));
        forest
            .indices()
            .map(|index| {
                let mut nodes: Vec<_> = cores.nodes(index).collect();
                nodes.sort_unstable();
                nodes
            })
            .collect()
    }

    #[test]
    fn a_deleted_arm_leaves_the_other() {
        let edges = [(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 1), (4, 5)];
        assert_eq!(core(6, &edges, &[]), [[1, 2, 3, 4]]);
        assert_eq!(core(6, &edges, &[2]), [[1, 3, 4]]);
        assert_eq!(core(6, &edges, &[4]), [[]]);
    }

    #[test]
    fn an_inner_core_is_part_of_the_outer_or_not_at_all() {
        let edges = [(0, 1), (1, 2), (2, 3), (3, 2), (2, 4), (4, 1), (4, 5)];
        assert_eq!(core(6, &edges, &[]), [vec![1, 2, 3, 4], vec![2, 3]]);
        assert_eq!(core(6, &edges, &[4]), [vec![], vec![2, 3]]);
        assert_eq!(core(6, &edges, &[3]), [vec![1, 2, 4], vec![]]);
    }

    #[test]
    fn a_self_loop_is_a_core_of_one() {
        assert_eq!(core(2, &[(0, 1), (1, 1)], &[]), [[1]]);
        assert_eq!(core(2, &[(0, 1), (1, 1)], &[1]), [[]]);
    }
}
