//! Strongly connected components of a part of a graph, by Kosaraju's two walks (petgraph's, which does not recurse; its
//! Tarjan does, over a depth that a guest controls).
//!
//! Invariant: two kept nodes have the same component exactly if each reaches the other over kept nodes and edges.
//! Cost: O(nodes + edges).

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};

use crate::graph::{Graph, NONE, Node};

/// Which component each node is in.
#[derive(Clone, Debug)]
pub struct Components {
    of: Vec<u32>,
    cyclic: Vec<bool>,
}

impl Components {
    /// The components of what remains of a graph when only some nodes and edges are kept.
    #[must_use]
    pub fn new(graph: &Graph, keep_node: impl Fn(Node) -> bool, keep_edge: impl Fn(Node, Node) -> bool) -> Self {
        let mut part = DiGraph::<(), (), u32>::with_capacity(graph.len(), 0);
        for _ in graph.nodes() {
            part.add_node(());
        }
        let kept = graph.edges().filter(|&(from, to)| keep_node(from) && keep_node(to) && keep_edge(from, to));
        part.extend_with_edges(kept);
        let mut components = Self { of: vec![NONE; graph.len()], cyclic: Vec::new() };
        for members in kosaraju_scc(&part) {
            #[expect(clippy::cast_possible_truncation, reason = "there are no more components than nodes")]
            let component = components.cyclic.len() as u32;
            let mut nodes = members.iter().copied().filter(|member| keep_node(node(*member))).peekable();
            let Some(first) = nodes.peek().copied() else { continue };
            components.cyclic.push(members.len() > 1 || part.contains_edge(first, first));
            nodes.for_each(|member| components.of[member.index()] = component);
        }
        components
    }

    /// The components of a whole graph.
    #[must_use]
    pub fn of_graph(graph: &Graph) -> Self {
        Self::new(graph, |_| true, |_, _| true)
    }

    /// How many there are.
    #[must_use]
    pub fn count(&self) -> usize {
        self.cyclic.len()
    }

    /// The component of a node, `None` if it was not kept. Successors' components have smaller or equal numbers.
    #[must_use]
    pub fn of(&self, node: Node) -> Option<u32> {
        let component = self.of[node as usize];
        (component != NONE).then_some(component)
    }

    /// Whether a component is a cycle: more than one node, or an edge from its node to itself.
    #[must_use]
    pub fn is_cyclic(&self, component: u32) -> bool {
        self.cyclic[component as usize]
    }

    /// Whether a node lies on a cycle of kept nodes and edges.
    #[must_use]
    pub fn on_cycle(&self, node: Node) -> bool {
        self.of(node).is_some_and(|component| self.is_cyclic(component))
    }

    /// Whether two nodes were kept and are in the same component.
    #[must_use]
    pub fn same(&self, a: Node, b: Node) -> bool {
        self.of(a).is_some() && self.of(a) == self.of(b)
    }
}

/// Back from petgraph's index.
#[expect(clippy::cast_possible_truncation, reason = "it was made from a u32")]
fn node(index: NodeIndex<u32>) -> Node {
    index.index() as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deleting_a_node_breaks_its_cycle() {
        let graph = Graph::new(5, 0, &[(0, 1), (1, 2), (2, 1), (2, 3), (3, 3), (3, 4)]);
        let whole = Components::of_graph(&graph);
        assert!(whole.same(1, 2) && !whole.same(2, 3));
        assert!(whole.on_cycle(1) && whole.on_cycle(3) && !whole.on_cycle(0) && !whole.on_cycle(4));
        let part = Components::new(&graph, |node| node != 2, |from, to| (from, to) != (3, 3));
        assert!(graph.nodes().all(|node| !part.on_cycle(node)));
        assert_eq!(part.of(2), None);
        assert_eq!(part.count(), 4);
    }
}
