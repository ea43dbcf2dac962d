//! Relaxed SIMD: operators whose result in some corner may be one of several, for the target to choose from.
//!
//! Invariants: [`Relaxed`] alone decides, so an operator gives the same result for the same operands wherever it stands in
//! a module; with [`Relaxed::DETERMINISTIC`] that is the one the specification's deterministic profile prescribes, which
//! is also what is chosen where the target has nothing faster. Source: core spec 4.3.3 (relaxed operations), appendix
//! "Profiles". Cost: one instruction each where the target has it.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{F32X4, F64X2, I8X16, I16X8, I32X4, I64X2};
use cranelift_codegen::ir::{InstBuilder, Opcode, Type, Value};
use wasmparser::Operator as Op;

use super::lanes::constant;
use super::{binary, cast, float, pop_as, pop2_as};
use crate::Relaxed;
use crate::func::FuncCx;

/// Lifts an operator of this family; `false` if it is none.
pub(super) fn translate(cx: &mut FuncCx<'_, '_>, op: &Op<'_>) -> bool {
    let Relaxed { x86, ssse3, sse41, fma } = cx.config.relaxed;
    match op {
        // A selector of 16 to 127 may wrap instead of giving 0.
        Op::I8x16RelaxedSwizzle => binary(cx, if ssse3 { Opcode::X86Pshufb } else { Opcode::Swizzle }, I8X16),

        // What does not fit may give the least number instead of the nearest, or of 0 for NaN.
        Op::I32x4RelaxedTruncF32x4S => {
            let x = pop_as(cx, F32X4);
            let result = if x86 { cx.b.ins().x86_cvtt2dq(I32X4, x) } else { cx.b.ins().fcvt_to_sint_sat(I32X4, x) };
            cx.push(result);
        }
        Op::I32x4RelaxedTruncF64x2SZero => {
            let x = pop_as(cx, F64X2);
            let wide = if x86 { cx.b.ins().x86_cvtt2dq(I64X2, x) } else { cx.b.ins().fcvt_to_sint_sat(I64X2, x) };
            let zero = constant(cx, I64X2, &[0; 16]);
            let result = cx.b.ins().snarrow(wide, zero);
            cx.push(result);
        }
        // No target has anything faster than saturation.
        Op::I32x4RelaxedTruncF32x4U => {
            let x = pop_as(cx, F32X4);
            let result = cx.b.ins().fcvt_to_uint_sat(I32X4, x);
            cx.push(result);
        }
        Op::I32x4RelaxedTruncF64x2UZero => {
            let x = pop_as(cx, F64X2);
            let wide = cx.b.ins().fcvt_to_uint_sat(I64X2, x);
            let zero = constant(cx, I64X2, &[0; 16]);
            let result = cx.b.ins().uunarrow(wide, zero);
            cx.push(result);
        }

        // The product may be rounded before it is added to, or not.
        Op::F32x4RelaxedMadd => multiply_add(cx, F32X4, fma, false),
        Op::F32x4RelaxedNmadd => multiply_add(cx, F32X4, fma, true),
        Op::F64x2RelaxedMadd => multiply_add(cx, F64X2, fma, false),
        Op::F64x2RelaxedNmadd => multiply_add(cx, F64X2, fma, true),

        // A lane that is neither all ones nor all zeros may select by its highest bit. x86_64 cannot do so for 16 bits.
        Op::I8x16RelaxedLaneselect => select(cx, I8X16, sse41),
        Op::I16x8RelaxedLaneselect => select(cx, I16X8, false),
        Op::I32x4RelaxedLaneselect => select(cx, I32X4, sse41),
        Op::I64x2RelaxedLaneselect => select(cx, I64X2, sse41),

        // With a NaN, and with zeros of both signs, either operand may come out.
        Op::F32x4RelaxedMin if x86 => float::pseudo_min(cx, F32X4),
        Op::F64x2RelaxedMin if x86 => float::pseudo_min(cx, F64X2),
        Op::F32x4RelaxedMax if x86 => float::pseudo_max(cx, F32X4),
        Op::F64x2RelaxedMax if x86 => float::pseudo_max(cx, F64X2),
        Op::F32x4RelaxedMin => binary(cx, Opcode::Fmin, F32X4),
        Op::F64x2RelaxedMin => binary(cx, Opcode::Fmin, F64X2),
        Op::F32x4RelaxedMax => binary(cx, Opcode::Fmax, F32X4),
        Op::F64x2RelaxedMax => binary(cx, Opcode::Fmax, F64X2),

        // The square of the least number may wrap instead of saturating.
        Op::I16x8RelaxedQ15mulrS => {
            binary(cx, if ssse3 { Opcode::X86Pmulhrsw } else { Opcode::SqmulRoundSat }, I16X8);
        }

        // The second operand's bytes of 128 and more may be negative or not.
        Op::I16x8RelaxedDotI8x16I7x16S => {
            let result = dot(cx, ssse3);
            cx.push(result);
        }
        Op::I32x4RelaxedDotI8x16I7x16AddS => {
            let addend = pop_as(cx, I32X4);
            let sums = dot(cx, ssse3);
            let low = cx.b.ins().swiden_low(sums);
            let high = cx.b.ins().swiden_high(sums);
            let sums = cx.b.ins().iadd_pairwise(low, high);
            let result = cx.b.ins().iadd(sums, addend);
            cx.push(result);
        }
        _ => return false,
    }
    true
}

/// `x * y + z`, or `-x * y + z`.
fn multiply_add(cx: &mut FuncCx<'_, '_>, ty: Type, fused: bool, negated: bool) {
    let z = pop_as(cx, ty);
    let (mut x, y) = pop2_as(cx, ty);
    if negated {
        x = cx.b.ins().fneg(x);
    }
    let result = if fused {
        cx.b.ins().fma(x, y, z)
    } else {
        let product = cx.b.ins().fmul(x, y);
        cx.b.ins().fadd(product, z)
    };
    cx.push(result);
}

/// The first operand where the mask says so, else the second: by each bit, or by the highest bit of each lane.
fn select(cx: &mut FuncCx<'_, '_>, ty: Type, by_highest_bit: bool) {
    let mask = pop_as(cx, ty);
    let (x, y) = pop2_as(cx, ty);
    let result = if by_highest_bit { cx.b.ins().blendv(mask, x, y) } else { cx.b.ins().bitselect(mask, x, y) };
    cx.push(result);
}

/// Pops two vectors of bytes: the saturated sums of neighbouring products.
fn dot(cx: &mut FuncCx<'_, '_>, ssse3: bool) -> Value {
    let (x, y) = pop2_as(cx, I8X16);
    if ssse3 {
        return cx.b.ins().x86_pmaddubsw(x, y);
    }
    let x_low = cx.b.ins().swiden_low(x);
    let y_low = cx.b.ins().swiden_low(y);
    let low = cx.b.ins().imul(x_low, y_low);
    let x_high = cx.b.ins().swiden_high(x);
    let y_high = cx.b.ins().swiden_high(y);
    let high = cx.b.ins().imul(x_high, y_high);
    let sums = cx.b.ins().iadd_pairwise(low, high);
    // Only twice the square of -128 is beyond 16 bits: it wraps to the least number, which nothing else comes to. One
    // less than that is the greatest.
    let least = constant(cx, I16X8, &[0x00, 0x80].repeat(8).try_into().expect("16 bytes"));
    let wrapped = cx.b.ins().icmp(IntCC::Equal, sums, least);
    let minus_one = cast(cx, wrapped, I16X8);
    cx.b.ins().iadd(sums, minus_one)
}
