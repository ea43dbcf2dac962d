//! Vector loads and stores (core spec 4.4.7): whole, widening, splatted, zero-extended, and of one lane.
//!
//! Invariant: an access is one load or store instruction, made exactly as the scalar ones are: [`crate::memory::access`].
//! Cost: at most one lane instruction beside it.

use cranelift_codegen::ir::types::{I8X16, I16X8, I32X4, I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, Opcode, Type, Value};
use wasmparser::{MemArg, Operator as Op};

use super::pop_as;
use crate::func::FuncCx;
use crate::memory::access;

/// Lifts an operator of this family; `false` if it is none.
pub(super) fn translate(cx: &mut FuncCx<'_, '_>, op: &Op<'_>) -> bool {
    match op {
        Op::V128Load { memarg } => {
            let loaded = load(cx, memarg, I8X16);
            cx.push(loaded);
        }
        Op::V128Store { memarg } => {
            // In whatever vector type it has: the bytes are the same.
            let vector = cx.pop();
            store(cx, memarg, vector);
        }

        Op::V128Load8x8S { memarg } => load_widening(cx, memarg, Opcode::Sload8x8),
        Op::V128Load8x8U { memarg } => load_widening(cx, memarg, Opcode::Uload8x8),
        Op::V128Load16x4S { memarg } => load_widening(cx, memarg, Opcode::Sload16x4),
        Op::V128Load16x4U { memarg } => load_widening(cx, memarg, Opcode::Uload16x4),
        Op::V128Load32x2S { memarg } => load_widening(cx, memarg, Opcode::Sload32x2),
        Op::V128Load32x2U { memarg } => load_widening(cx, memarg, Opcode::Uload32x2),

        Op::V128Load8Splat { memarg } => load_splat(cx, memarg, I8X16),
        Op::V128Load16Splat { memarg } => load_splat(cx, memarg, I16X8),
        Op::V128Load32Splat { memarg } => load_splat(cx, memarg, I32X4),
        Op::V128Load64Splat { memarg } => load_splat(cx, memarg, I64X2),

        Op::V128Load32Zero { memarg } => load_zero(cx, memarg, I32X4),
        Op::V128Load64Zero { memarg } => load_zero(cx, memarg, I64X2),

        Op::V128Load8Lane { memarg, lane } => load_lane(cx, memarg, I8X16, *lane),
        Op::V128Load16Lane { memarg, lane } => load_lane(cx, memarg, I16X8, *lane),
        Op::V128Load32Lane { memarg, lane } => load_lane(cx, memarg, I32X4, *lane),
        Op::V128Load64Lane { memarg, lane } => load_lane(cx, memarg, I64X2, *lane),

        Op::V128Store8Lane { memarg, lane } => store_lane(cx, memarg, I8X16, *lane),
        Op::V128Store16Lane { memarg, lane } => store_lane(cx, memarg, I16X8, *lane),
        Op::V128Store32Lane { memarg, lane } => store_lane(cx, memarg, I32X4, *lane),
        Op::V128Store64Lane { memarg, lane } => store_lane(cx, memarg, I64X2, *lane),
        _ => return false,
    }
    true
}

/// Pops the index and loads a value.
fn load(cx: &mut FuncCx<'_, '_>, memarg: &MemArg, ty: Type) -> Value {
    let at = access(cx, memarg, ty.bytes());
    cx.b.ins().load(ty, at.flags, at.address, at.offset)
}

/// Pops the index and stores a value.
fn store(cx: &mut FuncCx<'_, '_>, memarg: &MemArg, value: Value) {
    let bytes = cx.b.func.dfg.value_type(value).bytes();
    let at = access(cx, memarg, bytes);
    cx.b.ins().store(at.flags, value, at.address, at.offset);
}

/// Eight bytes, each lane extended to twice its width. These opcodes are controlled by the type of the address.
fn load_widening(cx: &mut FuncCx<'_, '_>, memarg: &MemArg, opcode: Opcode) {
    let at = access(cx, memarg, 8);
    let flags = cx.b.func.dfg.mem_flags.insert(at.flags).expect("a function uses a handful of different flags");
    let (inst, dfg) = cx.b.ins().Load(opcode, I64, flags, at.offset.into(), at.address);
    let result = dfg.first_result(inst);
    cx.push(result);
}

/// One lane, copied to all.
fn load_splat(cx: &mut FuncCx<'_, '_>, memarg: &MemArg, ty: Type) {
    let lane = load(cx, memarg, ty.lane_type());
    let result = cx.b.ins().splat(ty, lane);
    cx.push(result);
}

/// Lane 0; the others zero.
fn load_zero(cx: &mut FuncCx<'_, '_>, memarg: &MemArg, ty: Type) {
    let lane = load(cx, memarg, ty.lane_type());
    let result = cx.b.ins().scalar_to_vector(ty, lane);
    cx.push(result);
}

/// One lane of a vector that keeps its others.
fn load_lane(cx: &mut FuncCx<'_, '_>, memarg: &MemArg, ty: Type, lane: u8) {
    let vector = pop_as(cx, ty);
    let value = load(cx, memarg, ty.lane_type());
    let result = cx.b.ins().insertlane(vector, value, lane);
    cx.push(result);
}

/// One lane of a vector.
fn store_lane(cx: &mut FuncCx<'_, '_>, memarg: &MemArg, ty: Type, lane: u8) {
    let vector = pop_as(cx, ty);
    let value = cx.b.ins().extractlane(vector, lane);
    store(cx, memarg, value);
}
