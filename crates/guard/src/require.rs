//! Which functions must poll on entry because a loop needs them to: step 3 of the planner.
//!
//! A loop whose core reads, and would not if every known call in it polled, needs some of its callees. If a call is on every
//! turn of what is left of the loop, its callees suffice, and the call with the fewest is taken; else all that the core
//! calls poll. Inner loops are served first, looking again after each round: a poll that one loop needed may serve the next.
//!
//! Invariant: afterwards no core of such a loop reads.
//! Cost: a bounded number of linear passes.

use spinwise_loops::{Cores, LoopForest, NaturalLoop, Node};

use crate::facts::Facts;
use crate::plan::{Mode, Verdict};
use crate::planner::matters;
use crate::summary::EntryPolls;

/// Rounds in which only the innermost loops in need are served; the last serves all that are left.
const ROUNDS: usize = 4;

/// Makes the callees poll that the loops of one function need.
pub(crate) fn require_callees(facts: &Facts, verdicts: &[Verdict], polls: &mut EntryPolls, mode: Mode) {
    if !verdicts.contains(&Verdict::Calls) {
        return;
    }
    for round in 1..=ROUNDS {
        let cores =
            Cores::new(&facts.graph, &facts.forest, |node| !facts.surely_polls(node, |func| polls.contains(func)));
        let left = cores.holds(|node| matters(facts, node, mode));
        let mut needy: Vec<bool> =
            verdicts.iter().zip(left).map(|(verdict, left)| *verdict == Verdict::Calls && left).collect();
        if !needy.contains(&true) {
            return;
        }
        if round < ROUNDS {
            keep_innermost(&facts.forest, &mut needy);
        }
        let mut seen = vec![false; facts.nodes.len()];
        for (index, natural) in facts.forest.indices().zip(facts.forest.loops()) {
            // In the last round an outer core that was walked through had this one in it.
            if !needy[index as usize] || seen[natural.header as usize] {
                continue;
            }
            let core: Vec<Node> = cores.nodes(index).collect();
            core.iter().for_each(|node| seen[*node as usize] = true);
            let each_turn = if round < ROUNDS { each_turn(facts, natural, &seen, polls) } else { None };
            match each_turn {
                Some(callees) => callees.iter().for_each(|callee| polls.require(*callee)),
                None => {
                    let callees = core.iter().flat_map(|node| facts.calls(*node)).flatten();
                    callees.for_each(|callee| polls.require(*callee));
                }
            }
        }
    }
}

/// The callees of a call that every turn of a core makes, where there is one: of several the one with the fewest that do not
/// poll yet, then the first. A node that dominates all latches of the core lies on every cycle through the header. Cores
/// looked at in one round are disjoint, so `in_core` may hold others too.
fn each_turn<'f>(facts: &'f Facts, natural: &NaturalLoop, in_core: &[bool], polls: &EntryPolls) -> Option<&'f [u32]> {
    let above = |node: Node| facts.dominators.immediate(node);
    let mut latches = natural.latches.iter().copied().filter(|latch| in_core[*latch as usize]);
    let mut at = latches.next()?;
    for latch in latches {
        while !facts.dominators.dominates(at, latch) {
            at = above(at)?;
        }
    }
    let mut every_turn = vec![at];
    while at != natural.header {
        at = above(at)?;
        every_turn.push(at);
    }
    let missing = |callees: &&[u32]| callees.iter().filter(|callee| !polls.contains(**callee)).count();
    every_turn.iter().rev().flat_map(|node| facts.calls(*node)).min_by_key(missing)
}

/// Unmarks loops that have a marked one in them.
fn keep_innermost(forest: &LoopForest, marked: &mut [bool]) {
    let mut above = vec![false; marked.len()];
    for (index, natural) in forest.loops().iter().enumerate().rev() {
        if let Some(parent) = natural.parent {
            above[parent as usize] |= above[index] || marked[index];
        }
        marked[index] &= !above[index];
    }
}
