//! Immediate dominators, by Lengauer and Tarjan ("A fast algorithm for finding dominators in a flowgraph", 1979), the
//! simple version with path compression.
//!
//! Invariant: `a` dominates `b` if every path from the entry to `b` passes `a`; unreachable nodes are dominated by
//! nothing and dominate nothing.
//! Cost: O(edges · log nodes) whatever the shape. The shorter iteration of Cooper, Harvey and Kennedy is quadratic on a
//! long chain whose nodes all branch to one exit, which a guest can write.

use crate::graph::{Graph, NONE, Node, Walk};

/// The dominator tree of a graph.
#[derive(Clone, Debug)]
pub struct Dominators {
    /// Immediate dominator of a node; the entry's and unreachable nodes' is [`NONE`].
    immediate: Vec<Node>,
    /// When a walk of the tree enters and leaves a node: `a` dominates `b` if b's interval lies in a's.
    enter: Vec<u32>,
    leave: Vec<u32>,
    /// Reachable nodes, each after its dominators.
    order: Vec<Node>,
}

impl Dominators {
    /// The dominators of a graph.
    #[must_use]
    pub fn new(graph: &Graph) -> Self {
        let walk = Walk::new(graph);
        let numbers = immediate(graph, &walk);
        let mut immediate = vec![NONE; graph.len()];
        for (node, dominator) in walk.preorder.iter().zip(&numbers).skip(1) {
            immediate[*node as usize] = walk.preorder[*dominator as usize];
        }
        let (order, enter, leave) = intervals(graph, &walk, &numbers);
        Self { immediate, enter, leave, order }
    }

    /// The closest other node on every path from the entry; `None` for the entry and for unreachable nodes.
    #[must_use]
    pub fn immediate(&self, node: Node) -> Option<Node> {
        let dominator = self.immediate[node as usize];
        (dominator != NONE).then_some(dominator)
    }

    /// Whether a node can be reached from the entry.
    #[must_use]
    pub fn is_reachable(&self, node: Node) -> bool {
        self.enter[node as usize] != NONE
    }

    /// Whether every path from the entry to `b` passes `a`. A reachable node dominates itself.
    #[must_use]
    pub fn dominates(&self, a: Node, b: Node) -> bool {
        let (a, b) = (a as usize, b as usize);
        self.enter[a] != NONE
            && self.enter[b] != NONE
            && self.enter[a] <= self.enter[b]
            && self.leave[b] <= self.leave[a]
    }

    /// The reachable nodes, each after all its dominators.
    #[must_use]
    pub fn preorder(&self) -> &[Node] {
        &self.order
    }
}

/// Immediate dominators in walk numbers; the entry's is its own.
#[expect(clippy::cast_possible_truncation, reason = "positions are below the node count, bounded by Graph::new")]
fn immediate(graph: &Graph, walk: &Walk) -> Vec<u32> {
    let len = walk.preorder.len();
    let mut semi: Vec<u32> = (0..len as u32).collect();
    let mut forest = Forest { ancestor: vec![NONE; len], best: semi.clone(), path: Vec::new() };
    let mut immediate = vec![0u32; len];
    // Vertices whose semidominator is `n`, as a list linked through `next`.
    let mut bucket = vec![NONE; len];
    let mut next = vec![NONE; len];
    for vertex in (1..len as u32).rev() {
        for predecessor in graph.predecessors(walk.preorder[vertex as usize]) {
            let predecessor = walk.number[*predecessor as usize];
            if predecessor != NONE {
                let best = forest.evaluate(predecessor, &semi);
                semi[vertex as usize] = semi[vertex as usize].min(semi[best as usize]);
            }
        }
        let parent = walk.parent[vertex as usize];
        let list = &mut bucket[semi[vertex as usize] as usize];
        next[vertex as usize] = std::mem::replace(list, vertex);
        forest.ancestor[vertex as usize] = parent;
        let mut waiting = std::mem::replace(&mut bucket[parent as usize], NONE);
        while waiting != NONE {
            let best = forest.evaluate(waiting, &semi);
            let closer = semi[best as usize] < semi[waiting as usize];
            immediate[waiting as usize] = if closer { best } else { parent };
            waiting = next[waiting as usize];
        }
    }
    for vertex in 1..len {
        if immediate[vertex] != semi[vertex] {
            immediate[vertex] = immediate[immediate[vertex] as usize];
        }
    }
    immediate
}

/// The forest of processed vertices: for each, the vertex of least semidominator on the path to its root.
struct Forest {
    ancestor: Vec<u32>,
    best: Vec<u32>,
    path: Vec<u32>,
}

impl Forest {
    fn evaluate(&mut self, vertex: u32, semi: &[u32]) -> u32 {
        if self.ancestor[vertex as usize] == NONE {
            return vertex;
        }
        let mut at = vertex;
        while self.ancestor[self.ancestor[at as usize] as usize] != NONE {
            self.path.push(at);
            at = self.ancestor[at as usize];
        }
        // From the root's side outwards, each vertex takes over what its ancestor knows and then skips it.
        while let Some(vertex) = self.path.pop() {
            let above = self.ancestor[vertex as usize] as usize;
            let (mine, its) = (self.best[vertex as usize], self.best[above]);
            if semi[its as usize] < semi[mine as usize] {
                self.best[vertex as usize] = its;
            }
            self.ancestor[vertex as usize] = self.ancestor[above];
        }
        self.best[vertex as usize]
    }
}

/// A preorder of the dominator tree and the interval of each node in it.
#[expect(clippy::cast_possible_truncation, reason = "positions are below the node count, bounded by Graph::new")]
fn intervals(graph: &Graph, walk: &Walk, immediate: &[u32]) -> (Vec<Node>, Vec<u32>, Vec<u32>) {
    let len = walk.preorder.len();
    let mut child = vec![NONE; len];
    let mut sibling = vec![NONE; len];
    for vertex in (1..len as u32).rev() {
        let list = &mut child[immediate[vertex as usize] as usize];
        sibling[vertex as usize] = std::mem::replace(list, vertex);
    }
    let mut order = Vec::with_capacity(len);
    let mut enter = vec![NONE; graph.len()];
    let mut leave = vec![NONE; graph.len()];
    let mut at = 0u32;
    loop {
        let node = walk.preorder[at as usize];
        if enter[node as usize] == NONE {
            enter[node as usize] = order.len() as u32;
            order.push(node);
            if child[at as usize] != NONE {
                at = child[at as usize];
                continue;
            }
        }
        leave[node as usize] = order.len() as u32;
        if at == 0 {
            return (order, enter, leave);
        }
        at = if sibling[at as usize] == NONE { immediate[at as usize] } else { sibling[at as usize] };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_diamond_is_dominated_by_its_top() {
        let graph = Graph::new(5, 0, &[(0, 1), (1, 2), (1, 3), (2, 4), (3, 4), (4, 1)]);
        let dominators = Dominators::new(&graph);
        assert_eq!(dominators.immediate(4), Some(1));
        assert_eq!(dominators.immediate(0), None);
        assert!(dominators.dominates(1, 4) && !dominators.dominates(2, 4) && dominators.dominates(4, 4));
    }

    #[test]
    fn unreachable_nodes_take_no_part() {
        let graph = Graph::new(4, 0, &[(0, 1), (2, 1), (2, 3)]);
        let dominators = Dominators::new(&graph);
        assert_eq!(dominators.immediate(1), Some(0));
        assert!(!dominators.is_reachable(2));
        assert!(!dominators.dominates(2, 3) && !dominators.dominates(2, 2) && !dominators.dominates(0, 2));
        assert_eq!(dominators.preorder(), [0, 1]);
    }
}
