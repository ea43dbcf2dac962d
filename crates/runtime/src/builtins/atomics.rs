//! `memory.atomic.wait32`, `wait64` and `notify`. Source: threads proposal.
#![expect(unsafe_code, reason = "called by compiled code")]

use spinwise_model::trap::TrapCode;

use crate::copy::Scalar;
use crate::instance::Inner;
use crate::wait::Waited;

/// `spw_atomic_wait32`
pub(super) unsafe extern "C" fn wait32(
    context: *const u8,
    memory: u32,
    address: u64,
    expected: u32,
    timeout: i64,
) -> i32 {
    // SAFETY: compiled code passes its own context.
    unsafe { wait(context, memory, address, expected, timeout) }
}

/// `spw_atomic_wait64`
pub(super) unsafe extern "C" fn wait64(
    context: *const u8,
    memory: u32,
    address: u64,
    expected: u64,
    timeout: i64,
) -> i32 {
    // SAFETY: compiled code passes its own context.
    unsafe { wait(context, memory, address, expected, timeout) }
}

/// # Safety
/// `context` is that of an instance whose code is running, here.
unsafe fn wait<T: Scalar + PartialEq>(context: *const u8, memory: u32, address: u64, expected: T, timeout: i64) -> i32 {
    // SAFETY: as the caller vouches.
    let instance = unsafe { Inner::calling(context) };
    // SAFETY: as the caller vouches.
    let running = unsafe { instance.running() };
    let memory = instance.memory(memory);
    let size = size_of::<T>() as u64;
    let waited = match memory.at(address, size) {
        _ if !address.is_multiple_of(size) => Err(TrapCode::UnalignedAtomic),
        Err(_) => Err(TrapCode::MemoryOutOfBounds),
        Ok(_) if !memory.ty().shared => Err(TrapCode::ExpectedSharedMemory),
        Ok(word) => running.check().map(|()| {
            let is_expected = || T::load_ordered(word) == expected;
            memory.waiters().wait(running, address, timeout, is_expected)
        }),
    };
    let failed = |code: TrapCode| {
        running.set_pending(code.into());
        -1
    };
    match waited {
        Ok(Waited::Woken) => 0,
        Ok(Waited::NotEqual) => 1,
        Ok(Waited::TimedOut) => 2,
        Ok(Waited::Interrupted) => failed(TrapCode::Interrupted),
        Err(code) => failed(code),
    }
}

/// `spw_atomic_notify`. In a memory that is not shared nobody waits.
pub(super) unsafe extern "C" fn notify(context: *const u8, memory: u32, address: u64, count: u32) -> i64 {
    // SAFETY: compiled code passes its own context.
    let instance = unsafe { Inner::calling(context) };
    // SAFETY: compiled code passes its own context.
    let running = unsafe { instance.running() };
    let failed = |code: TrapCode| {
        running.set_pending(code.into());
        -1
    };
    if !address.is_multiple_of(4) {
        return failed(TrapCode::UnalignedAtomic);
    }
    instance.memory(memory).notify(address, count).map_or_else(|_| failed(TrapCode::MemoryOutOfBounds), i64::from)
}
