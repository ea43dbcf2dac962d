//! Turns conditional branches that may leave a loop so that the way out comes first.
//!
//! Cranelift elaborates a block's children in the dominator tree last successor first, and forgets the loop once it
//! has been outside: with the way out second, nothing that is first used behind the exit test is hoisted out of the
//! loop, not even the thread's address that each guard loads. Its block layout also follows successors: this way round
//! the loop's blocks stay together.
//!
//! Invariant: the same paths are taken under the same conditions. Cost: a loop analysis for each function.

use cranelift_codegen::Context;
use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::{CondCode, IntCC};
use cranelift_codegen::ir::{Function, Inst, InstBuilder, InstructionData, Opcode, Value, ValueDef};

/// Reorders the function in `context`, whose analyses are cleared.
pub(crate) fn exits_first(context: &mut Context) {
    context.flowgraph();
    context.compute_loop_analysis();
    let (func, loops) = (&mut context.func, &context.loop_analysis);
    let mut next = func.layout.entry_block();
    while let Some(block) = next {
        next = func.layout.next_block(block);
        let Some((of, inst)) = loops.innermost_loop(block).zip(func.layout.last_inst(block)) else { continue };
        let InstructionData::Brif { blocks, .. } = func.dfg.insts[inst] else { continue };
        let [then_stays, else_stays] = blocks.map(|call| loops.is_in_loop(call.block(&func.dfg.value_lists), of));
        if then_stays && !else_stays {
            swap(func, inst);
        }
    }
    // Their order of blocks is no longer the function's.
    context.cfg.clear();
    context.domtree.clear();
    context.loop_analysis.clear();
}

/// Exchanges the two ways of a `brif` by the opposite condition.
fn swap(func: &mut Function, inst: Inst) {
    let InstructionData::Brif { opcode, arg, blocks: [then, otherwise] } = func.dfg.insts[inst] else {
        unreachable!("the caller found a brif")
    };
    let compared = comparison(func, arg);
    let location = func.srcloc(inst);
    let mut cursor = FuncCursor::new(func).at_inst(inst);
    cursor.set_srcloc(location);
    let opposite = match compared {
        Some((condition, [left, right])) => cursor.ins().icmp(condition.complement(), left, right),
        // The optimiser sees through this for floating-point comparisons.
        None => cursor.ins().icmp_imm_u(IntCC::Equal, arg, 0),
    };
    func.dfg.insts[inst] = InstructionData::Brif { opcode, arg: opposite, blocks: [otherwise, then] };
}

/// The integer comparison that a condition is, possibly widened.
fn comparison(func: &Function, condition: Value) -> Option<(IntCC, [Value; 2])> {
    let definition = |value| match func.dfg.value_def(func.dfg.resolve_aliases(value)) {
        ValueDef::Result(inst, _) => Some(func.dfg.insts[inst]),
        _ => None,
    };
    match definition(condition)? {
        InstructionData::Unary { opcode: Opcode::Uextend, arg } => match definition(arg)? {
            InstructionData::IntCompare { cond, args, .. } => Some((cond, args)),
            _ => None,
        },
        InstructionData::IntCompare { cond, args, .. } => Some((cond, args)),
        _ => None,
    }
}
