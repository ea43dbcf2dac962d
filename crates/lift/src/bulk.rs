//! Whole-memory operators: size, growth, and the bulk operations, which the runtime carries out.
//!
//! Invariant: operands of either index type reach the runtime as 64 bits, zero-extended.

use cranelift_codegen::ir::{InstBuilder, Value, types};
use spinwise_model::index::MemoryIndex;
use spinwise_model::symbol::Builtin;
use wasmparser::Operator;

use crate::func::FuncCx;
use crate::memory::length;

/// Lifts one; `false` if the operator is none of them.
pub(crate) fn translate(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    use Operator as Op;
    match op {
        Op::MemorySize { mem } => size(cx, MemoryIndex(*mem)),
        Op::MemoryGrow { mem } => {
            let delta = cx.pop_u64();
            let memory = cx.immediate(*mem);
            let old =
                cx.call_builtin(Builtin::MemoryGrow, &[cx.vmctx, memory, delta]).expect("it returns the old size");
            push_pages(cx, MemoryIndex(*mem), old);
        }
        Op::MemoryCopy { dst_mem, src_mem } => {
            let length = cx.pop_u64();
            let source = cx.pop_u64();
            let destination = cx.pop_u64();
            let (to, from) = (cx.immediate(*dst_mem), cx.immediate(*src_mem));
            cx.call_fallible(Builtin::MemoryCopy, &[cx.vmctx, to, from, destination, source, length]);
        }
        Op::MemoryFill { mem } => {
            let length = cx.pop_u64();
            let byte = cx.pop();
            let destination = cx.pop_u64();
            let memory = cx.immediate(*mem);
            cx.call_fallible(Builtin::MemoryFill, &[cx.vmctx, memory, destination, byte, length]);
        }
        Op::MemoryInit { data_index, mem } => {
            let (source, length) = cx.pop2();
            let destination = cx.pop_u64();
            let (memory, segment) = (cx.immediate(*mem), cx.immediate(*data_index));
            cx.call_fallible(Builtin::MemoryInit, &[cx.vmctx, memory, segment, destination, source, length]);
        }
        Op::DataDrop { data_index } => {
            let segment = cx.immediate(*data_index);
            cx.call_builtin(Builtin::DataDrop, &[cx.vmctx, segment]);
        }
        _ => return false,
    }
    true
}

fn size(cx: &mut FuncCx<'_, '_>, memory: MemoryIndex) {
    let length = length(cx, memory);
    let log2 = cx.module.memories[memory.index()].page_size_log2;
    let pages = if log2 == 0 { length } else { cx.b.ins().ushr_imm_u(length, i64::from(log2)) };
    push_pages(cx, memory, pages);
}

/// Pushes a number of pages, or −1, in the memory's index type.
fn push_pages(cx: &mut FuncCx<'_, '_>, memory: MemoryIndex, pages: Value) {
    let wide = cx.module.memories[memory.index()].memory64;
    let pages = if wide { pages } else { cx.b.ins().ireduce(types::I32, pages) };
    cx.push(pages);
}
