//! Gives inlined instructions the source locations they had in their callee, which Cranelift's inliner drops.
//!
//! Invariant: the inliner makes one instruction for each of the callee's, block by block in depth-first pre-order, and
//! numbers them consecutively from the caller's instruction count at the call. So both sides are walked in lockstep,
//! and opcodes must agree on the way: a return has become a jump, a tail call a call and a jump; where the call had a
//! handler, each call has one now.
//!
//! Source: `inline_one` of `cranelift_codegen::inline`. Cost: linear in the code copied.

use cranelift_codegen::entity::EntityRef;
use cranelift_codegen::ir::{Function, Inst, Opcode};
use cranelift_codegen::traversals::Dfs;

/// One call that was replaced by its callee's body.
#[derive(Debug)]
pub(super) struct Site {
    /// Instructions the caller had: the number of the first copied one.
    pub(super) first: usize,
    /// Position of the callee.
    pub(super) callee: usize,
    /// What the call was: `call`, `return_call` or `try_call`.
    pub(super) opcode: Opcode,
}

/// Copies source locations from the callees of `sites`, in the order they were inlined, to `caller`. `body` gives the
/// callee at a position.
///
/// # Panics
/// If the copies are not where the invariant says.
pub(super) fn restore<'b>(caller: &mut Function, sites: &[Site], body: impl Fn(usize) -> &'b Function) {
    let mut dfs = Dfs::new();
    let ends = sites.iter().skip(1).map(|site| site.first).chain([caller.dfg.num_insts()]);
    for (site, end) in sites.iter().zip(ends) {
        let callee = body(site.callee);
        let mut next = site.first;
        let mut place = |caller: &mut Function, expected: Opcode, original: Inst| {
            let copy = Inst::new(next);
            let found = caller.dfg.insts[copy].opcode();
            assert_eq!(found, expected, "copy {copy} of {original} in {}: always a bug", callee.name);
            let location = callee.srcloc(original);
            if !location.is_default() {
                caller.set_srcloc(copy, location);
            }
            next += 1;
        };
        for block in dfs.pre_order_iter(callee) {
            for inst in callee.layout.block_insts(block) {
                let opcode = callee.dfg.insts[inst].opcode();
                let copies = match (site.opcode, opcode) {
                    (Opcode::Call | Opcode::TryCall, Opcode::Return) => [Some(Opcode::Jump), None],
                    (Opcode::Call, Opcode::ReturnCall) => [Some(Opcode::Call), Some(Opcode::Jump)],
                    (Opcode::Call, Opcode::ReturnCallIndirect) => [Some(Opcode::CallIndirect), Some(Opcode::Jump)],
                    (Opcode::TryCall, Opcode::ReturnCall) => [Some(Opcode::TryCall), Some(Opcode::Jump)],
                    (Opcode::TryCall, Opcode::ReturnCallIndirect) => {
                        [Some(Opcode::TryCallIndirect), Some(Opcode::Jump)]
                    }
                    (Opcode::TryCall, Opcode::Call) => [Some(Opcode::TryCall), None],
                    (Opcode::TryCall, Opcode::CallIndirect) => [Some(Opcode::TryCallIndirect), None],
                    _ => [Some(opcode), None],
                };
                for expected in copies.into_iter().flatten() {
                    place(caller, expected, inst);
                }
            }
        }
        assert_eq!(next, end, "{} was not copied whole: always a bug", callee.name);
    }
}
