//! The call graph of a module's own code: who calls whom directly, and who can never be copied.
//!
//! Source: strongly connected components by Kosaraju's algorithm, which needs no recursion.
//! Cost: linear in the instructions.

use cranelift_codegen::ir::{ExternalName, FuncRef, Function, InstructionData, UserExternalName, UserFuncName};
use petgraph::algo::kosaraju_scc;
use petgraph::graph::{DiGraph, NodeIndex};
use spinwise_model::index::FuncIndex;
use spinwise_model::module::Module;
use spinwise_model::symbol::NS_FUNC;

/// Direct calls between functions, which are named by their position in a slice.
pub(super) struct CallGraph {
    graph: DiGraph<(), ()>,
    /// The function index of each position; `None` for one that is not of the module's index space.
    indices: Vec<Option<FuncIndex>>,
    /// The position of each function index.
    positions: Vec<Option<usize>>,
    /// Whether a function may be copied, by position: it is defined and not recursive.
    copyable: Vec<bool>,
    /// Callees before callers, apart from cycles.
    order: Vec<usize>,
}

impl CallGraph {
    pub(super) fn new(module: &Module, functions: &[Function]) -> Self {
        let indices: Vec<_> = functions
            .iter()
            .map(|func| match &func.name {
                UserFuncName::User(UserExternalName { namespace: NS_FUNC, index })
                    if (*index as usize) < module.functions.len() =>
                {
                    Some(FuncIndex(*index))
                }
                _ => None,
            })
            .collect();
        let mut positions = vec![None; module.functions.len()];
        for (position, index) in indices.iter().enumerate() {
            if let Some(index) = index {
                positions[index.index()] = Some(position);
            }
        }
        let copyable = indices.iter().map(|index| index.is_some_and(|index| !module.is_imported(index))).collect();
        let mut this = Self { graph: DiGraph::new(), indices, positions, copyable, order: Vec::new() };
        for _ in functions {
            this.graph.add_node(());
        }
        for (caller, func) in functions.iter().enumerate() {
            // Glue and stubs are not callers either: their code stays as it was made.
            if this.copyable[caller] {
                this.add_calls(caller, func);
            }
        }
        for component in kosaraju_scc(&this.graph) {
            let recursive = match *component {
                [only] => this.graph.contains_edge(only, only),
                _ => true,
            };
            for node in &component {
                this.copyable[node.index()] &= !recursive;
                this.order.push(node.index());
            }
        }
        this
    }

    fn add_calls(&mut self, caller: usize, func: &Function) {
        let mut callees: Vec<_> = func
            .layout
            .blocks()
            .flat_map(|block| func.layout.block_insts(block))
            .filter_map(|inst| match func.dfg.insts[inst] {
                InstructionData::Call { func_ref, .. } | InstructionData::TryCall { func_ref, .. } => {
                    self.resolve(func, func_ref)
                }
                _ => None,
            })
            .collect();
        callees.sort_unstable();
        callees.dedup();
        for callee in callees {
            self.graph.add_edge(NodeIndex::new(caller), NodeIndex::new(callee), ());
        }
    }

    /// The position of the function that a reference means, if it is one of ours.
    pub(super) fn resolve(&self, func: &Function, func_ref: FuncRef) -> Option<usize> {
        let ExternalName::User(name) = func.dfg.ext_funcs[func_ref].name else { return None };
        match func.params.user_named_funcs()[name] {
            UserExternalName { namespace: NS_FUNC, index } => *self.positions.get(index as usize)?,
            _ => None,
        }
    }

    /// All positions, each after those it calls, apart from cycles.
    pub(super) fn bottom_up(&self) -> impl Iterator<Item = usize> {
        self.order.iter().copied()
    }

    /// Positions that a function calls directly.
    pub(super) fn callees(&self, caller: usize) -> impl Iterator<Item = usize> {
        self.graph.neighbors(NodeIndex::new(caller)).map(NodeIndex::index)
    }

    /// Whether a function is defined in the module and not recursive.
    pub(super) fn may_be_copied(&self, position: usize) -> bool {
        self.copyable[position]
    }

    /// The function index of a position that calls or is called.
    pub(super) fn index(&self, position: usize) -> FuncIndex {
        self.indices[position].expect("only functions of the module have calls here")
    }
}
