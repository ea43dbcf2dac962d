//! Making vectors and moving their lanes: constants, splats, extraction, replacement, shuffle, swizzle.
//!
//! Lane numbers are validated immediates. `i8` and `i16` lanes travel as wasm's `i32`: reduced on their way in, extended
//! by the operator's sign on their way out. Cost: one instruction each, one more for a narrow lane; on x86_64 before SSSE3
//! a swizzle, and a shuffle of no common pattern, is a call to Cranelift's byte-shuffle helper.

use cranelift_codegen::ir::types::{F32X4, F64X2, I8X16, I16X8, I32, I32X4, I64X2};
use cranelift_codegen::ir::{ConstantData, InstBuilder, Type, Value};
use wasmparser::Operator as Op;

use super::{pop_as, pop2_as};
use crate::func::FuncCx;

/// Lifts an operator of this family; `false` if it is none.
pub(super) fn translate(cx: &mut FuncCx<'_, '_>, op: &Op<'_>) -> bool {
    match op {
        Op::V128Const { value } => {
            let constant = constant(cx, I8X16, value.bytes());
            cx.push(constant);
        }
        Op::I8x16Shuffle { lanes } => {
            let (x, y) = pop2_as(cx, I8X16);
            let mask = cx.b.func.dfg.immediates.push(ConstantData::from(&lanes[..]));
            let result = cx.b.ins().shuffle(x, y, mask);
            cx.push(result);
        }
        // A selector of 16 and more gives 0, in CLIF as in wasm.
        Op::I8x16Swizzle => {
            let (x, selectors) = pop2_as(cx, I8X16);
            let result = cx.b.ins().swizzle(x, selectors);
            cx.push(result);
        }

        Op::I8x16Splat => splat(cx, I8X16),
        Op::I16x8Splat => splat(cx, I16X8),
        Op::I32x4Splat => splat(cx, I32X4),
        Op::I64x2Splat => splat(cx, I64X2),
        Op::F32x4Splat => splat(cx, F32X4),
        Op::F64x2Splat => splat(cx, F64X2),

        Op::I8x16ExtractLaneS { lane } => extract_signed(cx, I8X16, *lane),
        Op::I8x16ExtractLaneU { lane } => extract_unsigned(cx, I8X16, *lane),
        Op::I16x8ExtractLaneS { lane } => extract_signed(cx, I16X8, *lane),
        Op::I16x8ExtractLaneU { lane } => extract_unsigned(cx, I16X8, *lane),
        Op::I32x4ExtractLane { lane } => extract(cx, I32X4, *lane),
        Op::I64x2ExtractLane { lane } => extract(cx, I64X2, *lane),
        Op::F32x4ExtractLane { lane } => extract(cx, F32X4, *lane),
        Op::F64x2ExtractLane { lane } => extract(cx, F64X2, *lane),

        Op::I8x16ReplaceLane { lane } => replace(cx, I8X16, *lane),
        Op::I16x8ReplaceLane { lane } => replace(cx, I16X8, *lane),
        Op::I32x4ReplaceLane { lane } => replace(cx, I32X4, *lane),
        Op::I64x2ReplaceLane { lane } => replace(cx, I64X2, *lane),
        Op::F32x4ReplaceLane { lane } => replace(cx, F32X4, *lane),
        Op::F64x2ReplaceLane { lane } => replace(cx, F64X2, *lane),
        _ => return false,
    }
    true
}

/// A constant vector, its bytes in the order of memory.
pub(super) fn constant(cx: &mut FuncCx<'_, '_>, ty: Type, bytes: &[u8; 16]) -> Value {
    let pooled = cx.b.func.dfg.constants.insert(ConstantData::from(&bytes[..]));
    cx.b.ins().vconst(ty, pooled)
}

/// Pops the scalar that becomes a lane of `ty`.
fn pop_lane(cx: &mut FuncCx<'_, '_>, ty: Type) -> Value {
    let scalar = cx.pop();
    let lane = ty.lane_type();
    if cx.b.func.dfg.value_type(scalar) == lane { scalar } else { cx.b.ins().ireduce(lane, scalar) }
}

fn splat(cx: &mut FuncCx<'_, '_>, ty: Type) {
    let scalar = pop_lane(cx, ty);
    let result = cx.b.ins().splat(ty, scalar);
    cx.push(result);
}

fn replace(cx: &mut FuncCx<'_, '_>, ty: Type, lane: u8) {
    let scalar = pop_lane(cx, ty);
    let vector = pop_as(cx, ty);
    let result = cx.b.ins().insertlane(vector, scalar, lane);
    cx.push(result);
}

fn extract(cx: &mut FuncCx<'_, '_>, ty: Type, lane: u8) {
    let vector = pop_as(cx, ty);
    let result = cx.b.ins().extractlane(vector, lane);
    cx.push(result);
}

fn extract_signed(cx: &mut FuncCx<'_, '_>, ty: Type, lane: u8) {
    let vector = pop_as(cx, ty);
    let narrow = cx.b.ins().extractlane(vector, lane);
    let result = cx.b.ins().sextend(I32, narrow);
    cx.push(result);
}

fn extract_unsigned(cx: &mut FuncCx<'_, '_>, ty: Type, lane: u8) {
    let vector = pop_as(cx, ty);
    let narrow = cx.b.ins().extractlane(vector, lane);
    let result = cx.b.ins().uextend(I32, narrow);
    cx.push(result);
}
