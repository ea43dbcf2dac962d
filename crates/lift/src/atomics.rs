//! Atomic accesses, waits and wake-ups (threads proposal).
//!
//! Invariants: an atomic access traps unless its effective address (operand plus offset) is a multiple of its size, whether
//! that is in bounds or not; narrow results are zero-extended; a narrow compare-exchange compares the wrapped expected value. All are sequentially
//! consistent, and CLIF's instructions of exact width touch no neighbour.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{AtomicRmwOp, InstBuilder, Type, Value, types};
use spinwise_model::context::ThreadContext;
use spinwise_model::symbol::Builtin;
use spinwise_model::trap::TrapCode;
use wasmparser::{MemArg, Operator};

use crate::abi::{CONTEXT, GUEST, trap};
use crate::func::FuncCx;
use crate::memory::{base, check, memory_of};

#[derive(Clone, Copy)]
enum Action {
    Load,
    Store,
    Rmw(AtomicRmwOp),
    Cas,
}

/// An atomic access: what it does, the type of its operands, and its width in memory.
struct Atomic {
    action: Action,
    ty: Type,
    width: Type,
    arg: MemArg,
}

macro_rules! decode {
    ($op:expr; $($action:expr => { $($name:ident $ty:ident $width:ident,)* })*) => {
        match $op {
            $($(Operator::$name { memarg } => {
                Some(Atomic { action: $action, ty: types::$ty, width: types::$width, arg: *memarg })
            })*)*
            _ => None,
        }
    };
}

/// Lifts an atomic operator; `false` if it is not one.
pub(crate) fn translate(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    match op {
        Operator::AtomicFence { .. } => {
            cx.b.ins().fence();
        }
        Operator::MemoryAtomicNotify { memarg } => notify(cx, memarg),
        Operator::MemoryAtomicWait32 { memarg } => wait(cx, memarg, Builtin::AtomicWait32, types::I32),
        Operator::MemoryAtomicWait64 { memarg } => wait(cx, memarg, Builtin::AtomicWait64, types::I64),
        _ => match decode(op) {
            Some(atomic) => access(cx, &atomic),
            None => return false,
        },
    }
    true
}

fn access(cx: &mut FuncCx<'_, '_>, atomic: &Atomic) {
    let Atomic { action, ty, width, arg } = atomic;
    match action {
        Action::Load => {
            let address = address(cx, arg, *width);
            let old = cx.b.ins().atomic_load(*width, GUEST, address);
            push_widened(cx, old, *ty);
        }
        Action::Store => {
            let value = pop_narrowed(cx, *width);
            let address = address(cx, arg, *width);
            cx.b.ins().atomic_store(GUEST, value, address);
        }
        Action::Rmw(op) => {
            let value = pop_narrowed(cx, *width);
            let address = address(cx, arg, *width);
            let old = cx.b.ins().atomic_rmw(*width, GUEST, *op, address, value);
            push_widened(cx, old, *ty);
        }
        Action::Cas => {
            let replacement = pop_narrowed(cx, *width);
            let expected = pop_narrowed(cx, *width);
            let address = address(cx, arg, *width);
            let old = cx.b.ins().atomic_cas(GUEST, address, expected, replacement);
            push_widened(cx, old, *ty);
        }
    }
}

/// `memory.atomic.wait`: leaves guest code, and may come back to a thread that was cancelled meanwhile.
fn wait(cx: &mut FuncCx<'_, '_>, arg: &MemArg, builtin: Builtin, width: Type) {
    let (expected, timeout) = cx.pop2();
    let address = effective_address(cx, arg, width);
    let memory = cx.immediate(memory_of(arg).0);
    let args = [cx.vmctx, memory, address, expected, timeout];
    let outcome = cx.call_builtin(builtin, &args).expect("it returns the outcome");
    trap_if_negative(cx, outcome);
    let thread = cx.thread();
    let interrupted = cx.b.ins().load(types::I32, CONTEXT, thread, ThreadContext::INTERRUPTED);
    cx.b.ins().trapnz(interrupted, trap(TrapCode::Interrupted));
    cx.push(outcome);
}

fn notify(cx: &mut FuncCx<'_, '_>, arg: &MemArg) {
    let count = cx.pop();
    let address = effective_address(cx, arg, types::I32);
    let memory = cx.immediate(memory_of(arg).0);
    let args = [cx.vmctx, memory, address, count];
    let woken = cx.call_builtin(Builtin::AtomicNotify, &args).expect("it returns the number woken");
    trap_if_negative(cx, woken);
    let woken = cx.b.ins().ireduce(types::I32, woken);
    cx.push(woken);
}

fn trap_if_negative(cx: &mut FuncCx<'_, '_>, status: Value) {
    let failed = cx.b.ins().icmp_imm_u(IntCC::SignedLessThan, status, 0);
    cx.b.ins().trapnz(failed, trap(TrapCode::Pending));
}

/// Pops the index operand: the checked address in host memory.
fn address(cx: &mut FuncCx<'_, '_>, arg: &MemArg, width: Type) -> Value {
    let index = cx.pop_u64();
    let address = aligned_sum(cx, arg, index, width);
    let memory = memory_of(arg);
    check(cx, memory, index, arg.offset, width.bytes());
    let base = base(cx, memory);
    cx.b.ins().iadd(base, address)
}

/// Pops the index operand: the address in the memory, offset applied, a multiple of the width. The runtime checks that it
/// is inside; that the sum did not wrap is checked here.
fn effective_address(cx: &mut FuncCx<'_, '_>, arg: &MemArg, width: Type) -> Value {
    let index = cx.pop_u64();
    let address = aligned_sum(cx, arg, index, width);
    if cx.module.memories[memory_of(arg).index()].memory64 && arg.offset != 0 {
        let wrapped = cx.b.ins().icmp_imm_u(IntCC::UnsignedLessThan, address, arg.offset.cast_signed());
        cx.b.ins().trapnz(wrapped, trap(TrapCode::MemoryOutOfBounds));
    }
    address
}

/// Index plus offset, a multiple of the width. Where a 64-bit sum wraps its alignment is still that of the true sum.
fn aligned_sum(cx: &mut FuncCx<'_, '_>, arg: &MemArg, index: Value, width: Type) -> Value {
    let mut address = index;
    if arg.offset != 0 {
        address = cx.b.ins().iadd_imm_u(address, arg.offset.cast_signed());
    }
    if width.bytes() > 1 {
        let rest = cx.b.ins().band_imm_u(address, i64::from(width.bytes() - 1));
        cx.b.ins().trapnz(rest, trap(TrapCode::UnalignedAtomic));
    }
    address
}

fn pop_narrowed(cx: &mut FuncCx<'_, '_>, width: Type) -> Value {
    let value = cx.pop();
    if cx.b.func.dfg.value_type(value) == width { value } else { cx.b.ins().ireduce(width, value) }
}

fn push_widened(cx: &mut FuncCx<'_, '_>, value: Value, ty: Type) {
    // An i8 on the operand stack would be taken for a truth value.
    let value = if cx.b.func.dfg.value_type(value) == ty { value } else { cx.b.ins().uextend(ty, value) };
    cx.push(value);
}

fn decode(op: &Operator<'_>) -> Option<Atomic> {
    decode! { op;
        Action::Load => {
            I32AtomicLoad I32 I32, I32AtomicLoad8U I32 I8, I32AtomicLoad16U I32 I16,
            I64AtomicLoad I64 I64, I64AtomicLoad8U I64 I8, I64AtomicLoad16U I64 I16, I64AtomicLoad32U I64 I32,
        }
        Action::Store => {
            I32AtomicStore I32 I32, I32AtomicStore8 I32 I8, I32AtomicStore16 I32 I16,
            I64AtomicStore I64 I64, I64AtomicStore8 I64 I8, I64AtomicStore16 I64 I16, I64AtomicStore32 I64 I32,
        }
        Action::Rmw(AtomicRmwOp::Add) => {
            I32AtomicRmwAdd I32 I32, I32AtomicRmw8AddU I32 I8, I32AtomicRmw16AddU I32 I16,
            I64AtomicRmwAdd I64 I64, I64AtomicRmw8AddU I64 I8, I64AtomicRmw16AddU I64 I16, I64AtomicRmw32AddU I64 I32,
        }
        Action::Rmw(AtomicRmwOp::Sub) => {
            I32AtomicRmwSub I32 I32, I32AtomicRmw8SubU I32 I8, I32AtomicRmw16SubU I32 I16,
            I64AtomicRmwSub I64 I64, I64AtomicRmw8SubU I64 I8, I64AtomicRmw16SubU I64 I16, I64AtomicRmw32SubU I64 I32,
        }
        Action::Rmw(AtomicRmwOp::And) => {
            I32AtomicRmwAnd I32 I32, I32AtomicRmw8AndU I32 I8, I32AtomicRmw16AndU I32 I16,
            I64AtomicRmwAnd I64 I64, I64AtomicRmw8AndU I64 I8, I64AtomicRmw16AndU I64 I16, I64AtomicRmw32AndU I64 I32,
        }
        Action::Rmw(AtomicRmwOp::Or) => {
            I32AtomicRmwOr I32 I32, I32AtomicRmw8OrU I32 I8, I32AtomicRmw16OrU I32 I16,
            I64AtomicRmwOr I64 I64, I64AtomicRmw8OrU I64 I8, I64AtomicRmw16OrU I64 I16, I64AtomicRmw32OrU I64 I32,
        }
        Action::Rmw(AtomicRmwOp::Xor) => {
            I32AtomicRmwXor I32 I32, I32AtomicRmw8XorU I32 I8, I32AtomicRmw16XorU I32 I16,
            I64AtomicRmwXor I64 I64, I64AtomicRmw8XorU I64 I8, I64AtomicRmw16XorU I64 I16, I64AtomicRmw32XorU I64 I32,
        }
        Action::Rmw(AtomicRmwOp::Xchg) => {
            I32AtomicRmwXchg I32 I32, I32AtomicRmw8XchgU I32 I8, I32AtomicRmw16XchgU I32 I16,
            I64AtomicRmwXchg I64 I64, I64AtomicRmw8XchgU I64 I8, I64AtomicRmw16XchgU I64 I16, I64AtomicRmw32XchgU I64 I32,
        }
        Action::Cas => {
            I32AtomicRmwCmpxchg I32 I32, I32AtomicRmw8CmpxchgU I32 I8, I32AtomicRmw16CmpxchgU I32 I16,
            I64AtomicRmwCmpxchg I64 I64, I64AtomicRmw8CmpxchgU I64 I8, I64AtomicRmw16CmpxchgU I64 I16,
            I64AtomicRmw32CmpxchgU I64 I32,
        }
    }
}
