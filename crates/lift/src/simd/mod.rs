//! SIMD128: the 128-bit vector operators (core spec 4.3.3 and 4.4.3), one file a family.
//!
//! A `v128` on the operand stack may have any 128-bit CLIF vector type. An operator reinterprets its operands as the type
//! it works on ([`pop_as`]) and pushes its result in the type that it comes out as, so that chains of operators of one
//! shape hold no `bitcast`. Whoever moves a value across a boundary (a local, a block parameter, a call) makes it `i8x16`.
//!
//! Invariant: lanes are numbered as wasm numbers them, lane 0 at the lowest address, whatever the target's byte order:
//! each `bitcast` says so. Cost: a jump table a family, and at most one `bitcast` an operand.

mod compare;
mod convert;
mod float;
mod integer;
mod lanes;
mod logic;
mod memory;
mod relaxed;
mod widen;

use cranelift_codegen::ir::{InstBuilder, Opcode, Type, Value};
use wasmparser::Operator;

use crate::abi::LANES;
use crate::func::FuncCx;

/// Lifts a vector operator; `false` if it is not one.
pub(crate) fn translate(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    memory::translate(cx, op)
        || lanes::translate(cx, op)
        || integer::translate(cx, op)
        || float::translate(cx, op)
        || widen::translate(cx, op)
        || compare::translate(cx, op)
        || logic::translate(cx, op)
        || convert::translate(cx, op)
        || relaxed::translate(cx, op)
}

/// Reinterprets a vector as another vector type; no instruction if it is of that type.
fn cast(cx: &mut FuncCx<'_, '_>, vector: Value, ty: Type) -> Value {
    if cx.b.func.dfg.value_type(vector) == ty { vector } else { cx.b.ins().bitcast(ty, LANES, vector) }
}

/// Pops a vector as the given type.
fn pop_as(cx: &mut FuncCx<'_, '_>, ty: Type) -> Value {
    let vector = cx.pop();
    cast(cx, vector, ty)
}

/// Pops two vectors as the given type, first pushed first.
fn pop2_as(cx: &mut FuncCx<'_, '_>, ty: Type) -> (Value, Value) {
    let second = pop_as(cx, ty);
    let first = pop_as(cx, ty);
    (first, second)
}

/// An instruction from one vector to one value; `ty` is its controlling type and that of its operand.
fn unary(cx: &mut FuncCx<'_, '_>, opcode: Opcode, ty: Type) {
    let x = pop_as(cx, ty);
    let (inst, dfg) = cx.b.ins().Unary(opcode, ty, x);
    let result = dfg.first_result(inst);
    cx.push(result);
}

/// An instruction from two vectors to one; `ty` is its controlling type and that of its operands.
fn binary(cx: &mut FuncCx<'_, '_>, opcode: Opcode, ty: Type) {
    let (x, y) = pop2_as(cx, ty);
    let (inst, dfg) = cx.b.ins().Binary(opcode, ty, x, y);
    let result = dfg.first_result(inst);
    cx.push(result);
}
