//! Inlining: the bodies of small functions go into their callers, bottom-up over the call graph.
//!
//! Deciding and copying are apart, so that a module's code need not be in memory at once: [`Inlining::decide`] sees
//! [`Outline`]s of all functions, then [`Inlining::lend`] gets the few bodies that are copied, and [`Inlining::apply`]
//! copies them into one function at a time, on any thread.
//!
//! Invariants: a callee is final when it is copied, so that nothing is visited twice; recursive functions, import stubs
//! and glue are never copied; code grows by no more than the [`Budget`]; each copied instruction keeps the source
//! location it had in its callee. The result depends on the module alone.
//!
//! Source: the copying itself is Cranelift's (`cranelift_codegen::inline`), the decisions are here: it has none.
//! Cost: linear in the code looked at and in the code copied, apart from blocks split at each call.

mod graph;
mod locations;
mod outline;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::mem;

use cranelift_codegen::Context;
use cranelift_codegen::inline::{Inline, InlineCommand};
use cranelift_codegen::ir::{FuncRef, Function, Inst, Opcode, Value};
use spinwise_model::index::FuncIndex;
use spinwise_model::module::Module;

use self::graph::CallGraph;
use self::locations::Site;
pub use self::outline::Outline;
use self::outline::{DirectCall, callee, is_replaceable};

/// How much code inlining may copy. Sizes are CLIF instructions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Budget {
    /// The largest callee that is copied.
    pub callee: usize,
    /// How many instructions one caller may gain.
    pub caller_growth: usize,
    /// How many instructions the module may gain, in percent of what it has; a small module may gain
    /// [`Budget::caller_growth`] in any case.
    pub module_growth_percent: usize,
}

impl Budget {
    /// Inlines nothing.
    pub const NONE: Self = Self { callee: 0, caller_growth: 0, module_growth_percent: 0 };
    /// For fast code: a call costs about as much as a dozen instructions, and hides its callee from the optimiser.
    pub const SPEED: Self = Self { callee: 40, caller_growth: 2000, module_growth_percent: 25 };
    /// For small code: only bodies about as large as the call they replace.
    pub const SIZE: Self = Self { callee: 8, caller_growth: 500, module_growth_percent: 5 };
}

/// What is copied where, and the bodies to copy.
#[derive(Debug)]
pub struct Inlining {
    graph: CallGraph,
    /// Instructions of each function, copies included, by position.
    sizes: Vec<usize>,
    /// Whether each function, copies included, calls by another convention than the guest's own.
    leaves_guest: Vec<bool>,
    /// Instructions that each function may gain; 0 if it gains none.
    allowances: Vec<usize>,
    /// The largest callee that is copied.
    largest: usize,
    /// The positions of functions that are copied, each after those copied into it.
    copied: Vec<usize>,
    /// Their final bodies, by position.
    bodies: Vec<Option<Box<Function>>>,
    pairs: Vec<(FuncIndex, FuncIndex)>,
}

impl Inlining {
    /// Decides what is copied in a module. Functions are named by their position in `outlines`, which may come in any
    /// order; those without an index in the module are left alone.
    #[must_use]
    pub fn decide(module: &Module, outlines: &[Outline], budget: Budget) -> Self {
        let mut this = Self {
            graph: CallGraph::new(module, outlines),
            sizes: outlines.iter().map(|outline| outline.size).collect(),
            leaves_guest: outlines.iter().map(|outline| outline.leaves_guest).collect(),
            allowances: vec![0; outlines.len()],
            largest: budget.callee,
            copied: Vec::new(),
            bodies: Vec::new(),
            pairs: Vec::new(),
        };
        let mut contents: Vec<BTreeSet<FuncIndex>> = vec![BTreeSet::new(); outlines.len()];
        let mut is_copied = vec![false; outlines.len()];
        let total: usize = this.sizes.iter().sum();
        let mut module_left = (total / 100 * budget.module_growth_percent).max(budget.caller_growth);
        for at in 0..outlines.len() {
            let caller = this.graph.bottom_up()[at];
            let allowance = budget.caller_growth.min(module_left);
            let mut left = allowance;
            let mut copied = BTreeSet::new();
            for DirectCall { callee, opcode, copied_as } in &outlines[caller].calls {
                let Some(callee) = this.graph.position(*callee).filter(|_| this.graph.may_copy_into(caller)) else {
                    continue;
                };
                if *copied_as == Some(outlines[callee].signature) && this.affords(callee, *opcode, &mut left) {
                    copied.insert(callee);
                }
            }
            if copied.is_empty() {
                continue;
            }
            let gained = allowance - left;
            module_left -= gained;
            this.sizes[caller] += gained;
            this.allowances[caller] = allowance;
            let mut content = BTreeSet::new();
            for callee in copied {
                this.leaves_guest[caller] |= this.leaves_guest[callee];
                content.insert(this.graph.index(callee));
                content.extend(&contents[callee]);
                is_copied[callee] = true;
            }
            let caller_index = this.graph.index(caller);
            this.pairs.extend(content.iter().map(|callee| (*callee, caller_index)));
            contents[caller] = content;
        }
        this.pairs.sort_unstable();
        this.copied = this.graph.bottom_up().iter().copied().filter(|position| is_copied[*position]).collect();
        this.bodies.resize_with(outlines.len(), || None);
        this
    }

    /// The positions of the functions whose bodies [`Inlining::lend`] wants, in that order.
    #[must_use]
    pub fn copied(&self) -> &[usize] {
        &self.copied
    }

    /// Takes the bodies of the functions that are copied, as they were outlined, in the order of [`Inlining::copied`].
    ///
    /// # Panics
    /// If there are more or fewer: always a bug. Also as [`Inlining::apply`].
    pub fn lend(&mut self, bodies: impl IntoIterator<Item = Function>) {
        let mut context = Context::new();
        let mut lent = 0;
        for body in bodies {
            let position = self.copied[lent];
            // Final: what is copied into it came before it.
            let body = self.apply(position, body, &mut context);
            self.bodies[position] = Some(Box::new(body));
            lent += 1;
        }
        assert_eq!(lent, self.copied.len(), "all bodies are lent: always a bug");
    }

    /// Copies into the function at a position what was decided. `context` lends its allocations.
    ///
    /// # Panics
    /// If Cranelift's inliner does not copy instruction by instruction, or runs out of its 65,535 kinds of memory access:
    /// always a bug.
    #[must_use]
    pub fn apply(&self, position: usize, func: Function, context: &mut Context) -> Function {
        if self.allowances[position] == 0 {
            return func;
        }
        context.func = func;
        let mut hook = Hook { inlining: self, left: self.allowances[position], sites: Vec::new() };
        context.inline(&mut hook).expect("a module has far fewer kinds of memory access: always a bug");
        locations::restore(&mut context.func, &hook.sites, |callee| self.body(callee));
        mem::replace(&mut context.func, Function::new())
    }

    /// Which function's code is now also in which, as (callee, caller) pairs in ascending order; a function copied into
    /// one that was copied itself is in both.
    #[must_use]
    pub fn pairs(&self) -> &[(FuncIndex, FuncIndex)] {
        &self.pairs
    }

    /// Whether a callee is copied to a call of it, where the caller may still gain `left` instructions; it has gained
    /// them then.
    fn affords(&self, callee: usize, call: Opcode, left: &mut usize) -> bool {
        let cost = self.sizes[callee];
        // Each call of the callee gets the caller's handler, which only the guest's convention can be sure to reach.
        let possible = call != Opcode::TryCall || !self.leaves_guest[callee];
        let worth = possible && self.graph.may_be_copied(callee) && cost <= self.largest.min(*left);
        *left -= if worth { cost } else { 0 };
        worth
    }

    fn body(&self, position: usize) -> &Function {
        self.bodies[position].as_ref().expect("it was copied from here")
    }
}

/// Copies small defined functions of a module, all in memory, into their callers.
///
/// `functions` are those of the module by name ([`spinwise_model::symbol::NS_FUNC`]), in any order; others are left
/// alone. Returns [`Inlining::pairs`].
///
/// # Panics
/// As [`Inlining::apply`].
pub fn inline(module: &Module, functions: &mut [Function], budget: Budget) -> Vec<(FuncIndex, FuncIndex)> {
    let outlines: Vec<_> = functions.iter().map(Outline::new).collect();
    let mut inlining = Inlining::decide(module, &outlines, budget);
    let bodies: Vec<_> = inlining.copied().iter().map(|position| functions[*position].clone()).collect();
    inlining.lend(bodies);
    let mut context = Context::new();
    for (position, func) in functions.iter_mut().enumerate() {
        *func = inlining.apply(position, mem::replace(func, Function::new()), &mut context);
    }
    inlining.pairs
}

/// Decides for each call of one caller, and remembers what was copied.
struct Hook<'a> {
    inlining: &'a Inlining,
    /// Instructions that the caller may still gain.
    left: usize,
    sites: Vec<Site>,
}

impl Inline for Hook<'_> {
    fn inline(
        &mut self,
        caller: &Function,
        call: Inst,
        opcode: Opcode,
        func_ref: FuncRef,
        _: &[Value],
    ) -> InlineCommand<'_> {
        let Self { inlining, .. } = *self;
        let Some(callee) = callee(caller, func_ref).and_then(|index| inlining.graph.position(index)) else {
            return InlineCommand::KeepCall;
        };
        let cold = caller.layout.inst_block(call).is_some_and(|block| caller.layout.is_cold(block));
        // As in the outline, where digests stand for signatures. What is not copied there was not lent.
        let Some(body) = inlining.bodies[callee].as_deref().filter(|_| !cold && is_replaceable(opcode)) else {
            return InlineCommand::KeepCall;
        };
        let equal = caller.dfg.signatures[caller.dfg.ext_funcs[func_ref].signature] == body.signature;
        if !equal || !inlining.affords(callee, opcode, &mut self.left) {
            return InlineCommand::KeepCall;
        }
        self.sites.push(Site { first: caller.dfg.num_insts(), callee, opcode });
        // Its own calls were decided when it was the caller.
        InlineCommand::Inline { callee: Cow::Borrowed(body), visit_callee: false }
    }
}
