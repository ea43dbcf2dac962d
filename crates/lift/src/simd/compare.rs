//! Lane-wise comparisons: all ones where the relation holds, else zero.
//!
//! Source: core spec 4.3.3. The result has integer lanes as wide as those compared. `ne` alone holds for NaN.
//! Cost: one instruction each.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::types::{F32X4, F64X2, I8X16, I16X8, I32X4, I64X2};
use cranelift_codegen::ir::{InstBuilder, Type};
use wasmparser::Operator as Op;

use super::pop2_as;
use crate::func::FuncCx;

/// Lifts an operator of this family; `false` if it is none.
pub(super) fn translate(cx: &mut FuncCx<'_, '_>, op: &Op<'_>) -> bool {
    match op {
        Op::I8x16Eq => integers(cx, IntCC::Equal, I8X16),
        Op::I8x16Ne => integers(cx, IntCC::NotEqual, I8X16),
        Op::I8x16LtS => integers(cx, IntCC::SignedLessThan, I8X16),
        Op::I8x16LtU => integers(cx, IntCC::UnsignedLessThan, I8X16),
        Op::I8x16GtS => integers(cx, IntCC::SignedGreaterThan, I8X16),
        Op::I8x16GtU => integers(cx, IntCC::UnsignedGreaterThan, I8X16),
        Op::I8x16LeS => integers(cx, IntCC::SignedLessThanOrEqual, I8X16),
        Op::I8x16LeU => integers(cx, IntCC::UnsignedLessThanOrEqual, I8X16),
        Op::I8x16GeS => integers(cx, IntCC::SignedGreaterThanOrEqual, I8X16),
        Op::I8x16GeU => integers(cx, IntCC::UnsignedGreaterThanOrEqual, I8X16),

        Op::I16x8Eq => integers(cx, IntCC::Equal, I16X8),
        Op::I16x8Ne => integers(cx, IntCC::NotEqual, I16X8),
        Op::I16x8LtS => integers(cx, IntCC::SignedLessThan, I16X8),
        Op::I16x8LtU => integers(cx, IntCC::UnsignedLessThan, I16X8),
        Op::I16x8GtS => integers(cx, IntCC::SignedGreaterThan, I16X8),
        Op::I16x8GtU => integers(cx, IntCC::UnsignedGreaterThan, I16X8),
        Op::I16x8LeS => integers(cx, IntCC::SignedLessThanOrEqual, I16X8),
        Op::I16x8LeU => integers(cx, IntCC::UnsignedLessThanOrEqual, I16X8),
        Op::I16x8GeS => integers(cx, IntCC::SignedGreaterThanOrEqual, I16X8),
        Op::I16x8GeU => integers(cx, IntCC::UnsignedGreaterThanOrEqual, I16X8),

        Op::I32x4Eq => integers(cx, IntCC::Equal, I32X4),
        Op::I32x4Ne => integers(cx, IntCC::NotEqual, I32X4),
        Op::I32x4LtS => integers(cx, IntCC::SignedLessThan, I32X4),
        Op::I32x4LtU => integers(cx, IntCC::UnsignedLessThan, I32X4),
        Op::I32x4GtS => integers(cx, IntCC::SignedGreaterThan, I32X4),
        Op::I32x4GtU => integers(cx, IntCC::UnsignedGreaterThan, I32X4),
        Op::I32x4LeS => integers(cx, IntCC::SignedLessThanOrEqual, I32X4),
        Op::I32x4LeU => integers(cx, IntCC::UnsignedLessThanOrEqual, I32X4),
        Op::I32x4GeS => integers(cx, IntCC::SignedGreaterThanOrEqual, I32X4),
        Op::I32x4GeU => integers(cx, IntCC::UnsignedGreaterThanOrEqual, I32X4),

        Op::I64x2Eq => integers(cx, IntCC::Equal, I64X2),
        Op::I64x2Ne => integers(cx, IntCC::NotEqual, I64X2),
        Op::I64x2LtS => integers(cx, IntCC::SignedLessThan, I64X2),
        Op::I64x2GtS => integers(cx, IntCC::SignedGreaterThan, I64X2),
        Op::I64x2LeS => integers(cx, IntCC::SignedLessThanOrEqual, I64X2),
        Op::I64x2GeS => integers(cx, IntCC::SignedGreaterThanOrEqual, I64X2),

        Op::F32x4Eq => floats(cx, FloatCC::Equal, F32X4),
        Op::F32x4Ne => floats(cx, FloatCC::NotEqual, F32X4),
        Op::F32x4Lt => floats(cx, FloatCC::LessThan, F32X4),
        Op::F32x4Gt => floats(cx, FloatCC::GreaterThan, F32X4),
        Op::F32x4Le => floats(cx, FloatCC::LessThanOrEqual, F32X4),
        Op::F32x4Ge => floats(cx, FloatCC::GreaterThanOrEqual, F32X4),

        Op::F64x2Eq => floats(cx, FloatCC::Equal, F64X2),
        Op::F64x2Ne => floats(cx, FloatCC::NotEqual, F64X2),
        Op::F64x2Lt => floats(cx, FloatCC::LessThan, F64X2),
        Op::F64x2Gt => floats(cx, FloatCC::GreaterThan, F64X2),
        Op::F64x2Le => floats(cx, FloatCC::LessThanOrEqual, F64X2),
        Op::F64x2Ge => floats(cx, FloatCC::GreaterThanOrEqual, F64X2),
        _ => return false,
    }
    true
}

fn integers(cx: &mut FuncCx<'_, '_>, relation: IntCC, ty: Type) {
    let (x, y) = pop2_as(cx, ty);
    let result = cx.b.ins().icmp(relation, x, y);
    cx.push(result);
}

fn floats(cx: &mut FuncCx<'_, '_>, relation: FloatCC, ty: Type) {
    let (x, y) = pop2_as(cx, ty);
    let result = cx.b.ins().fcmp(relation, x, y);
    cx.push(result);
}
