//! Conversions between integer and floating-point lanes, and between the two widths of float.
//!
//! Source: core spec 4.3.3 and, for a lane, 4.3.5. Conversion to integers saturates, NaN gives 0. Where lanes halve in
//! number the upper half of the result is zero. Cost: one to three instructions.

use cranelift_codegen::ir::InstBuilder;
use cranelift_codegen::ir::types::{F32X4, F64X2, I32X4, I64X2};
use wasmparser::Operator as Op;

use super::lanes::constant;
use super::pop_as;
use crate::func::FuncCx;

/// Lifts an operator of this family; `false` if it is none.
pub(super) fn translate(cx: &mut FuncCx<'_, '_>, op: &Op<'_>) -> bool {
    let result = match op {
        Op::I32x4TruncSatF32x4S => {
            let x = pop_as(cx, F32X4);
            cx.b.ins().fcvt_to_sint_sat(I32X4, x)
        }
        Op::I32x4TruncSatF32x4U => {
            let x = pop_as(cx, F32X4);
            cx.b.ins().fcvt_to_uint_sat(I32X4, x)
        }
        // To 64 bits, then to 32, saturating each time: the x86_64 back end has only this pair, with a literal zero.
        Op::I32x4TruncSatF64x2SZero => {
            let x = pop_as(cx, F64X2);
            let wide = cx.b.ins().fcvt_to_sint_sat(I64X2, x);
            let zero = constant(cx, I64X2, &[0; 16]);
            cx.b.ins().snarrow(wide, zero)
        }
        Op::I32x4TruncSatF64x2UZero => {
            let x = pop_as(cx, F64X2);
            let wide = cx.b.ins().fcvt_to_uint_sat(I64X2, x);
            let zero = constant(cx, I64X2, &[0; 16]);
            cx.b.ins().uunarrow(wide, zero)
        }
        Op::F32x4ConvertI32x4S => {
            let x = pop_as(cx, I32X4);
            cx.b.ins().fcvt_from_sint(F32X4, x)
        }
        Op::F32x4ConvertI32x4U => {
            let x = pop_as(cx, I32X4);
            cx.b.ins().fcvt_from_uint(F32X4, x)
        }
        Op::F64x2ConvertLowI32x4S => {
            let x = pop_as(cx, I32X4);
            let wide = cx.b.ins().swiden_low(x);
            cx.b.ins().fcvt_from_sint(F64X2, wide)
        }
        Op::F64x2ConvertLowI32x4U => {
            let x = pop_as(cx, I32X4);
            let wide = cx.b.ins().uwiden_low(x);
            cx.b.ins().fcvt_from_uint(F64X2, wide)
        }
        Op::F32x4DemoteF64x2Zero => {
            let x = pop_as(cx, F64X2);
            cx.b.ins().fvdemote(x)
        }
        Op::F64x2PromoteLowF32x4 => {
            let x = pop_as(cx, F32X4);
            cx.b.ins().fvpromote_low(x)
        }
        _ => return false,
    };
    cx.push(result);
    true
}
