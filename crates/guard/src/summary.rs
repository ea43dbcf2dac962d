//! Whole-module summary: which functions can run inside a cycle, and which of them poll on entry whatever the loops need.
//!
//! Invariant: a function *can run inside a cycle* if it is called from a block that lies on a cycle, is part of a
//! recursion, can be reached through a reference that the guest takes, or is called by such a function. If it also reads atomically it polls on
//! entry, so that no cycle can hide its read in a callee.
//! Cost: linear in the call graph.

use spinwise_loops::{Components, Graph, Node};
use spinwise_model::module::Module;

use crate::facts::{Effects, Facts};
use crate::plan::{EntryReason, Mode};
use crate::planner::Seen;

/// What the whole module needs to know of a function.
#[derive(Debug)]
pub(crate) struct Summary {
    /// SSA values in it.
    pub(crate) size: u32,
    /// Whether reachable code of it reads atomically.
    reads: bool,
    /// Whether reachable code of it calls a defined function, or one unknown.
    calls_guest: bool,
    /// The defined functions that its reachable code may call, as far as they are known: wasm indices, ascending.
    callees: Box<[u32]>,
    /// Those of them that it may call from a block that lies on a cycle.
    callees_on_cycle: Box<[u32]>,
}

impl Summary {
    pub(crate) fn new(facts: &Facts) -> Self {
        let reachable = || facts.reachable().iter().copied();
        let has = |kind: fn(&Effects) -> bool| reachable().any(|node| kind(&facts.nodes[node as usize]));
        let callees = distinct(reachable().flat_map(|node| facts.calls(node).flatten()));
        let components = (!callees.is_empty()).then(|| facts.components());
        let on_cycle = |node: &Node| components.as_ref().is_some_and(|components| components.on_cycle(*node));
        Self {
            size: facts.size(),
            reads: has(|node| node.atomic_reads > 0),
            calls_guest: has(|node| node.calls_guest),
            callees_on_cycle: distinct(reachable().filter(on_cycle).flat_map(|node| facts.calls(node).flatten())),
            callees,
        }
    }
}

/// Each of some indices once, ascending.
fn distinct<'i>(indices: impl Iterator<Item = &'i u32>) -> Box<[u32]> {
    let mut indices: Vec<u32> = indices.copied().collect();
    indices.sort_unstable();
    indices.dedup();
    indices.into()
}

/// Who polls on entry, by position among the defined functions.
#[derive(Debug)]
pub(crate) struct EntryPolls {
    imported: u32,
    reasons: Vec<Option<EntryReason>>,
}

impl EntryPolls {
    /// The polls that the functions need by themselves.
    pub(crate) fn new(module: &Module, seen: &[Seen], mode: Mode) -> Self {
        let mut polls = Self { imported: module.imported_functions, reasons: vec![None; seen.len()] };
        if mode == Mode::Off {
            return polls;
        }
        let in_cycle = run_in_cycles(module, seen);
        for ((reason, Seen { summary, .. }), in_cycle) in polls.reasons.iter_mut().zip(seen).zip(in_cycle) {
            if in_cycle && summary.reads {
                *reason = Some(EntryReason::ReadsAtomically);
            } else if mode == Mode::All && summary.calls_guest {
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
fn run_in_cycles(module: &Module, seen: &[Seen]) -> Vec<bool> {
    let imported = module.imported_functions;
    let mut edges = Vec::new();
    // What only a host can refer to is entered through a host entry or a reference stub, which poll.
    let mut roots: Vec<u32> = module.address_taken.iter().map(|func| func.0).filter(|func| *func >= imported).collect();
    for (caller, Seen { summary, .. }) in (0u32..).zip(seen) {
        roots.extend_from_slice(&summary.callees_on_cycle);
        edges.extend(summary.callees.iter().map(|callee| (caller, callee - imported)));
    }
    if seen.is_empty() {
        return Vec::new();
    }
    let calls = Graph::new(seen.len(), 0, &edges);
    let recursion = Components::of_graph(&calls);
    let mut work: Vec<u32> = roots.iter().map(|func| func - imported).collect();
    work.extend(calls.nodes().filter(|func| recursion.on_cycle(*func)));
    let mut in_cycle = vec![false; seen.len()];
    while let Some(func) = work.pop() {
        if !std::mem::replace(&mut in_cycle[func as usize], true) {
            work.extend_from_slice(calls.successors(func));
        }
    }
    in_cycle
}
