//! What the planner knows of one function: its graph with the effects of each block.
//!
//! Invariant: node `n` of the graph is the `n`-th block of the layout, the entry is node 0; a block is all or nothing, since
//! it has no branch but its last instruction.
//! Cost: one pass over the instructions, and the near-linear analyses of `loops`.

use std::ops::Range;

use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::ir::{Block, Function};
use spinwise_loops::{Components, Dominators, Graph, LoopForest, Node};
use spinwise_model::module::Module;

use crate::callees::Callees;
use crate::effects::{Effect, Target, effect, is_plain_guest_load, target};

/// One function, as the planner sees it.
#[derive(Debug)]
pub(crate) struct Facts {
    /// The block of each node.
    pub(crate) blocks: Vec<Block>,
    /// The effects of each node.
    pub(crate) nodes: Vec<Effects>,
    pub(crate) graph: Graph,
    pub(crate) dominators: Dominators,
    pub(crate) forest: LoopForest,
    /// The calls of all nodes, a node's in one run.
    sites: Vec<Range<usize>>,
    /// What each of them may call: defined functions, as wasm indices. An imported callee polls by itself.
    callees: Vec<u32>,
}

/// The effects of a block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Effects {
    /// SSA values: block parameters and instruction results.
    pub(crate) values: u32,
    pub(crate) atomic_reads: u32,
    pub(crate) plain_loads: u32,
    /// Calls of wasm functions, imported or not, by whatever instruction.
    pub(crate) calls: u32,
    /// Whether it calls a defined function, or one unknown.
    pub(crate) calls_guest: bool,
    /// Whether it polls whatever else polls: it calls an import, or waits.
    pub(crate) polls: bool,
    /// Its calls of known functions.
    sites: Range<usize>,
}

impl Facts {
    pub(crate) fn new(module: &Module, callees: &Callees<'_>, func: &Function) -> Self {
        let blocks: Vec<Block> = func.layout.blocks().collect();
        let mut node_of = SecondaryMap::with_default(0u32);
        for (node, block) in (0u32..).zip(&blocks) {
            node_of[*block] = node;
        }
        let mut edges = Vec::new();
        for (node, block) in (0u32..).zip(&blocks) {
            edges.extend(func.block_successors(*block).map(|next| (node, node_of[next])));
        }
        let graph = Graph::new(blocks.len(), 0, &edges);
        let dominators = Dominators::new(&graph);
        let forest = LoopForest::new(&graph, &dominators);
        let mut facts = Self {
            nodes: Vec::with_capacity(blocks.len()),
            blocks,
            graph,
            dominators,
            forest,
            sites: Vec::new(),
            callees: Vec::new(),
        };
        for node in facts.graph.nodes() {
            let effects = facts.read_block(module, callees, func, facts.blocks[node as usize]);
            facts.nodes.push(effects);
        }
        facts
    }

    fn read_block(&mut self, module: &Module, callees: &Callees<'_>, func: &Function, block: Block) -> Effects {
        let mut effects = Effects { values: count(func.dfg.num_block_params(block)), ..Effects::default() };
        let first_site = self.sites.len();
        for inst in func.layout.block_insts(block) {
            effects.values += count(func.dfg.inst_results(inst).len());
            effects.plain_loads += u32::from(is_plain_guest_load(func, inst));
            effects.atomic_reads += u32::from(effect(func.dfg.insts[inst].opcode()) == Effect::AtomicRead);
            match target(func, inst) {
                None | Some(Target::Other) => {}
                Some(Target::Builtin(builtin)) => effects.polls |= builtin.is_poll(),
                Some(Target::Function(callee)) => {
                    effects.calls += 1;
                    self.call(module, &mut effects, &[callee]);
                }
                Some(Target::Indirect) => {
                    effects.calls += 1;
                    effects.calls_guest = true;
                    if let Some(possible) = callees.at(func.srcloc(inst).bits()) {
                        self.call(module, &mut effects, &possible);
                    }
                }
            }
        }
        effects.sites = first_site..self.sites.len();
        effects
    }

    /// Records a call of one of several functions. If all are imported it polls; so does one that can only trap.
    fn call(&mut self, module: &Module, effects: &mut Effects, possible: &[u32]) {
        let first = self.callees.len();
        self.callees.extend(possible.iter().filter(|callee| !module.is_imported((**callee).into())));
        if self.callees.len() == first {
            effects.polls = true;
        } else {
            effects.calls_guest = true;
            self.sites.push(first..self.callees.len());
        }
    }

    /// The calls of a node whose callees are all known: for each, the defined functions it may reach.
    pub(crate) fn calls(&self, node: Node) -> impl Iterator<Item = &[u32]> + Clone {
        self.sites[self.nodes[node as usize].sites.clone()].iter().map(|site| &self.callees[site.clone()])
    }

    /// Whether passing a node surely polls, when the functions of a kind poll on entry.
    pub(crate) fn surely_polls(&self, node: Node, on_entry: impl Fn(u32) -> bool) -> bool {
        self.nodes[node as usize].polls
            || self.calls(node).any(|possible| possible.iter().all(|callee| on_entry(*callee)))
    }

    /// The reachable nodes.
    pub(crate) fn reachable(&self) -> &[Node] {
        self.dominators.preorder()
    }

    /// The components of the reachable part.
    pub(crate) fn components(&self) -> Components {
        Components::new(&self.graph, |node| self.dominators.is_reachable(node), |_, _| true)
    }

    /// SSA values of the whole function.
    pub(crate) fn size(&self) -> u32 {
        self.nodes.iter().fold(0, |sum, node| sum.saturating_add(node.values))
    }
}

/// A count that is bounded far below 2^32 by Cranelift's own entity numbers.
fn count(len: usize) -> u32 {
    u32::try_from(len).unwrap_or(u32::MAX)
}
