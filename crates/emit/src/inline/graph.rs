//! The call graph of a module's own code: who calls whom directly, and who can never be copied.
//!
//! Source: strongly connected components by Kosaraju's algorithm, which needs no recursion.
//! Cost: linear in the calls.

use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use spinwise_model::index::FuncIndex;
use spinwise_model::module::Module;

use super::outline::Outline;

/// Direct calls between functions, which are named by their position in a slice.
#[derive(Debug)]
pub(super) struct CallGraph {
    /// The function index of each position; `None` for one that is not of the module's index space.
    indices: Vec<Option<FuncIndex>>,
    /// The position of each function index.
    positions: Vec<Option<usize>>,
    /// Whether a function is defined in the module, by position.
    defined: Vec<bool>,
    /// Whether it is in a cycle of calls.
    recursive: Vec<bool>,
    /// Callees before callers, apart from cycles.
    order: Vec<usize>,
}

impl CallGraph {
    pub(super) fn new(module: &Module, outlines: &[Outline]) -> Self {
        let of_module = |index: u32| ((index as usize) < module.functions.len()).then_some(FuncIndex(index));
        let indices: Vec<_> = outlines.iter().map(|outline| outline.index.and_then(of_module)).collect();
        let mut positions = vec![None; module.functions.len()];
        for (position, index) in indices.iter().enumerate() {
            if let Some(index) = index {
                positions[index.index()] = Some(position);
            }
        }
        let defined = indices.iter().map(|index| index.is_some_and(|index| !module.is_imported(index))).collect();
        let recursive = vec![false; outlines.len()];
        let mut this = Self { indices, positions, defined, recursive, order: Vec::with_capacity(outlines.len()) };
        let graph = this.calls(outlines);
        for component in kosaraju_scc(&graph) {
            let recursive = match *component {
                [only] => graph.contains_edge(only, only),
                _ => true,
            };
            for node in &component {
                this.recursive[node.index()] = recursive;
                this.order.push(node.index());
            }
        }
        this
    }

    fn calls(&self, outlines: &[Outline]) -> DiGraph<(), ()> {
        let mut graph = DiGraph::with_capacity(outlines.len(), 0);
        for _ in outlines {
            graph.add_node(());
        }
        let mut callees = Vec::new();
        // Glue and stubs are not callers either: their code stays as it was made.
        for (caller, outline) in outlines.iter().enumerate().filter(|(caller, _)| self.defined[*caller]) {
            callees.extend(outline.calls.iter().filter_map(|call| self.position(call.callee)));
            callees.sort_unstable();
            callees.dedup();
            for callee in callees.drain(..) {
                graph.add_edge(NodeIndex::new(caller), NodeIndex::new(callee), ());
            }
        }
        graph
    }

    /// The position of the function of an index, if it is one of ours.
    pub(super) fn position(&self, index: u32) -> Option<usize> {
        *self.positions.get(index as usize)?
    }

    /// All positions, each after those it calls, apart from cycles.
    pub(super) fn bottom_up(&self) -> &[usize] {
        &self.order
    }

    /// Whether a function may gain copies: stubs and glue stay as they were made.
    pub(super) fn may_copy_into(&self, position: usize) -> bool {
        self.defined[position]
    }

    /// Whether a function is defined in the module and not recursive.
    pub(super) fn may_be_copied(&self, position: usize) -> bool {
        self.defined[position] && !self.recursive[position]
    }

    /// The function index of a position that calls or is called.
    pub(super) fn index(&self, position: usize) -> FuncIndex {
        self.indices[position].expect("only functions of the module have calls here")
    }
}
