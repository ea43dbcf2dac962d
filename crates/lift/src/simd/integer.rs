//! Lane-wise integer arithmetic and shifts: each lane keeps its width.
//!
//! Source: core spec 4.3.3 and, for a lane, 4.3.2. CLIF's vector opcodes wrap and saturate as wasm's do, and its shifts
//! take their count modulo the lane's width. Cost: one instruction each.

use cranelift_codegen::ir::types::{I8X16, I16X8, I32X4, I64X2};
use cranelift_codegen::ir::{InstBuilder, Opcode, Type};
use wasmparser::Operator as Op;

use super::{binary, pop_as, unary};
use crate::func::FuncCx;

/// Lifts an operator of this family; `false` if it is none.
pub(super) fn translate(cx: &mut FuncCx<'_, '_>, op: &Op<'_>) -> bool {
    match op {
        Op::I8x16Abs => unary(cx, Opcode::Iabs, I8X16),
        Op::I16x8Abs => unary(cx, Opcode::Iabs, I16X8),
        Op::I32x4Abs => unary(cx, Opcode::Iabs, I32X4),
        Op::I64x2Abs => unary(cx, Opcode::Iabs, I64X2),
        Op::I8x16Neg => unary(cx, Opcode::Ineg, I8X16),
        Op::I16x8Neg => unary(cx, Opcode::Ineg, I16X8),
        Op::I32x4Neg => unary(cx, Opcode::Ineg, I32X4),
        Op::I64x2Neg => unary(cx, Opcode::Ineg, I64X2),
        Op::I8x16Popcnt => unary(cx, Opcode::Popcnt, I8X16),

        Op::I8x16Add => binary(cx, Opcode::Iadd, I8X16),
        Op::I16x8Add => binary(cx, Opcode::Iadd, I16X8),
        Op::I32x4Add => binary(cx, Opcode::Iadd, I32X4),
        Op::I64x2Add => binary(cx, Opcode::Iadd, I64X2),
        Op::I8x16Sub => binary(cx, Opcode::Isub, I8X16),
        Op::I16x8Sub => binary(cx, Opcode::Isub, I16X8),
        Op::I32x4Sub => binary(cx, Opcode::Isub, I32X4),
        Op::I64x2Sub => binary(cx, Opcode::Isub, I64X2),
        Op::I16x8Mul => binary(cx, Opcode::Imul, I16X8),
        Op::I32x4Mul => binary(cx, Opcode::Imul, I32X4),
        Op::I64x2Mul => binary(cx, Opcode::Imul, I64X2),

        Op::I8x16AddSatS => binary(cx, Opcode::SaddSat, I8X16),
        Op::I16x8AddSatS => binary(cx, Opcode::SaddSat, I16X8),
        Op::I8x16AddSatU => binary(cx, Opcode::UaddSat, I8X16),
        Op::I16x8AddSatU => binary(cx, Opcode::UaddSat, I16X8),
        Op::I8x16SubSatS => binary(cx, Opcode::SsubSat, I8X16),
        Op::I16x8SubSatS => binary(cx, Opcode::SsubSat, I16X8),
        Op::I8x16SubSatU => binary(cx, Opcode::UsubSat, I8X16),
        Op::I16x8SubSatU => binary(cx, Opcode::UsubSat, I16X8),
        Op::I16x8Q15MulrSatS => binary(cx, Opcode::SqmulRoundSat, I16X8),
        Op::I8x16AvgrU => binary(cx, Opcode::AvgRound, I8X16),
        Op::I16x8AvgrU => binary(cx, Opcode::AvgRound, I16X8),

        Op::I8x16MinS => binary(cx, Opcode::Smin, I8X16),
        Op::I16x8MinS => binary(cx, Opcode::Smin, I16X8),
        Op::I32x4MinS => binary(cx, Opcode::Smin, I32X4),
        Op::I8x16MinU => binary(cx, Opcode::Umin, I8X16),
        Op::I16x8MinU => binary(cx, Opcode::Umin, I16X8),
        Op::I32x4MinU => binary(cx, Opcode::Umin, I32X4),
        Op::I8x16MaxS => binary(cx, Opcode::Smax, I8X16),
        Op::I16x8MaxS => binary(cx, Opcode::Smax, I16X8),
        Op::I32x4MaxS => binary(cx, Opcode::Smax, I32X4),
        Op::I8x16MaxU => binary(cx, Opcode::Umax, I8X16),
        Op::I16x8MaxU => binary(cx, Opcode::Umax, I16X8),
        Op::I32x4MaxU => binary(cx, Opcode::Umax, I32X4),

        Op::I8x16Shl => shift(cx, Opcode::Ishl, I8X16),
        Op::I16x8Shl => shift(cx, Opcode::Ishl, I16X8),
        Op::I32x4Shl => shift(cx, Opcode::Ishl, I32X4),
        Op::I64x2Shl => shift(cx, Opcode::Ishl, I64X2),
        Op::I8x16ShrS => shift(cx, Opcode::Sshr, I8X16),
        Op::I16x8ShrS => shift(cx, Opcode::Sshr, I16X8),
        Op::I32x4ShrS => shift(cx, Opcode::Sshr, I32X4),
        Op::I64x2ShrS => shift(cx, Opcode::Sshr, I64X2),
        Op::I8x16ShrU => shift(cx, Opcode::Ushr, I8X16),
        Op::I16x8ShrU => shift(cx, Opcode::Ushr, I16X8),
        Op::I32x4ShrU => shift(cx, Opcode::Ushr, I32X4),
        Op::I64x2ShrU => shift(cx, Opcode::Ushr, I64X2),
        _ => return false,
    }
    true
}

/// Shifts all lanes by one `i32` count.
fn shift(cx: &mut FuncCx<'_, '_>, opcode: Opcode, ty: Type) {
    let count = cx.pop();
    let x = pop_as(cx, ty);
    let (inst, dfg) = cx.b.ins().Binary(opcode, ty, x, count);
    let result = dfg.first_result(inst);
    cx.push(result);
}
