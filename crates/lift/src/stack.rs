//! The operand stack of the function being lifted.
//!
//! Invariant: an entry is a value of the WebAssembly type's CLIF type, or one of two looser forms that cost nothing until
//! somebody needs the strict one: any 128-bit vector type stands for `v128`, and an `i8` of 0 or 1 (a comparison's
//! result) stands for `i32`. [`FuncCx::pop`] widens the `i8`; [`FuncCx::canonical`] makes both strict.

use cranelift_codegen::ir::{InstBuilder, Value, types};

use crate::abi::LANES;
use crate::func::FuncCx;

impl FuncCx<'_, '_> {
    /// Pushes a value; an `i8` is a truth value that stands for an `i32`.
    pub(crate) fn push(&mut self, v: Value) {
        self.stack.push(v);
    }

    /// Pops a value. A vector may have any 128-bit type.
    pub(crate) fn pop(&mut self) -> Value {
        let v = self.pop_loose();
        self.widened(v)
    }

    /// Pops two values: (first pushed, second pushed).
    pub(crate) fn pop2(&mut self) -> (Value, Value) {
        let second = self.pop();
        (self.pop(), second)
    }

    /// Pops three values, first pushed first.
    pub(crate) fn pop3(&mut self) -> (Value, Value, Value) {
        let third = self.pop();
        let (first, second) = self.pop2();
        (first, second, third)
    }

    /// Pops a condition: an `i32` or an `i8`, true when nonzero.
    pub(crate) fn pop_condition(&mut self) -> Value {
        self.pop_loose()
    }

    /// Pops a value of the type that crosses boundaries.
    pub(crate) fn pop_canonical(&mut self) -> Value {
        let v = self.pop_loose();
        self.canonical(v)
    }

    /// The value in the form that crosses boundaries: `i8x16` for any vector, `i32` for a truth value.
    pub(crate) fn canonical(&mut self, v: Value) -> Value {
        let ty = self.b.func.dfg.value_type(v);
        if ty.is_vector() && ty != types::I8X16 {
            return self.b.ins().bitcast(types::I8X16, LANES, v);
        }
        self.widened(v)
    }

    /// Makes the topmost `count` entries canonical in place.
    pub(crate) fn canonicalize_top(&mut self, count: usize) {
        for at in self.stack.len() - count..self.stack.len() {
            self.stack[at] = self.canonical(self.stack[at]);
        }
    }

    /// Makes the topmost `count` entries canonical and removes them, first pushed first.
    pub(crate) fn pop_many(&mut self, count: usize) -> Vec<Value> {
        self.canonicalize_top(count);
        self.stack.split_off(self.stack.len() - count)
    }

    fn pop_loose(&mut self) -> Value {
        self.stack.pop().expect("the validator saw an operand here")
    }

    fn widened(&mut self, v: Value) -> Value {
        if self.b.func.dfg.value_type(v) == types::I8 { self.b.ins().uextend(types::I32, v) } else { v }
    }
}
