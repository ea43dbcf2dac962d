//! Global variables.
//!
//! Invariant: a global is 16 bytes in the instance context that defines it; others hold its address.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use spinwise_model::context::GlobalPlace;
use spinwise_model::index::GlobalIndex;
use wasmparser::Operator;

use crate::abi::{CONSTANT, cell_flags, clif_type};
use crate::func::FuncCx;

/// Lifts an operator on globals; `false` if it is not one.
pub(crate) fn translate(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    match op {
        Operator::GlobalGet { global_index } => {
            let index = GlobalIndex(*global_index);
            let ty = cx.module.globals[index.index()];
            let (address, offset) = place(cx, index);
            let mut flags = cell_flags(ty.content);
            if !ty.mutable {
                flags = flags.with_readonly().with_can_move();
            }
            let value = cx.b.ins().load(clif_type(ty.content), flags, address, offset);
            cx.push_typed(value, ty.content);
        }
        Operator::GlobalSet { global_index } => {
            let index = GlobalIndex(*global_index);
            let value = cx.pop_canonical();
            let (address, offset) = place(cx, index);
            let flags = cell_flags(cx.module.globals[index.index()].content);
            cx.b.ins().store(flags, value, address, offset);
        }
        _ => return false,
    }
    true
}

fn place(cx: &mut FuncCx<'_, '_>, index: GlobalIndex) -> (Value, i32) {
    match cx.layout.global(index) {
        GlobalPlace::Inline(offset) => (cx.vmctx, offset),
        GlobalPlace::Pointer(offset) => (cx.load_context(types::I64, CONSTANT, offset), 0),
    }
}
