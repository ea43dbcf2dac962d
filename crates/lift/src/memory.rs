//! Addresses in linear memory.
//!
//! Invariant: a 32-bit memory has 8 GiB and a page reserved behind its base, so `base + index + offset` needs no bounds
//! check: what is not accessible faults, and every access carries the trap code that says so.

use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use spinwise_model::context::MemoryEntry;
use spinwise_model::index::MemoryIndex;
use wasmparser::{MemArg, MemArgTarget};

use crate::abi::{CONSTANT, GUEST};
use crate::func::FuncCx;

/// Where a load or a store goes.
pub(crate) struct Access {
    pub(crate) flags: MemFlagsData,
    pub(crate) address: Value,
    pub(crate) offset: i32,
}

/// Pops the index operand and makes the address. An offset of 2^31 and more is added to it, a smaller one is left to the
/// instruction.
pub(crate) fn access(cx: &mut FuncCx<'_, '_>, arg: &MemArg) -> Access {
    let index = cx.pop();
    let index = cx.b.ins().uextend(types::I64, index);
    let base = base(cx, memory_of(arg));
    let mut address = cx.b.ins().iadd(base, index);
    let offset = i32::try_from(arg.offset).unwrap_or_else(|_| {
        address = cx.b.ins().iadd_imm_s(address, arg.offset.cast_signed());
        0
    });
    Access { flags: GUEST, address, offset }
}

/// The memory that an operator names.
pub(crate) fn memory_of(arg: &MemArg) -> MemoryIndex {
    match arg.target {
        MemArgTarget::Memory(index) => MemoryIndex(index),
        MemArgTarget::Array(_) => unreachable!("validation rejects access to arrays"),
    }
}

/// The address of byte 0 of a memory.
pub(crate) fn base(cx: &mut FuncCx<'_, '_>, memory: MemoryIndex) -> Value {
    let at = cx.layout.memory(memory) + MemoryEntry::BASE;
    cx.b.ins().load(types::I64, CONSTANT, cx.vmctx, at)
}
