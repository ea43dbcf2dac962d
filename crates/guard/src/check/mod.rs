//! The checker: proves from guarded code alone that no cycle reads shared memory atomically without a poll.
//!
//! It knows neither the plan nor the planner's code: it recognises charges by what their instructions do, walks the code and
//! finds components by itself. For guarded functions it establishes:
//!
//! 1. Every call of the poll thunk and every write of the budget is part of a whole, correct charge.
//! 2. In each function, delete the blocks that surely charge or poll. No cycle that is left reads atomically, or calls a
//!    function that may read without having charged.
//! 3. No recursion of functions that do not charge on entry reads.
//! 4. No function that can be called through a reference that the guest takes reads without having charged. References
//!    that a host hands in lead through reference stubs, which charge.
//!
//! Under [`Mode::All`] every cycle counts as reading, and every function that calls guest code must charge on entry.
//!
//! Invariant: it errs on the side of reporting. Cost: linear in the code.

mod charge;
mod components;
mod view;

use std::fmt;

use cranelift_codegen::ir::Function;
use serde::{Deserialize, Serialize};
use spinwise_model::module::Module;

use self::components::cyclic_components;
pub use self::view::View;
use self::view::{Call, Tables};
use crate::plan::Mode;

/// What the checker saw in guarded code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct CheckReport {
    /// Functions looked at.
    pub functions: usize,
    /// Correct charges, entry polls included.
    pub charges: usize,
    /// Functions that charge on entry.
    pub entry_polls: usize,
    /// Atomic reads.
    pub atomic_reads: usize,
}

/// Where the promise does not hold.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Violation {
    /// The wasm function.
    pub function: u32,
    /// Byte offset in the module of code nearby, where known.
    pub offset: Option<u32>,
    /// What is wrong there.
    pub problem: Problem,
}

/// What is wrong.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Problem {
    /// A cycle reads atomically and does not poll.
    Cycle,
    /// A cycle calls a function that may read atomically without having charged, and does not poll.
    CalleeReads(u32),
    /// A recursion reads atomically, and no function of it charges on entry.
    Recursion,
    /// A function that can be called through a reference may read atomically without having charged.
    Reference,
    /// A function that makes calls does not charge on entry, though everything must be stoppable.
    MakesCalls,
    /// A guard that does not guard.
    Guard(&'static str),
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "function {}", self.function)?;
        if let Some(offset) = self.offset {
            write!(f, ", wasm offset {offset:#x}")?;
        }
        match self.problem {
            Problem::Cycle => f.write_str(": a cycle reads atomically and does not poll"),
            Problem::CalleeReads(callee) => {
                write!(
                    f,
                    ": a cycle that does not poll calls function {callee}, which reads atomically before it polls"
                )
            }
            Problem::Recursion => f.write_str(": a recursion reads atomically and does not poll"),
            Problem::Reference => f.write_str(": it can be called by reference and reads atomically before it polls"),
            Problem::MakesCalls => f.write_str(": it makes calls and does not poll on entry"),
            Problem::Guard(what) => write!(f, ": a guard is broken: {what}"),
        }
    }
}

/// Checks the guarded functions of a module, which it sees one at a time, on any thread.
#[derive(Debug)]
pub struct Checker<'m> {
    module: &'m Module,
    tables: Tables<'m>,
    mode: Mode,
}

impl<'m> Checker<'m> {
    /// A checker for a module whose functions were guarded in a mode.
    #[must_use]
    pub fn new(module: &'m Module, mode: Mode) -> Self {
        Self { module, tables: Tables::new(module), mode }
    }

    /// Looks at a guarded function, by its wasm index.
    #[must_use]
    pub fn see(&self, index: u32, func: &Function) -> View {
        View::new(&self.tables, index, func)
    }

    /// Checks, having seen all defined functions: `views` are in index order. With [`Mode::Off`] there is nothing to
    /// hold them to.
    ///
    /// # Errors
    /// All places where the promise of the mode does not hold: always a bug of the planner or of a later pass.
    pub fn check(&self, views: Vec<View>) -> Result<CheckReport, Vec<Violation>> {
        let Self { module, mode, .. } = *self;
        let report = CheckReport {
            functions: views.len(),
            charges: views.iter().map(|view| view.charges).sum(),
            entry_polls: views.iter().filter(|view| view.charges_on_entry).count(),
            atomic_reads: views.iter().map(|view| view.atomic_reads).sum(),
        };
        if mode == Mode::Off {
            return Ok(report);
        }
        let mut violations: Vec<Violation> = views.iter().flat_map(|view| view.broken.iter().cloned()).collect();
        let program = Program { module, readers: readers(module, &views), views };
        for view in &program.views {
            program.check_cycles(view, mode, &mut violations);
            if mode == Mode::All && view.calls_guest_code(module.imported_functions) && !view.charges_on_entry {
                violations.push(view.violation(0, Problem::MakesCalls));
            }
        }
        program.check_recursion(&mut violations);
        program.check_references(&mut violations);
        if violations.is_empty() { Ok(report) } else { Err(violations) }
    }
}

/// Checks the guarded functions of a module, all in memory, in index order: [`Checker`] on each.
///
/// # Errors
/// As [`Checker::check`].
pub fn check(module: &Module, functions: &[Function], mode: Mode) -> Result<CheckReport, Vec<Violation>> {
    let checker = Checker::new(module, mode);
    checker.check((module.imported_functions..).zip(functions).map(|(index, func)| checker.see(index, func)).collect())
}

/// Checks that a piece of glue at the border of guest code charges at its entry.
///
/// # Errors
/// What is wrong with it.
pub fn check_boundary(func: &Function) -> Result<(), Problem> {
    let charges = charge::find(func);
    let entry = func.layout.entry_block();
    match charges.broken.first() {
        Some((_, what)) => Err(Problem::Guard(what)),
        None if charges.hot.first().is_some_and(|block| Some(*block) == entry) => Ok(()),
        None => Err(Problem::Guard("no charge at the entry")),
    }
}

struct Program<'m> {
    module: &'m Module,
    views: Vec<View>,
    /// For each defined function, whether it may read atomically without having charged on entry.
    readers: Vec<bool>,
}

impl Program<'_> {
    fn view(&self, func: u32) -> &View {
        &self.views[(func - self.module.imported_functions) as usize]
    }

    fn is_reader(&self, func: u32) -> bool {
        func >= self.module.imported_functions && self.readers[(func - self.module.imported_functions) as usize]
    }

    /// Whether a call surely polls: an imported function's stub does, and so does a function that charges on entry.
    fn polls(&self, call: &Call) -> bool {
        match call {
            Call::Poll => true,
            Call::Unknown => false,
            Call::OneOf(callees) => callees
                .iter()
                .all(|callee| *callee < self.module.imported_functions || self.view(*callee).charges_on_entry),
        }
    }

    fn check_cycles(&self, view: &View, mode: Mode, violations: &mut Vec<Violation>) {
        let polled =
            |block: usize| view.blocks[block].charges || view.blocks[block].calls.iter().any(|c| self.polls(c));
        let kept: Vec<bool> =
            (0..view.blocks.len()).map(|block| view.blocks[block].reachable && !polled(block)).collect();
        let next = |block: usize| view.blocks[block].next.iter().copied().filter(|next| kept[*next]);
        for cycle in cyclic_components(view.blocks.len(), |block| kept[block], next) {
            if mode == Mode::All {
                violations.push(view.violation(cycle[0], Problem::Cycle));
                continue;
            }
            for block in cycle {
                if view.blocks[block].reads {
                    violations.push(view.violation(block, Problem::Cycle));
                }
                let readers = view.blocks[block].callees().filter(|callee| self.is_reader(*callee));
                violations.extend(readers.map(|callee| view.violation(block, Problem::CalleeReads(callee))));
            }
        }
    }

    /// Of the functions that do not charge on entry, none that reads is in a recursion. Recursions through references are
    /// covered by [`Program::check_references`]: a reader among them would make the function referred to a reader.
    fn check_recursion(&self, violations: &mut Vec<Violation>) {
        let first = self.module.imported_functions;
        let charges = |func: usize| self.views[func].charges_on_entry;
        let next = |func: usize| {
            let defined = self.views[func].callees().filter(move |callee| *callee >= first);
            defined.map(move |callee| (callee - first) as usize).filter(move |callee| !charges(*callee))
        };
        for recursion in cyclic_components(self.views.len(), |func| !charges(func), next) {
            let readers = recursion.into_iter().filter(|func| self.readers[*func]);
            violations.extend(readers.map(|func| self.views[func].violation(0, Problem::Recursion)));
        }
    }

    fn check_references(&self, violations: &mut Vec<Violation>) {
        let readers = self.module.address_taken.iter().map(|func| func.0).filter(|func| self.is_reader(*func));
        violations.extend(readers.map(|func| self.view(func).violation(0, Problem::Reference)));
    }
}

/// The functions that may read atomically without having charged on entry: those that read, and their callers.
fn readers(module: &Module, views: &[View]) -> Vec<bool> {
    let first = module.imported_functions;
    let mut callers = vec![Vec::new(); views.len()];
    for (caller, view) in views.iter().enumerate() {
        for callee in view.callees().filter(|callee| *callee >= first) {
            callers[(callee - first) as usize].push(caller);
        }
    }
    let mut readers = vec![false; views.len()];
    let mut work: Vec<usize> = (0..views.len()).filter(|func| views[*func].atomic_reads > 0).collect();
    while let Some(func) = work.pop() {
        if !views[func].charges_on_entry && !readers[func] {
            readers[func] = true;
            work.extend_from_slice(&callers[func]);
        }
    }
    readers
}
