//! A directed graph with an entry, in compressed rows: both directions of every edge, sorted and without duplicates.
//!
//! Invariant: node `n` is `0 ≤ n < len`; successor and predecessor rows hold the same edges.
//! Cost: O(nodes + edges) to build, 8 bytes a node and 8 an edge.

/// A node: its index.
pub type Node = u32;

/// Stands for "no node" in dense tables.
pub(crate) const NONE: Node = Node::MAX;

/// A directed graph with an entry.
#[derive(Clone, Debug)]
pub struct Graph {
    entry: Node,
    successors: Rows,
    predecessors: Rows,
}

/// One direction of the edges: the row of node `n` is `targets[starts[n]..starts[n + 1]]`.
#[derive(Clone, Debug)]
struct Rows {
    starts: Vec<u32>,
    targets: Vec<Node>,
}

impl Rows {
    /// Rows from edges given in any order: a counting sort, stable in the order of `edges`.
    fn new(nodes: usize, edges: impl Iterator<Item = (Node, Node)> + Clone) -> Self {
        let mut starts = vec![0u32; nodes + 1];
        for (from, _) in edges.clone() {
            starts[from as usize + 1] += 1;
        }
        for node in 0..nodes {
            starts[node + 1] += starts[node];
        }
        let mut next = starts.clone();
        let mut targets = vec![NONE; starts[nodes] as usize];
        for (from, to) in edges {
            let at = &mut next[from as usize];
            targets[*at as usize] = to;
            *at += 1;
        }
        Self { starts, targets }
    }

    fn row(&self, node: Node) -> &[Node] {
        let node = node as usize;
        &self.targets[self.starts[node] as usize..self.starts[node + 1] as usize]
    }

    fn edges(&self) -> impl Iterator<Item = (Node, Node)> + Clone + '_ {
        (0u32..).zip(self.starts.windows(2)).flat_map(|(from, bounds)| {
            self.targets[bounds[0] as usize..bounds[1] as usize].iter().map(move |to| (from, *to))
        })
    }
}

impl Graph {
    /// A graph of `nodes` nodes. Edges may come in any order and more than once: a repeated edge counts once.
    ///
    /// # Panics
    /// If the entry or an edge names a node that is not there, or there are 2^32 − 1 nodes or edges or more.
    #[must_use]
    pub fn new(nodes: usize, entry: Node, edges: &[(Node, Node)]) -> Self {
        assert!(
            nodes < NONE as usize && edges.len() < NONE as usize,
            "a graph has fewer than 2^32 - 1 nodes and edges"
        );
        assert!((entry as usize) < nodes, "the entry is a node");
        assert!(edges.iter().all(|&(from, to)| (from as usize) < nodes && (to as usize) < nodes), "edges join nodes");
        // Sorting twice by counting orders by (from, to): the second pass is stable.
        let by_target = Rows::new(nodes, edges.iter().map(|&(from, to)| (to, from)));
        let sorted = Rows::new(nodes, by_target.edges().map(|(to, from)| (from, to)));
        let mut distinct: Vec<_> = sorted.edges().collect();
        distinct.dedup();
        let successors = Rows::new(nodes, distinct.iter().copied());
        let predecessors = Rows::new(nodes, distinct.iter().map(|&(from, to)| (to, from)));
        Self { entry, successors, predecessors }
    }

    /// How many nodes there are.
    #[must_use]
    #[expect(clippy::len_without_is_empty, reason = "a graph has an entry, so it is never empty")]
    pub fn len(&self) -> usize {
        self.successors.starts.len() - 1
    }

    /// Where execution starts.
    #[must_use]
    pub fn entry(&self) -> Node {
        self.entry
    }

    /// All nodes, ascending.
    pub fn nodes(&self) -> impl DoubleEndedIterator<Item = Node> + use<> {
        #[expect(clippy::cast_possible_truncation, reason = "bounded by Graph::new")]
        let len = self.len() as u32;
        0..len
    }

    /// Where a node leads, ascending.
    #[must_use]
    pub fn successors(&self, node: Node) -> &[Node] {
        self.successors.row(node)
    }

    /// What leads to a node, ascending.
    #[must_use]
    pub fn predecessors(&self, node: Node) -> &[Node] {
        self.predecessors.row(node)
    }

    /// The reachable nodes in reverse postorder: without cycles, each before its successors.
    #[must_use]
    pub fn reverse_postorder(&self) -> Vec<Node> {
        let mut order = Vec::new();
        let mut seen = vec![false; self.len()];
        let mut stack = vec![(self.entry, 0)];
        seen[self.entry as usize] = true;
        while let Some((node, next)) = stack.last_mut() {
            let Some(&successor) = self.successors(*node).get(*next) else {
                order.push(*node);
                stack.pop();
                continue;
            };
            *next += 1;
            if !std::mem::replace(&mut seen[successor as usize], true) {
                stack.push((successor, 0));
            }
        }
        order.reverse();
        order
    }

    /// All edges, ascending.
    pub fn edges(&self) -> impl Iterator<Item = (Node, Node)> + Clone + '_ {
        self.successors.edges()
    }
}

/// A depth-first walk from the entry.
#[derive(Clone, Debug)]
pub(crate) struct Walk {
    /// Reachable nodes in the order of their first visit.
    pub(crate) preorder: Vec<Node>,
    /// Position in `preorder`, [`NONE`] for unreachable nodes.
    pub(crate) number: Vec<u32>,
    /// Parent in the walk's tree, as a position in `preorder`; the entry's is its own.
    pub(crate) parent: Vec<u32>,
}

impl Walk {
    /// Walks a graph, without recursion.
    #[expect(clippy::cast_possible_truncation, reason = "positions are below the node count, bounded by Graph::new")]
    pub(crate) fn new(graph: &Graph) -> Self {
        let mut walk = Self { preorder: Vec::new(), number: vec![NONE; graph.len()], parent: Vec::new() };
        let mut stack = vec![(graph.entry(), 0u32)];
        while let Some((node, parent)) = stack.pop() {
            if walk.number[node as usize] != NONE {
                continue;
            }
            let number = walk.preorder.len() as u32;
            walk.number[node as usize] = number;
            walk.preorder.push(node);
            walk.parent.push(parent);
            let fresh = graph.successors(node).iter().rev().filter(|next| walk.number[**next as usize] == NONE);
            stack.extend(fresh.map(|next| (*next, number)));
        }
        walk
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_sorted_and_distinct() {
        let graph = Graph::new(4, 0, &[(0, 3), (0, 1), (0, 3), (3, 0), (1, 3)]);
        assert_eq!(graph.successors(0), [1, 3]);
        assert_eq!(graph.predecessors(3), [0, 1]);
        assert_eq!(graph.successors(2), []);
        assert_eq!(graph.edges().collect::<Vec<_>>(), [(0, 1), (0, 3), (1, 3), (3, 0)]);
    }

    #[test]
    fn reverse_postorder_follows_forward_edges() {
        let graph = Graph::new(6, 0, &[(0, 1), (0, 2), (2, 1), (1, 3), (3, 2), (4, 5)]);
        assert_eq!(graph.reverse_postorder(), [0, 1, 3, 2]);
        let diamond = Graph::new(4, 0, &[(0, 3), (0, 1), (1, 2), (2, 3)]);
        assert_eq!(diamond.reverse_postorder(), [0, 1, 2, 3]);
    }

    #[test]
    fn a_walk_leaves_out_what_is_unreachable() {
        let graph = Graph::new(4, 0, &[(0, 1), (1, 0), (2, 3)]);
        let walk = Walk::new(&graph);
        assert_eq!(walk.preorder, [0, 1]);
        assert_eq!(walk.number[2], NONE);
    }
}
