//! Plain loads and stores, and the addresses of all accesses to linear memory.
//!
//! Invariants: a 32-bit memory with pages of the usual size has 8 GiB and a page reserved behind its base, so the sum of base,
//! index and offset needs no bounds check: what is not accessible faults, and every access carries the trap code that says
//! so. An access to any other memory is preceded by a comparison with the memory's length, loaded anew each time, since
//! another thread may have grown it; a stale length is a smaller one. No sum in a check wraps.
//!
//! Cost of a check: a load, a comparison and a branch; with an offset beyond the memory's guard an addition more. None
//! where a constant index lies below the memory's minimum.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, InstructionData, MemFlagsData, Opcode, Type, Value, types};
use spinwise_model::context::{MemoryDef, MemoryEntry};
use spinwise_model::index::MemoryIndex;
use spinwise_model::trap::TrapCode;
use spinwise_model::types::MemoryType;
use wasmparser::{MemArg, MemArgTarget, Operator};

use crate::abi::{CONSTANT, CONTEXT, GUEST, trap};
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
    let Access { flags, address, offset } = access(cx, arg, bytes(opcode, ty));
    let flags = cx.b.func.dfg.mem_flags.insert_unchecked(flags);
    let (load, dfg) = cx.b.ins().Load(opcode, ty, flags, offset.into(), address);
    let value = dfg.first_result(load);
    cx.push(value);
}

fn store(cx: &mut FuncCx<'_, '_>, arg: &MemArg, opcode: Opcode) {
    let value = cx.pop();
    let ty = cx.b.func.dfg.value_type(value);
    let Access { flags, address, offset } = access(cx, arg, bytes(opcode, ty));
    let flags = cx.b.func.dfg.mem_flags.insert_unchecked(flags);
    cx.b.ins().Store(opcode, ty, flags, offset.into(), value, address);
}

/// How many bytes a load or store of a value of that type accesses.
fn bytes(opcode: Opcode, ty: Type) -> u32 {
    match opcode {
        Opcode::Sload8 | Opcode::Uload8 | Opcode::Istore8 => 1,
        Opcode::Sload16 | Opcode::Uload16 | Opcode::Istore16 => 2,
        Opcode::Sload32 | Opcode::Uload32 | Opcode::Istore32 => 4,
        _ => ty.bytes(),
    }
}

/// Pops the index operand and makes the address of an access of so many bytes. An offset of 2^31 and more is added to it, a
/// smaller one is left to the instruction.
pub(crate) fn access(cx: &mut FuncCx<'_, '_>, arg: &MemArg, bytes: u32) -> Access {
    let index = cx.pop_u64();
    let memory = memory_of(arg);
    check(cx, memory, index, arg.offset, bytes);
    let base = base(cx, memory);
    let mut address = cx.b.ins().iadd(base, index);
    let offset = i32::try_from(arg.offset).unwrap_or_else(|_| {
        address = cx.b.ins().iadd_imm_s(address, arg.offset.cast_signed());
        0
    });
    Access { flags: GUEST, address, offset }
}

/// Traps unless the `bytes` bytes at `index + offset` are inside the memory, where nothing else sees to it.
pub(crate) fn check(cx: &mut FuncCx<'_, '_>, memory: MemoryIndex, index: Value, offset: u64, bytes: u32) {
    let ty = cx.module.memories[memory.index()];
    if !ty.is_checked() {
        return;
    }
    let code = trap(TrapCode::MemoryOutOfBounds);
    // How far beyond the index the access reaches.
    let Some(reach) = offset.checked_add(bytes.into()) else {
        // Beyond any memory. The access that follows is never made.
        let always = cx.b.ins().iconst(types::I8, 1);
        cx.b.ins().trapnz(always, code);
        return;
    };
    if constant(cx, index).and_then(|index| index.checked_add(reach)).is_some_and(|end| end <= least_length(&ty)) {
        return;
    }
    let last = if reach <= ty.guard() {
        index
    } else if ty.memory64 {
        let reach = cx.b.ins().iconst(types::I64, reach.cast_signed());
        cx.b.ins().uadd_overflow_trap(index, reach, code)
    } else {
        // Two numbers of little over 32 bits.
        cx.b.ins().iadd_imm_s(index, reach.cast_signed())
    };
    let length = length(cx, memory);
    let outside = cx.b.ins().icmp(IntCC::UnsignedGreaterThan, last, length);
    cx.b.ins().trapnz(outside, code);
}

/// Bytes that a memory of a type always has.
fn least_length(ty: &MemoryType) -> u64 {
    ty.min.saturating_mul(ty.page_size())
}

/// The value of an index that the operator before has made from a constant.
fn constant(cx: &FuncCx<'_, '_>, index: Value) -> Option<u64> {
    let dfg = &cx.b.func.dfg;
    let made_by = |value| dfg.value_def(value).inst().map(|inst| dfg.insts[inst]);
    let mut data = made_by(index)?;
    if let InstructionData::Unary { opcode: Opcode::Uextend, arg } = data {
        data = made_by(arg)?;
    }
    match data {
        // Narrow constants are kept zero-extended.
        InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits().cast_unsigned()),
        _ => None,
    }
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

/// The length of a memory now, in bytes: a single load of 64 bits, which another thread's growth cannot tear.
pub(crate) fn length(cx: &mut FuncCx<'_, '_>, memory: MemoryIndex) -> Value {
    let at = cx.layout.memory(memory) + MemoryEntry::DEF;
    let def = cx.load_context(types::I64, CONSTANT, at);
    cx.b.ins().load(types::I64, CONTEXT, def, MemoryDef::LENGTH)
}
