//! The plan: which loops are guarded and which functions poll on entry, with the reasons, as plain sorted data.
//!
//! Invariant: a plan depends on the module, its functions and the mode alone, and sorts by function, then loop header
//! offset. Sites are numbered in that order, an entry poll before the loops of its function, without gaps.

use serde::{Deserialize, Serialize};

/// Which cycles are guarded.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// Cycles that read shared memory atomically: no thread can wait out of reach.
    #[default]
    Spin,
    /// Every cycle and every recursion, and so every call tree: any code can be stopped.
    All,
    /// None.
    Off,
}

/// What is guarded in a module.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Plan {
    /// The rule it follows.
    pub mode: Mode,
    /// One entry for each defined function, in index order.
    pub functions: Vec<FunctionPlan>,
}

/// What is guarded in one function.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct FunctionPlan {
    /// Its index in the wasm function index space.
    pub function: u32,
    /// The poll at its entry.
    pub entry_poll: Option<EntryPoll>,
    /// The loops of its final code, by header offset.
    pub loops: Vec<LoopPlan>,
}

/// A function that polls on entry.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct EntryPoll {
    /// Why.
    pub reason: EntryReason,
    /// SSA values in the function.
    pub size: u32,
    /// The price.
    pub charge: Charge,
}

/// Why a function polls on entry.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EntryReason {
    /// It reads atomically and can run inside a cycle.
    ReadsAtomically,
    /// A loop that reads atomically has no other poll than its calls.
    CalledInSpinLoop,
    /// It makes calls, and [`Mode::All`] must be able to stop any call tree.
    MakesCalls,
}

impl EntryReason {
    /// Its name in the output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::ReadsAtomically => "reads-atomically",
            Self::CalledInSpinLoop => "called-in-spin-loop",
            Self::MakesCalls => "makes-calls",
        }
    }
}

/// A place that pays from the thread's budget, and polls when it is gone.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Charge {
    /// Its number in the module.
    pub site: u32,
    /// How often it can be passed on a full budget.
    pub interval: u32,
    /// What it pays each time, in value-iterations.
    pub weight: i32,
}

/// A loop of the final code.
#[derive(Clone, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct LoopPlan {
    /// Byte offset of its `loop` operator in the module.
    pub header_offset: u32,
    /// Its header's block number. For a cycle without a header, where it is cut.
    pub header: u32,
    /// The blocks that its back edges come from, ascending.
    pub latches: Vec<u32>,
    /// 1 for an outermost loop.
    pub depth: u32,
    /// SSA values in its body.
    pub size: u32,
    /// Atomic reads in its body.
    pub atomic_reads: u32,
    /// Plain loads of guest memory in its body.
    pub plain_loads: u32,
    /// Calls of wasm functions, imported ones too, in its body.
    pub calls: u32,
    /// Whether it is guarded, and why not.
    pub verdict: Verdict,
    /// The guard's price, if it is guarded.
    pub guard: Option<Charge>,
    /// What ends the wait, if it is guarded and simply waits.
    pub watch: Option<Watch>,
    /// Whether it is a cycle without a header, cut here.
    pub irreducible: bool,
}

/// What the plan does about a loop.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    /// Its back edges pay from the budget.
    Guarded,
    /// Every cycle that matters polls by itself: an import or a wait.
    Polls,
    /// Every cycle that matters polls, some of them in a function that polls on entry.
    Calls,
    /// It does not read atomically.
    NoAtomicRead,
    /// It reads atomically and can spin out of reach: only with [`Mode::Off`].
    Unguarded,
}

impl Verdict {
    /// Its name in the output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Guarded => "guarded",
            Self::Polls => "polls",
            Self::Calls => "calls",
            Self::NoAtomicRead => "no-atomic-read",
            Self::Unguarded => "unguarded",
        }
    }
}

/// What ends a wait: the loop is left as soon as `word relation operand` holds, where the word is loaded atomically from an
/// address, and address and operand stay the same from turn to turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Watch {
    /// The memory.
    pub memory: u32,
    /// Bits of the word: 8, 16, 32 or 64. A narrow word is zero-extended before it is compared.
    pub width: u32,
    /// The relation that ends the wait, the word on its left.
    pub exit_when: Relation,
    /// The static offset of the load.
    pub offset: u64,
}

/// A relation between the watched word and the operand.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[expect(missing_docs, reason = "named as the WebAssembly comparison operators are")]
pub enum Relation {
    Eq,
    Ne,
    LtS,
    LtU,
    GtS,
    GtU,
    LeS,
    LeU,
    GeS,
    GeU,
}

impl Relation {
    /// Its name in the output.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Eq => "eq",
            Self::Ne => "ne",
            Self::LtS => "lt_s",
            Self::LtU => "lt_u",
            Self::GtS => "gt_s",
            Self::GtU => "gt_u",
            Self::LeS => "le_s",
            Self::LeU => "le_u",
            Self::GeS => "ge_s",
            Self::GeU => "ge_u",
        }
    }

    /// Whether it compares as signed numbers.
    #[must_use]
    pub const fn is_signed(self) -> bool {
        matches!(self, Self::LtS | Self::GtS | Self::LeS | Self::GeS)
    }
}

/// One numbered place that may call `poll`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Site<'a> {
    /// The wasm function it is in.
    pub function: u32,
    /// The loop it guards; `None` at a function's entry.
    pub guarded: Option<&'a LoopPlan>,
    /// Its number and price.
    pub charge: Charge,
}

impl Plan {
    /// All sites, by number.
    pub fn sites(&self) -> impl Iterator<Item = Site<'_>> {
        self.functions.iter().flat_map(|plan| {
            let entry = plan.entry_poll.iter().map(|entry| (None, entry.charge));
            let loops = plan.loops.iter().filter_map(|natural| Some((Some(natural), natural.guard?)));
            entry.chain(loops).map(|(guarded, charge)| Site { function: plan.function, guarded, charge })
        })
    }

    /// What it comes to.
    #[must_use]
    pub fn totals(&self) -> Totals {
        let loops = || self.functions.iter().flat_map(|plan| &plan.loops);
        Totals {
            loops: loops().count(),
            guarded: loops().filter(|natural| natural.guard.is_some()).count(),
            entry_polls: self.functions.iter().filter(|plan| plan.entry_poll.is_some()).count(),
        }
    }
}

/// Counts over a plan.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize, Deserialize)]
pub struct Totals {
    /// Loops of the final code.
    pub loops: usize,
    /// Those that are guarded.
    pub guarded: usize,
    /// Functions that poll on entry.
    pub entry_polls: usize,
}
