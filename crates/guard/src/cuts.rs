//! Cycles that no guarded header closes: step 4 of the planner.
//!
//! Structured code has none. Where code was made so that a cycle can be entered in several places, no node of it dominates the
//! others, and no natural loop holds it. Of each component that still reads without the back edges that guards hold, every
//! edge that leads backwards in reverse postorder is cut, that is guarded: what is left leads forwards only.
//!
//! Cost: linear.

use spinwise_loops::{Components, Node};

use crate::facts::Facts;
use crate::plan::{LoopPlan, Mode, Verdict};
use crate::planner::{has_candidates, matters};
use crate::summary::EntryPolls;

/// What is left when what polls and what guards hold is deleted.
pub(crate) struct Uncut {
    rest: Components,
    /// Whether each component is a cycle that matters.
    reads: Vec<bool>,
}

/// What is left of a function whose callees poll on entry if `on_entry` says so; `None` if no cycle in it matters. The
/// more callees poll, the less is left.
pub(crate) fn left_uncut(
    facts: &Facts,
    verdicts: &[Verdict],
    on_entry: impl Fn(u32) -> bool,
    mode: Mode,
) -> Option<Uncut> {
    if !has_candidates(facts, mode) {
        return None;
    }
    let keep = |node: Node| facts.dominators.is_reachable(node) && !facts.surely_polls(node, &on_entry);
    let rest = Components::new(&facts.graph, keep, |from, to| !is_guarded(facts, verdicts, from, to));
    let mut reads = vec![false; rest.count()];
    for &node in facts.reachable() {
        if let Some(component) = rest.of(node).filter(|component| rest.is_cyclic(*component)) {
            reads[component as usize] |= matters(facts, node, mode);
        }
    }
    reads.contains(&true).then_some(Uncut { rest, reads })
}

/// The guards that cut what is left, one for each node that edges lead back to. `offsets` are the header offsets of all
/// nodes.
pub(crate) fn cuts(
    facts: &Facts,
    verdicts: &[Verdict],
    offsets: &[u32],
    polls: &EntryPolls,
    mode: Mode,
) -> Vec<LoopPlan> {
    let Some(Uncut { rest, reads }) = left_uncut(facts, verdicts, |func| polls.contains(func), mode) else {
        return Vec::new();
    };
    let order = facts.graph.reverse_postorder();
    let mut place = vec![0usize; facts.graph.len()];
    order.iter().enumerate().for_each(|(at, node)| place[*node as usize] = at);
    let mut bodies = vec![LoopPlan::new(facts.blocks[0], std::iter::empty()); rest.count()];
    for node in &order {
        if let Some(component) = rest.of(*node) {
            bodies[component as usize].add(facts, *node);
        }
    }
    let cut = |to: Node| {
        let component = rest.of(to).filter(|component| reads[*component as usize])?;
        let backward = |from: &Node| {
            rest.same(*from, to)
                && !is_guarded(facts, verdicts, *from, to)
                && place[to as usize] <= place[*from as usize]
        };
        let from = facts.graph.predecessors(to).iter().copied().filter(backward);
        let LoopPlan { header, latches, .. } =
            LoopPlan::new(facts.blocks[to as usize], from.map(|node| facts.blocks[node as usize]));
        let around = facts.forest.innermost(to).map_or(0, |around| facts.forest.loops()[around as usize].depth);
        (!latches.is_empty()).then(|| LoopPlan {
            header_offset: offsets[to as usize],
            header,
            latches,
            depth: around + 1,
            irreducible: true,
            ..bodies[component as usize].clone()
        })
    };
    order.iter().filter_map(|node| cut(*node)).collect()
}

impl LoopPlan {
    /// Counts a node of its body.
    fn add(&mut self, facts: &Facts, node: Node) {
        let effects = &facts.nodes[node as usize];
        self.size = self.size.saturating_add(effects.values);
        self.atomic_reads = self.atomic_reads.saturating_add(effects.atomic_reads);
        self.plain_loads = self.plain_loads.saturating_add(effects.plain_loads);
        self.calls = self.calls.saturating_add(effects.calls);
    }
}

/// Whether an edge leads back to the header of a guarded loop.
fn is_guarded(facts: &Facts, verdicts: &[Verdict], from: Node, to: Node) -> bool {
    facts.dominators.dominates(to, from) && heads_guarded(facts, verdicts, to)
}

/// Whether a node is the header of a guarded loop.
fn heads_guarded(facts: &Facts, verdicts: &[Verdict], node: Node) -> bool {
    facts.forest.innermost(node).is_some_and(|index| {
        facts.forest.loops()[index as usize].header == node && verdicts[index as usize] == Verdict::Guarded
    })
}
