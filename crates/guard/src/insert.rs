//! Puts the planned guards into a function: the only place of this crate that changes code.
//!
//! ```text
//! latch(params):                      cold:                                      ; laid out cold
//!   thread = load vmctx + THREAD        call poll thunk(thread, site)
//!   budget = load thread + BUDGET       interrupted = load thread + INTERRUPTED
//!   left   = budget - weight            trapnz interrupted, Interrupted
//!   store left, thread + BUDGET         jump header(params)
//!   brif left <= 0, cold, header(params)
//! ```
//!
//! Invariant: all back edges of a guarded loop go through one latch block; what they passed to the header goes through the
//! latch's parameters. A poll at entry is the same without parameters, in front of the function's first instruction.
//! Cost: linear in the code inserted and in the branches of latches.

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, Block, BlockArg, ExtFuncData, ExternalName, FuncRef, Function, InstBuilder, MemFlagsData, Signature,
    SourceLoc, TrapCode as ClifTrap, UserExternalName, Value, types,
};
use cranelift_codegen::isa::CallConv;
use spinwise_model::budget;
use spinwise_model::context::{InstanceHeader, ThreadContext};
use spinwise_model::symbol::{NS_POLL_THUNK, SITE_BOUNDARY, SITE_HAS_WATCH};
use spinwise_model::trap::TrapCode;

use crate::plan::{FunctionPlan, LoopPlan};

/// The thread's address never changes while an instance's code runs.
const CONSTANT: MemFlagsData = MemFlagsData::trusted().with_readonly().with_can_move();
/// The thread's words do.
const CONTEXT: MemFlagsData = MemFlagsData::trusted();

/// The signature of the poll thunk, `fn(thread, site)`, under a calling convention.
#[must_use]
pub fn thunk_signature(convention: CallConv) -> Signature {
    let mut signature = Signature::new(convention);
    signature.params.extend([AbiParam::new(types::I64), AbiParam::new(types::I32)]);
    signature
}

/// Guards a function as planned for exactly this code. `thunk` is the calling convention of the module's poll thunk.
///
/// # Panics
/// If the plan is not this function's: always a bug.
pub fn insert(func: &mut Function, plan: &FunctionPlan, thunk: CallConv) {
    let entry = func.layout.entry_block().expect("a function has an entry block");
    let vmctx = func.dfg.block_params(entry)[0];
    let guarded = || plan.loops.iter().filter_map(|natural| Some((natural, natural.guard?)));
    if plan.entry_poll.is_none() && guarded().next().is_none() {
        return;
    }
    let thunk = import_thunk(func, thunk);
    for (natural, charge) in guarded() {
        let site = charge.site | if natural.watch.is_some() { SITE_HAS_WATCH } else { 0 };
        let guard =
            Guard { thunk, vmctx, site, weight: charge.weight, location: SourceLoc::new(natural.header_offset) };
        guard_loop(func, natural, &guard);
    }
    if let Some(poll) = &plan.entry_poll {
        let location = first_location(func, entry);
        let guard = Guard { thunk, vmctx, site: poll.charge.site, weight: poll.charge.weight, location };
        guard_entry(func, entry, &guard);
    }
}

/// Makes a piece of glue at the border of guest code (an import stub or a host entry) charge the budget at its entry, and
/// poll when it is gone. Its first parameter is an instance context.
///
/// # Panics
/// If the function has no entry block or no parameters: always a bug.
pub fn insert_boundary_poll(func: &mut Function, thunk: CallConv) {
    let entry = func.layout.entry_block().expect("a function has an entry block");
    let vmctx = func.dfg.block_params(entry)[0];
    let weight = budget::weight(budget::MAX_INTERVAL);
    let thunk = import_thunk(func, thunk);
    let location = first_location(func, entry);
    guard_entry(func, entry, &Guard { thunk, vmctx, site: SITE_BOUNDARY, weight, location });
}

/// What a guard is made of.
struct Guard {
    thunk: FuncRef,
    vmctx: Value,
    site: u32,
    weight: i32,
    location: SourceLoc,
}

impl Guard {
    /// Ends `block` with the charge, and fills `cold`; both go on to `next` with what they are given.
    fn fill(&self, func: &mut Function, block: Block, cold: Block, next: Block, args: &[BlockArg]) {
        let user = ClifTrap::unwrap_user(TrapCode::Interrupted.raw());
        let mut at = FuncCursor::new(func).at_bottom(block).with_srcloc(self.location);
        let thread = at.ins().load(types::I64, CONSTANT, self.vmctx, InstanceHeader::THREAD);
        let budget = at.ins().load(types::I32, CONTEXT, thread, ThreadContext::BUDGET);
        let weight = at.ins().iconst(types::I32, i64::from(self.weight));
        let left = at.ins().isub(budget, weight);
        at.ins().store(CONTEXT, left, thread, ThreadContext::BUDGET);
        let gone = at.ins().icmp_imm_s(IntCC::SignedLessThanOrEqual, left, 0);
        at.ins().brif(gone, cold, &[], next, args);

        at.goto_bottom(cold);
        let site = at.ins().iconst(types::I32, i64::from(self.site));
        at.ins().call(self.thunk, &[thread, site]);
        let interrupted = at.ins().load(types::I32, CONTEXT, thread, ThreadContext::INTERRUPTED);
        at.ins().trapnz(interrupted, user);
        at.ins().jump(next, args);
    }
}

/// Sends the back edges of a loop through a new latch.
fn guard_loop(func: &mut Function, natural: &LoopPlan, guard: &Guard) {
    let header = Block::from_u32(natural.header);
    let latch = func.dfg.make_block();
    let cold = func.dfg.make_block();
    let params: Vec<_> = func.dfg.block_param_types(header).collect();
    let args: Vec<BlockArg> = params.into_iter().map(|ty| func.dfg.append_block_param(latch, ty).into()).collect();
    for from in natural.latches.iter().map(|latch| Block::from_u32(*latch)) {
        let branch = func.layout.last_inst(from).expect("a block ends with a branch");
        func.rewrite_branch_destination(branch, header, latch);
        if !func.layout.is_block_inserted(latch) {
            func.layout.insert_block_after(latch, from);
        }
    }
    func.layout.append_block(cold);
    func.layout.set_cold(cold);
    guard.fill(func, latch, cold, header, &args);
}

/// Puts a charge in front of a function. Its entry block keeps the parameters, and nothing branches to it.
fn guard_entry(func: &mut Function, entry: Block, guard: &Guard) {
    let first = func.layout.first_inst(entry).expect("a block ends with a branch");
    let body = func.dfg.make_block();
    func.layout.split_block(body, first);
    let cold = func.dfg.make_block();
    func.layout.append_block(cold);
    func.layout.set_cold(cold);
    guard.fill(func, entry, cold, body, &[]);
}

fn import_thunk(func: &mut Function, convention: CallConv) -> FuncRef {
    let signature = func.import_signature(thunk_signature(convention));
    let name = func.declare_imported_user_function(UserExternalName::new(NS_POLL_THUNK, 0));
    func.import_function(ExtFuncData { name: ExternalName::user(name), signature, colocated: true, patchable: false })
}

fn first_location(func: &Function, block: Block) -> SourceLoc {
    let locations = func.layout.block_insts(block).map(|inst| func.srcloc(inst));
    locations.into_iter().find(|location| !location.is_default()).unwrap_or_default()
}
