//! Plain loads and stores, and the addresses of all accesses to linear memory.
//!
//! Invariant: a 32-bit memory has 8 GiB and a page reserved behind its base, so `base + index + offset` needs no bounds
//! check: what is not accessible faults, and every access carries the trap code that says so.

use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Opcode, Type, Value, types};
use spinwise_model::context::MemoryEntry;
use spinwise_model::index::MemoryIndex;
use wasmparser::{MemArg, MemArgTarget, Operator};

use crate::abi::{CONSTANT, GUEST};
use crate::func::FuncCx;

/// Where a load or a store goes.
pub(crate) struct Access {
    pub(crate) flags: MemFlagsData,
    pub(crate) address: Value,
    pub(crate) offset: i32,
}

/// Lifts a scalar load or store; `false` if the operator is neither.
pub(crate) fn translate(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    use Operator as Op;
    match op {
        Op::I32Load { memarg } => load(cx, memarg, Opcode::Load, types::I32),
        Op::I32Load8S { memarg } => load(cx, memarg, Opcode::Sload8, types::I32),
        Op::I32Load8U { memarg } => load(cx, memarg, Opcode::Uload8, types::I32),
        Op::I32Load16S { memarg } => load(cx, memarg, Opcode::Sload16, types::I32),
        Op::I32Load16U { memarg } => load(cx, memarg, Opcode::Uload16, types::I32),
        Op::I64Load { memarg } => load(cx, memarg, Opcode::Load, types::I64),
        Op::I64Load8S { memarg } => load(cx, memarg, Opcode::Sload8, types::I64),
        Op::I64Load8U { memarg } => load(cx, memarg, Opcode::Uload8, types::I64),
        Op::I64Load16S { memarg } => load(cx, memarg, Opcode::Sload16, types::I64),
        Op::I64Load16U { memarg } => load(cx, memarg, Opcode::Uload16, types::I64),
        Op::I64Load32S { memarg } => load(cx, memarg, Opcode::Sload32, types::I64),
        Op::I64Load32U { memarg } => load(cx, memarg, Opcode::Uload32, types::I64),
        Op::F32Load { memarg } => load(cx, memarg, Opcode::Load, types::F32),
        Op::F64Load { memarg } => load(cx, memarg, Opcode::Load, types::F64),
        Op::I32Store { memarg } | Op::I64Store { memarg } | Op::F32Store { memarg } | Op::F64Store { memarg } => {
            store(cx, memarg, Opcode::Store);
        }
        Op::I32Store8 { memarg } | Op::I64Store8 { memarg } => store(cx, memarg, Opcode::Istore8),
        Op::I32Store16 { memarg } | Op::I64Store16 { memarg } => store(cx, memarg, Opcode::Istore16),
        Op::I64Store32 { memarg } => store(cx, memarg, Opcode::Istore32),
        _ => return false,
    }
    true
}

fn load(cx: &mut FuncCx<'_, '_>, arg: &MemArg, opcode: Opcode, ty: Type) {
    let Access { flags, address, offset } = access(cx, arg);
    let flags = cx.b.func.dfg.mem_flags.insert_unchecked(flags);
    let (load, dfg) = cx.b.ins().Load(opcode, ty, flags, offset.into(), address);
    let value = dfg.first_result(load);
    cx.push(value);
}

fn store(cx: &mut FuncCx<'_, '_>, arg: &MemArg, opcode: Opcode) {
    let value = cx.pop();
    let Access { flags, address, offset } = access(cx, arg);
    let ty = cx.b.func.dfg.value_type(value);
    let flags = cx.b.func.dfg.mem_flags.insert_unchecked(flags);
    cx.b.ins().Store(opcode, ty, flags, offset.into(), value, address);
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
