//! Whole-memory operators: size, growth, and the bulk operations, which the runtime carries out.

use cranelift_codegen::ir::{InstBuilder, types};
use spinwise_model::context::{MemoryDef, MemoryEntry};
use spinwise_model::index::MemoryIndex;
use spinwise_model::symbol::Builtin;
use spinwise_model::types::MemoryType;
use wasmparser::Operator;

use crate::abi::{CONSTANT, CONTEXT};
use crate::func::FuncCx;

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
            let old = cx.b.ins().ireduce(types::I32, old);
            cx.push(old);
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
    let at = cx.layout.memory(memory) + MemoryEntry::DEF;
    let def = cx.load_context(types::I64, CONSTANT, at);
    let length = cx.b.ins().load(types::I64, CONTEXT, def, MemoryDef::LENGTH);
    let pages = cx.b.ins().ushr_imm_u(length, i64::from(MemoryType::PAGE.ilog2()));
    let pages = cx.b.ins().ireduce(types::I32, pages);
    cx.push(pages);
}
