//! Arithmetic on 128 bits in two halves (wide arithmetic proposal).
//!
//! Invariant: a number is two operands, the low half first. Back ends match an extended product to one multiplication.
//! Cost: two instructions each.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use wasmparser::Operator;

use crate::func::FuncCx;

/// Lifts one; `false` if the operator is none of them.
pub(crate) fn translate(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    let result = match op {
        Operator::I64Add128 => {
            let (x, y) = pop2_numbers(cx);
            cx.b.ins().iadd(x, y)
        }
        Operator::I64Sub128 => {
            let (x, y) = pop2_numbers(cx);
            cx.b.ins().isub(x, y)
        }
        Operator::I64MulWideS => {
            let (x, y) = cx.pop2();
            let x = cx.b.ins().sextend(types::I128, x);
            let y = cx.b.ins().sextend(types::I128, y);
            cx.b.ins().imul(x, y)
        }
        Operator::I64MulWideU => {
            let (x, y) = cx.pop2();
            let x = cx.b.ins().uextend(types::I128, x);
            let y = cx.b.ins().uextend(types::I128, y);
            cx.b.ins().imul(x, y)
        }
        _ => return false,
    };
    let (low, high) = cx.b.ins().isplit(result);
    cx.push(low);
    cx.push(high);
    true
}

/// Pops two numbers of 128 bits.
fn pop2_numbers(cx: &mut FuncCx<'_, '_>) -> (Value, Value) {
    let mut pop = || {
        let (low, high) = cx.pop2();
        cx.b.ins().iconcat(low, high)
    };
    let second = pop();
    (pop(), second)
}
