//! Decides what is guarded.
//!
//! A loop that reads atomically is judged by its *core*: the strongly connected component of its header in its body without
//! the blocks that surely poll. The steps, in an order that makes the result unique:
//!
//! 1. Functions that read atomically and can run inside a cycle poll on entry (`summary.rs`).
//! 2. A loop whose core would still read atomically if *every* call of known functions polled is guarded: its callees
//!    need no poll for it. A core that reads only with calls in it needs those calls to poll.
//! 3. Callees in such cores poll on entry (`require.rs`).
//! 4. Cycles without a header that still read are cut at their backward edges (`cuts.rs`).
//! 5. What is guarded gets its price, its watch and its number.
//!
//! Steps 1 and 3 need to know the whole module; 2 and the prices do not. So a function's code is seen once and may go
//! then ([`Planner::see`]); only of those few that step 3 or 4 may concern the facts are kept.
//!
//! Invariant: afterwards every cycle that reads atomically, in a function or through calls, passes a charge or a poll.
//! Cost: near-linear in the code, whatever its nesting; a bounded number of passes over functions that have candidates.

use cranelift_codegen::ir::{Block, Function, Opcode};
use spinwise_loops::{Cores, LoopIndex, NaturalLoop, Node};
use spinwise_model::budget;
use spinwise_model::module::Module;

use crate::callees::Callees;
use crate::cuts::{cuts, left_uncut};
use crate::facts::{Effects, Facts};
use crate::plan::{Charge, EntryPoll, FunctionPlan, LoopPlan, Mode, Plan, Verdict};
use crate::require::require_callees;
use crate::summary::{EntryPolls, Summary};
use crate::watch::watch;

/// Plans the guards of a module whose functions it sees one at a time, on any thread.
#[derive(Debug)]
pub struct Planner<'m> {
    module: &'m Module,
    callees: Callees<'m>,
    mode: Mode,
}

/// What the planner keeps of a function: what it decides about its loops by itself, and what others may need to know.
#[derive(Debug)]
pub struct Seen {
    pub(crate) summary: Summary,
    loops: Vec<LoopPlan>,
    /// What is needed to decide the rest, if it depends on who polls on entry.
    open: Option<Box<Open>>,
}

/// A function with loops that others' polls may excuse, or with cycles that no guarded header closes.
#[derive(Debug)]
struct Open {
    facts: Facts,
    verdicts: Vec<Verdict>,
    /// [`header_offset`] of each node.
    offsets: Vec<u32>,
}

impl<'m> Planner<'m> {
    /// A planner for a module.
    #[must_use]
    pub fn new(module: &'m Module, mode: Mode) -> Self {
        Self { module, callees: Callees::new(module), mode }
    }

    /// Looks at a defined function as it is after inlining. Its calls name functions and builtins by the namespaces of
    /// [`spinwise_model::symbol`], and source locations are byte offsets in the module.
    #[must_use]
    pub fn see(&self, func: &Function) -> Seen {
        let Self { module, callees, mode } = self;
        let facts = Facts::new(module, callees, func);
        let verdicts = verdicts(&facts, *mode);
        let summary = Summary::new(&facts);
        let loops = natural_loops(module, func, &facts, &verdicts);
        let is_open = *mode != Mode::Off
            && (verdicts.contains(&Verdict::Calls) || left_uncut(&facts, &verdicts, |_| false, *mode).is_some());
        let open = is_open.then(|| {
            let offsets = facts.blocks.iter().map(|block| header_offset(func, *block)).collect();
            Box::new(Open { facts, verdicts, offsets })
        });
        Seen { summary, loops, open }
    }

    /// Plans, having seen all defined functions: `seen` is in index order.
    ///
    /// # Panics
    /// If a function is missing: always a bug.
    #[must_use]
    pub fn plan(&self, seen: Vec<Seen>) -> Plan {
        let Self { module, mode, .. } = *self;
        let imported = module.imported_functions;
        assert_eq!(seen.len() + imported as usize, module.functions.len(), "all defined functions");
        let mut polls = EntryPolls::new(module, &seen, mode);
        for Open { facts, verdicts, .. } in seen.iter().filter_map(|seen| seen.open.as_deref()) {
            require_callees(facts, verdicts, &mut polls, mode);
        }
        let mut next_site = 0;
        let functions = seen.into_iter().enumerate().zip(imported..).map(|((position, seen), function)| {
            let Seen { summary: Summary { size, .. }, mut loops, open } = seen;
            if let Some(Open { facts, verdicts, offsets }) = open.as_deref() {
                loops.extend(cuts(facts, verdicts, offsets, &polls, mode));
            }
            loops.sort_by_key(|natural| (natural.header_offset, natural.irreducible, natural.header));
            let entry_poll =
                polls.reason(position).map(|reason| EntryPoll { reason, size, charge: charge(&mut next_site, size) });
            for natural in loops.iter_mut().filter(|natural| natural.verdict == Verdict::Guarded) {
                natural.guard = Some(charge(&mut next_site, natural.size));
            }
            FunctionPlan { function, entry_poll, loops }
        });
        Plan { mode, functions: functions.collect() }
    }
}

/// Plans the guards of a module whose defined functions are all in memory, in index order: [`Planner`] on each.
///
/// # Panics
/// If `functions` are not the module's: always a bug.
#[must_use]
pub fn plan(module: &Module, functions: &[Function], mode: Mode) -> Plan {
    let planner = Planner::new(module, mode);
    planner.plan(functions.iter().map(|func| planner.see(func)).collect())
}

/// Whether a cycle through a node matters.
pub(crate) fn matters(facts: &Facts, node: Node, mode: Mode) -> bool {
    mode == Mode::All || facts.nodes[node as usize].atomic_reads > 0
}

/// Whether a function has cycles that matter at all.
pub(crate) fn has_candidates(facts: &Facts, mode: Mode) -> bool {
    facts.reachable().iter().any(|node| matters(facts, *node, mode))
}

/// Step 2.
fn verdicts(facts: &Facts, mode: Mode) -> Vec<Verdict> {
    let loops = facts.forest.loops().len();
    if loops == 0 || !has_candidates(facts, mode) {
        return vec![Verdict::NoAtomicRead; loops];
    }
    let reads = facts.forest.sums(|node| facts.nodes[node as usize].atomic_reads);
    let left_without = |polls: &dyn Fn(Node) -> bool| {
        Cores::new(&facts.graph, &facts.forest, |node| !polls(node)).holds(|node| matters(facts, node, mode))
    };
    let imports = left_without(&|node| facts.surely_polls(node, |_| false));
    let all_calls = left_without(&|node| facts.surely_polls(node, |_| true));
    (0..loops)
        .map(|index| match (imports[index], all_calls[index], mode) {
            _ if reads[index] == 0 && mode != Mode::All => Verdict::NoAtomicRead,
            (false, ..) => Verdict::Polls,
            (.., Mode::Off) => Verdict::Unguarded,
            (_, true, _) => Verdict::Guarded,
            (_, false, _) => Verdict::Calls,
        })
        .collect()
}

/// The plans of a function's natural loops.
fn natural_loops(module: &Module, func: &Function, facts: &Facts, verdicts: &[Verdict]) -> Vec<LoopPlan> {
    let sums = Sums::new(facts);
    let planned = facts.forest.indices().zip(facts.forest.loops()).map(|(index, natural)| {
        let NaturalLoop { header, latches, depth, .. } = natural;
        let header = facts.blocks[*header as usize];
        let latches = latches.iter().map(|latch| facts.blocks[*latch as usize]);
        let verdict = verdicts[index as usize];
        let plan = LoopPlan {
            header_offset: header_offset(func, header),
            depth: *depth,
            verdict,
            watch: if verdict == Verdict::Guarded { watch(module, func, facts, natural) } else { None },
            ..LoopPlan::new(header, latches)
        };
        sums.of(index, plan)
    });
    planned.collect()
}

/// What loop bodies hold, by loop.
struct Sums {
    values: Vec<u32>,
    atomic_reads: Vec<u32>,
    plain_loads: Vec<u32>,
    calls: Vec<u32>,
}

impl Sums {
    fn new(facts: &Facts) -> Self {
        let of = |kind: fn(&Effects) -> u32| facts.forest.sums(|node| kind(&facts.nodes[node as usize]));
        Self {
            values: of(|node| node.values),
            atomic_reads: of(|node| node.atomic_reads),
            plain_loads: of(|node| node.plain_loads),
            calls: of(|node| node.calls),
        }
    }

    fn of(&self, index: LoopIndex, plan: LoopPlan) -> LoopPlan {
        let index = index as usize;
        LoopPlan {
            size: self.values[index],
            atomic_reads: self.atomic_reads[index],
            plain_loads: self.plain_loads[index],
            calls: self.calls[index],
            ..plan
        }
    }
}

impl LoopPlan {
    /// A loop of which only the shape is known.
    pub(crate) fn new(header: Block, latches: impl Iterator<Item = Block>) -> Self {
        let mut latches: Vec<u32> = latches.map(Block::as_u32).collect();
        latches.sort_unstable();
        Self {
            header_offset: 0,
            header: header.as_u32(),
            latches,
            depth: 1,
            size: 0,
            atomic_reads: 0,
            plain_loads: 0,
            calls: 0,
            verdict: Verdict::Guarded,
            guard: None,
            watch: None,
            irreducible: false,
        }
    }
}

/// Where the `loop` operator of a header is: the location of the `nop` that the lifter put there, else of its first
/// instruction that has one.
pub(crate) fn header_offset(func: &Function, header: Block) -> u32 {
    let located = || func.layout.block_insts(header).filter(|inst| !func.srcloc(*inst).is_default());
    let nop = located().find(|inst| func.dfg.insts[*inst].opcode() == Opcode::Nop);
    nop.or_else(|| located().next()).map_or(0, |inst| func.srcloc(inst).bits())
}

fn charge(next_site: &mut u32, size: u32) -> Charge {
    let site = *next_site;
    *next_site += 1;
    let interval = budget::interval(size);
    Charge { site, interval, weight: budget::weight(interval) }
}
