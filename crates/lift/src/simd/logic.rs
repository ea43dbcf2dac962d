//! Operators on the bits of a vector, and those that reduce a vector to a scalar.
//!
//! Source: core spec 4.3.3 and 4.4.3. Where only bits matter the first operand's integer type is kept, so that a mask
//! stays what its comparison made it and the back end can match the pair. Cost: one or two instructions each.

use cranelift_codegen::ir::types::{I8X16, I16X8, I32, I32X4, I64X2};
use cranelift_codegen::ir::{InstBuilder, Opcode, Type, Value};
use wasmparser::Operator as Op;

use super::{cast, pop_as, unary};
use crate::func::FuncCx;

/// Lifts an operator of this family; `false` if it is none.
pub(super) fn translate(cx: &mut FuncCx<'_, '_>, op: &Op<'_>) -> bool {
    match op {
        Op::V128Not => {
            let x = cx.pop();
            let ty = bits_type(cx, x);
            let x = cast(cx, x, ty);
            let result = cx.b.ins().bnot(x);
            cx.push(result);
        }
        Op::V128And => bitwise(cx, Opcode::Band),
        Op::V128Or => bitwise(cx, Opcode::Bor),
        Op::V128Xor => bitwise(cx, Opcode::Bxor),
        Op::V128AndNot => {
            let (x, y) = pop2_bits(cx);
            let not_y = cx.b.ins().bnot(y);
            let result = cx.b.ins().band(x, not_y);
            cx.push(result);
        }
        Op::V128Bitselect => {
            let (if_one, if_zero, mask) = cx.pop3();
            let ty = bits_type(cx, mask);
            let [mask, if_one, if_zero] = [mask, if_one, if_zero].map(|x| cast(cx, x, ty));
            let result = cx.b.ins().bitselect(mask, if_one, if_zero);
            cx.push(result);
        }

        Op::V128AnyTrue => unary(cx, Opcode::VanyTrue, I8X16),
        Op::I8x16AllTrue => unary(cx, Opcode::VallTrue, I8X16),
        Op::I16x8AllTrue => unary(cx, Opcode::VallTrue, I16X8),
        Op::I32x4AllTrue => unary(cx, Opcode::VallTrue, I32X4),
        Op::I64x2AllTrue => unary(cx, Opcode::VallTrue, I64X2),

        Op::I8x16Bitmask => bitmask(cx, I8X16),
        Op::I16x8Bitmask => bitmask(cx, I16X8),
        Op::I32x4Bitmask => bitmask(cx, I32X4),
        Op::I64x2Bitmask => bitmask(cx, I64X2),
        _ => return false,
    }
    true
}

/// The type in which to see only the bits of a vector: its own if its lanes are integers.
fn bits_type(cx: &FuncCx<'_, '_>, vector: Value) -> Type {
    let ty = cx.b.func.dfg.value_type(vector);
    if ty.lane_type().is_int() { ty } else { I8X16 }
}

/// Pops two vectors as one integer type.
fn pop2_bits(cx: &mut FuncCx<'_, '_>) -> (Value, Value) {
    let (x, y) = cx.pop2();
    let ty = bits_type(cx, x);
    (cast(cx, x, ty), cast(cx, y, ty))
}

fn bitwise(cx: &mut FuncCx<'_, '_>, opcode: Opcode) {
    let (x, y) = pop2_bits(cx);
    let ty = cx.b.func.dfg.value_type(x);
    let (inst, dfg) = cx.b.ins().Binary(opcode, ty, x, y);
    let result = dfg.first_result(inst);
    cx.push(result);
}

/// The sign bits of all lanes, lane 0 in bit 0.
fn bitmask(cx: &mut FuncCx<'_, '_>, ty: Type) {
    let x = pop_as(cx, ty);
    let result = cx.b.ins().vhigh_bits(I32, x);
    cx.push(result);
}
