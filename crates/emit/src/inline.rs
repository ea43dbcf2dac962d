//! Inlining: the bodies of small functions go into their callers, bottom-up over the call graph.
//!
//! Invariants: a callee is final when it is copied, so that nothing is visited twice; recursive functions, import stubs
//! and glue are never copied; code grows by no more than the [`Budget`]; each copied instruction keeps the source
//! location it had in its callee. The result depends on the module alone.
//!
//! Source: the copying itself is Cranelift's (`cranelift_codegen::inline`), the decisions are here: it has none.
//! Cost: linear in the code looked at and in the code copied, apart from blocks split at each call.

mod graph;
mod locations;

use std::borrow::Cow;
use std::collections::BTreeSet;
use std::mem;

use cranelift_codegen::Context;
use cranelift_codegen::inline::{Inline, InlineCommand};
use cranelift_codegen::ir::{FuncRef, Function, Inst, Opcode, Value};
use cranelift_codegen::isa::CallConv;
use spinwise_model::index::FuncIndex;
use spinwise_model::module::Module;

use self::graph::CallGraph;
use self::locations::Site;

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

/// Copies small defined functions into their callers.
///
/// `functions` are those of the module by name ([`spinwise_model::symbol::NS_FUNC`]), in any order; others are left
/// alone. Returns which function's code is now also in which, as (callee, caller) pairs in ascending order; a function
/// copied into one that was copied itself is in both.
///
/// # Panics
/// If Cranelift's inliner does not copy instruction by instruction, or runs out of its 65,535 kinds of memory access:
/// always a bug.
pub fn inline(module: &Module, functions: &mut [Function], budget: Budget) -> Vec<(FuncIndex, FuncIndex)> {
    let graph = CallGraph::new(module, functions);
    let mut sizes: Vec<usize> = functions.iter().map(size).collect();
    let mut contents: Vec<BTreeSet<FuncIndex>> = vec![BTreeSet::new(); functions.len()];
    let total: usize = sizes.iter().sum();
    let mut module_left = (total / 100 * budget.module_growth_percent).max(budget.caller_growth);

    let mut context = Context::new();
    for caller in graph.bottom_up() {
        let copies = |callee: usize| graph.may_be_copied(callee) && sizes[callee] <= budget.callee;
        if !graph.callees(caller).any(copies) {
            continue;
        }
        context.func = mem::replace(&mut functions[caller], Function::new());
        let left = budget.caller_growth.min(module_left);
        let mut hook =
            Hook { graph: &graph, functions, sizes: &sizes, largest: budget.callee, left, sites: Vec::new() };
        context.inline(&mut hook).expect("a module has far fewer kinds of memory access: always a bug");
        let Hook { left: unspent, sites, .. } = hook;

        let gained = left - unspent;
        module_left -= gained;
        sizes[caller] += gained;
        locations::restore(&mut context.func, &sites, functions);
        let mut copied = mem::take(&mut contents[caller]);
        for site in &sites {
            copied.insert(graph.index(site.callee));
            copied.extend(&contents[site.callee]);
        }
        contents[caller] = copied;
        functions[caller] = mem::replace(&mut context.func, Function::new());
    }

    let mut pairs: Vec<_> = contents
        .iter()
        .enumerate()
        .filter(|(_, callees)| !callees.is_empty())
        .flat_map(|(caller, callees)| {
            let caller = graph.index(caller);
            callees.iter().map(move |callee| (*callee, caller))
        })
        .collect();
    pairs.sort_unstable();
    pairs
}

/// Instructions of a function.
fn size(func: &Function) -> usize {
    func.layout.blocks().map(|block| func.layout.block_insts(block).count()).sum()
}

/// Decides for each call of one caller, and remembers what was copied.
struct Hook<'a> {
    graph: &'a CallGraph,
    functions: &'a [Function],
    sizes: &'a [usize],
    /// The largest callee that is copied.
    largest: usize,
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
        let Some(callee) = self.graph.resolve(caller, func_ref) else { return InlineCommand::KeepCall };
        let cost = self.sizes[callee];
        let cold = caller.layout.inst_block(call).is_some_and(|block| caller.layout.is_cold(block));
        let body = &self.functions[callee];
        let worth = self.graph.may_be_copied(callee) && cost <= self.largest.min(self.left) && !cold;
        // Cranelift asserts both; hand-written code may break them.
        let possible = match opcode {
            Opcode::Call | Opcode::ReturnCall => true,
            // Each call of the callee gets the caller's handler, which only the guest's convention can be sure to reach.
            Opcode::TryCall => calls_only_guest_code(body),
            _ => false,
        } && caller.dfg.signatures[caller.dfg.ext_funcs[func_ref].signature] == body.signature;
        if !worth || !possible {
            return InlineCommand::KeepCall;
        }
        self.left -= cost;
        self.sites.push(Site { first: caller.dfg.num_insts(), callee, opcode });
        // Its own calls were decided when it was the caller.
        InlineCommand::Inline { callee: Cow::Borrowed(body), visit_callee: false }
    }
}

/// Whether a function's calls are all of the guest's own convention.
fn calls_only_guest_code(func: &Function) -> bool {
    let calls = func.layout.blocks().flat_map(|block| func.layout.block_insts(block));
    calls
        .filter_map(|inst| func.dfg.call_signature(inst))
        .all(|signature| func.dfg.signatures[signature].call_conv == CallConv::Tail)
}
