//! Operators that change the width of integer lanes: narrowing, extension, and products and sums of extended lanes.
//!
//! Source: core spec 4.3.3. Products and pairwise sums are built from extensions, in the form that back ends match to one
//! instruction; no product or sum of extended lanes overflows, except `dot` of four minimal lanes, which wraps in wasm
//! too. Cost: one to seven instructions of CLIF.

use cranelift_codegen::ir::types::{I8X16, I16X8, I32X4};
use cranelift_codegen::ir::{InstBuilder, Opcode, Type, Value};
use wasmparser::Operator as Op;

use super::{binary, pop_as, pop2_as, unary};
use crate::func::FuncCx;

/// Lifts an operator of this family; `false` if it is none.
pub(super) fn translate(cx: &mut FuncCx<'_, '_>, op: &Op<'_>) -> bool {
    use Opcode::{SwidenHigh, SwidenLow, UwidenHigh, UwidenLow};

    match op {
        // Both kinds take their operands as signed; they differ in the range they saturate to.
        Op::I8x16NarrowI16x8S => binary(cx, Opcode::Snarrow, I16X8),
        Op::I8x16NarrowI16x8U => binary(cx, Opcode::Unarrow, I16X8),
        Op::I16x8NarrowI32x4S => binary(cx, Opcode::Snarrow, I32X4),
        Op::I16x8NarrowI32x4U => binary(cx, Opcode::Unarrow, I32X4),

        Op::I16x8ExtendLowI8x16S => unary(cx, SwidenLow, I8X16),
        Op::I16x8ExtendHighI8x16S => unary(cx, SwidenHigh, I8X16),
        Op::I16x8ExtendLowI8x16U => unary(cx, UwidenLow, I8X16),
        Op::I16x8ExtendHighI8x16U => unary(cx, UwidenHigh, I8X16),
        Op::I32x4ExtendLowI16x8S => unary(cx, SwidenLow, I16X8),
        Op::I32x4ExtendHighI16x8S => unary(cx, SwidenHigh, I16X8),
        Op::I32x4ExtendLowI16x8U => unary(cx, UwidenLow, I16X8),
        Op::I32x4ExtendHighI16x8U => unary(cx, UwidenHigh, I16X8),
        Op::I64x2ExtendLowI32x4S => unary(cx, SwidenLow, I32X4),
        Op::I64x2ExtendHighI32x4S => unary(cx, SwidenHigh, I32X4),
        Op::I64x2ExtendLowI32x4U => unary(cx, UwidenLow, I32X4),
        Op::I64x2ExtendHighI32x4U => unary(cx, UwidenHigh, I32X4),

        Op::I16x8ExtMulLowI8x16S => multiply(cx, SwidenLow, I8X16),
        Op::I16x8ExtMulHighI8x16S => multiply(cx, SwidenHigh, I8X16),
        Op::I16x8ExtMulLowI8x16U => multiply(cx, UwidenLow, I8X16),
        Op::I16x8ExtMulHighI8x16U => multiply(cx, UwidenHigh, I8X16),
        Op::I32x4ExtMulLowI16x8S => multiply(cx, SwidenLow, I16X8),
        Op::I32x4ExtMulHighI16x8S => multiply(cx, SwidenHigh, I16X8),
        Op::I32x4ExtMulLowI16x8U => multiply(cx, UwidenLow, I16X8),
        Op::I32x4ExtMulHighI16x8U => multiply(cx, UwidenHigh, I16X8),
        Op::I64x2ExtMulLowI32x4S => multiply(cx, SwidenLow, I32X4),
        Op::I64x2ExtMulHighI32x4S => multiply(cx, SwidenHigh, I32X4),
        Op::I64x2ExtMulLowI32x4U => multiply(cx, UwidenLow, I32X4),
        Op::I64x2ExtMulHighI32x4U => multiply(cx, UwidenHigh, I32X4),

        Op::I16x8ExtAddPairwiseI8x16S => add_pairs(cx, SwidenLow, SwidenHigh, I8X16),
        Op::I16x8ExtAddPairwiseI8x16U => add_pairs(cx, UwidenLow, UwidenHigh, I8X16),
        Op::I32x4ExtAddPairwiseI16x8S => add_pairs(cx, SwidenLow, SwidenHigh, I16X8),
        Op::I32x4ExtAddPairwiseI16x8U => add_pairs(cx, UwidenLow, UwidenHigh, I16X8),

        Op::I32x4DotI16x8S => dot(cx),
        _ => return false,
    }
    true
}

/// Extends one half of a vector of type `ty`.
fn widened(cx: &mut FuncCx<'_, '_>, opcode: Opcode, ty: Type, x: Value) -> Value {
    let (inst, dfg) = cx.b.ins().Unary(opcode, ty, x);
    dfg.first_result(inst)
}

/// The products of the extended lanes of one half.
fn multiply(cx: &mut FuncCx<'_, '_>, widen: Opcode, ty: Type) {
    let (x, y) = pop2_as(cx, ty);
    let x = widened(cx, widen, ty, x);
    let y = widened(cx, widen, ty, y);
    let result = cx.b.ins().imul(x, y);
    cx.push(result);
}

/// The sums of neighbouring extended lanes.
fn add_pairs(cx: &mut FuncCx<'_, '_>, widen_low: Opcode, widen_high: Opcode, ty: Type) {
    let x = pop_as(cx, ty);
    let low = widened(cx, widen_low, ty, x);
    let high = widened(cx, widen_high, ty, x);
    let result = cx.b.ins().iadd_pairwise(low, high);
    cx.push(result);
}

/// The sums of neighbouring products of extended 16-bit lanes.
fn dot(cx: &mut FuncCx<'_, '_>) {
    let (x, y) = pop2_as(cx, I16X8);
    let x_low = cx.b.ins().swiden_low(x);
    let y_low = cx.b.ins().swiden_low(y);
    let low = cx.b.ins().imul(x_low, y_low);
    let x_high = cx.b.ins().swiden_high(x);
    let y_high = cx.b.ins().swiden_high(y);
    let high = cx.b.ins().imul(x_high, y_high);
    let result = cx.b.ins().iadd_pairwise(low, high);
    cx.push(result);
}
