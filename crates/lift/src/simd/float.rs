//! Lane-wise floating-point arithmetic.
//!
//! Source: core spec 4.3.3 and, for a lane, 4.3.4. `min` and `max` propagate NaN and order the zeros; `pmin` and `pmax`
//! are the bare comparison `b < a ? b : a` and `a < b ? b : a`, in the form that back ends match to one instruction.
//! Rounding is one instruction where the CPU has it (x86_64 from SSE4.1 on); on others Cranelift calls the scalar
//! rounding function once a lane. Cost: one instruction each, three for `pmin` and `pmax`.

use cranelift_codegen::ir::condcodes::FloatCC;
use cranelift_codegen::ir::types::{F32X4, F64X2};
use cranelift_codegen::ir::{InstBuilder, Opcode, Type};
use wasmparser::Operator as Op;

use super::{binary, cast, pop2_as, unary};
use crate::func::FuncCx;

/// Lifts an operator of this family; `false` if it is none.
pub(super) fn translate(cx: &mut FuncCx<'_, '_>, op: &Op<'_>) -> bool {
    match op {
        Op::F32x4Abs => unary(cx, Opcode::Fabs, F32X4),
        Op::F64x2Abs => unary(cx, Opcode::Fabs, F64X2),
        Op::F32x4Neg => unary(cx, Opcode::Fneg, F32X4),
        Op::F64x2Neg => unary(cx, Opcode::Fneg, F64X2),
        Op::F32x4Sqrt => unary(cx, Opcode::Sqrt, F32X4),
        Op::F64x2Sqrt => unary(cx, Opcode::Sqrt, F64X2),
        Op::F32x4Ceil => unary(cx, Opcode::Ceil, F32X4),
        Op::F64x2Ceil => unary(cx, Opcode::Ceil, F64X2),
        Op::F32x4Floor => unary(cx, Opcode::Floor, F32X4),
        Op::F64x2Floor => unary(cx, Opcode::Floor, F64X2),
        Op::F32x4Trunc => unary(cx, Opcode::Trunc, F32X4),
        Op::F64x2Trunc => unary(cx, Opcode::Trunc, F64X2),
        Op::F32x4Nearest => unary(cx, Opcode::Nearest, F32X4),
        Op::F64x2Nearest => unary(cx, Opcode::Nearest, F64X2),

        Op::F32x4Add => binary(cx, Opcode::Fadd, F32X4),
        Op::F64x2Add => binary(cx, Opcode::Fadd, F64X2),
        Op::F32x4Sub => binary(cx, Opcode::Fsub, F32X4),
        Op::F64x2Sub => binary(cx, Opcode::Fsub, F64X2),
        Op::F32x4Mul => binary(cx, Opcode::Fmul, F32X4),
        Op::F64x2Mul => binary(cx, Opcode::Fmul, F64X2),
        Op::F32x4Div => binary(cx, Opcode::Fdiv, F32X4),
        Op::F64x2Div => binary(cx, Opcode::Fdiv, F64X2),
        Op::F32x4Min => binary(cx, Opcode::Fmin, F32X4),
        Op::F64x2Min => binary(cx, Opcode::Fmin, F64X2),
        Op::F32x4Max => binary(cx, Opcode::Fmax, F32X4),
        Op::F64x2Max => binary(cx, Opcode::Fmax, F64X2),

        Op::F32x4PMin => pseudo_min(cx, F32X4),
        Op::F64x2PMin => pseudo_min(cx, F64X2),
        Op::F32x4PMax => pseudo_max(cx, F32X4),
        Op::F64x2PMax => pseudo_max(cx, F64X2),
        _ => return false,
    }
    true
}

pub(super) fn pseudo_min(cx: &mut FuncCx<'_, '_>, ty: Type) {
    let (a, b) = pop2_as(cx, ty);
    let smaller = cx.b.ins().fcmp(FloatCC::LessThan, b, a);
    let smaller = cast(cx, smaller, ty);
    let result = cx.b.ins().bitselect(smaller, b, a);
    cx.push(result);
}

pub(super) fn pseudo_max(cx: &mut FuncCx<'_, '_>, ty: Type) {
    let (a, b) = pop2_as(cx, ty);
    let larger = cx.b.ins().fcmp(FloatCC::LessThan, a, b);
    let larger = cast(cx, larger, ty);
    let result = cx.b.ins().bitselect(larger, b, a);
    cx.push(result);
}
