//! Whole-module summary: which functions can run inside a cycle, and which of them poll on entry whatever the loops need.
//!
//! Invariant: a function *can run inside a cycle* if it is called from a block that lies on a cycle, is part of a
//! recursion, can be reached through a reference that the guest takes, or is called by such a function. If it also reads atomically it polls on
//! entry, so that no cycle can hide its read in a callee.
//! Cost: linear in the call graph.

use spinwise_loops::{Components, Graph};
use spinwise_model::module::Module;

use crate::facts::Facts;
use crate::plan::{EntryReason, Mode};

/// Who polls on entry, by position among the defined functions.
#[derive(Debug)]
pub(crate) struct EntryPolls {
    imported: u32,
    reasons: Vec<Option<EntryReason>>,
}

impl EntryPolls {
    /// The polls that the functions need by themselves.
    pub(crate) fn new(module: &Module, facts: &[Facts], mode: Mode) -> Self {
        let mut polls = Self { imported: module.imported_functions, reasons: vec![None; facts.len()] };
        if mode == Mode::Off {
            return polls;
        }
        let in_cycle = run_in_cycles(module, facts);
        for ((reason, facts), in_cycle) in polls.reasons.iter_mut().zip(facts).zip(in_cycle) {
            let has = |kind: fn(&crate::facts::Effects) -> bool| {
                facts.reachable().iter().any(|node| kind(&facts.nodes[*node as usize]))
            };
            if in_cycle && has(|node| node.atomic_reads > 0) {
                *reason = Some(EntryReason::ReadsAtomically);
            } else if mode == Mode::All && has(|node| node.calls_guest) {
                *reason = Some(EntryReason::MakesCalls);
            }
        }
        polls
    }

    /// Whether a defined function, given by its wasm index, polls on entry.
    pub(crate) fn contains(&self, func: u32) -> bool {
        self.reasons[(func - self.imported) as usize].is_some()
    }

    /// Why a function polls on entry, by position among the defined functions.
    pub(crate) fn reason(&self, position: usize) -> Option<EntryReason> {
        self.reasons[position]
    }

    /// Makes a defined function poll on entry because a loop needs it to.
    pub(crate) fn require(&mut self, func: u32) {
        self.reasons[(func - self.imported) as usize].get_or_insert(EntryReason::CalledInSpinLoop);
    }
}

/// Whether each defined function can run inside a cycle.
fn run_in_cycles(module: &Module, facts: &[Facts]) -> Vec<bool> {
    let imported = module.imported_functions;
    let mut edges = Vec::new();
    // What only a host can refer to is entered through a host entry or a reference stub, which poll.
    let mut roots: Vec<u32> = module.address_taken.iter().map(|func| func.0).filter(|func| *func >= imported).collect();
    for (caller, facts) in (0u32..).zip(facts) {
        let components = facts.components();
        for &node in facts.reachable() {
            let callees = facts.calls(node).flatten();
            if components.on_cycle(node) {
                roots.extend(callees.clone());
            }
            edges.extend(callees.map(|callee| (caller, callee - imported)));
        }
    }
    if facts.is_empty() {
        return Vec::new();
    }
    let calls = Graph::new(facts.len(), 0, &edges);
    let recursion = Components::of_graph(&calls);
    let mut work: Vec<u32> = roots.iter().map(|func| func - imported).collect();
    work.extend(calls.nodes().filter(|func| recursion.on_cycle(*func)));
    let mut in_cycle = vec![false; facts.len()];
    while let Some(func) = work.pop() {
        if !std::mem::replace(&mut in_cycle[func as usize], true) {
            work.extend_from_slice(calls.successors(func));
        }
    }
    in_cycle
}
