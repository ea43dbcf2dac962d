//! An alternate signal stack for each OS thread that enters guest code: a guest that has filled its own stack could not
//! run a handler on it.
//!
//! The standard library gives its threads one that is just large enough for its own handler; ours hands signals on to
//! other handlers as well. Cost: 64 KiB of address space a thread, once.
#![expect(unsafe_code, reason = "sigaltstack")]

use std::io;
use std::mem::MaybeUninit;
use std::ptr;

use libc::stack_t;

use crate::mapping::Mapping;

const SIZE: usize = 64 << 10;
const GUARD: usize = 4 << 10;

struct AltStack {
    _mapping: Mapping,
    previous: stack_t,
}

impl AltStack {
    fn install() -> io::Result<Self> {
        let guard = GUARD.max(rustix::param::page_size());
        let mapping = Mapping::reserve(guard + SIZE)?;
        mapping.commit(guard..guard + SIZE)?;
        let base = mapping.base().as_ptr().wrapping_add(guard);
        let ours = stack_t { ss_sp: base.cast(), ss_flags: 0, ss_size: SIZE };
        let mut previous = MaybeUninit::<stack_t>::uninit();
        // SAFETY: the new stack stays mapped until it is taken out of use below.
        if unsafe { libc::sigaltstack(&raw const ours, previous.as_mut_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: the call succeeded, so it has been written.
        Ok(Self { _mapping: mapping, previous: unsafe { previous.assume_init() } })
    }
}

impl Drop for AltStack {
    fn drop(&mut self) {
        // The thread is ending. What was there before may be gone already, so none is in use from here on.
        let none = stack_t { ss_sp: ptr::null_mut(), ss_flags: libc::SS_DISABLE, ss_size: self.previous.ss_size };
        // SAFETY: takes our stack out of use before it is unmapped.
        unsafe { libc::sigaltstack(&raw const none, ptr::null_mut()) };
    }
}

thread_local! {
    static ALT_STACK: io::Result<AltStack> = AltStack::install();
}

/// Makes sure that this OS thread has one.
pub(crate) fn ensure() -> io::Result<()> {
    let gone = |_| io::Error::other("the thread is ending");
    ALT_STACK
        .try_with(|stack| stack.as_ref().map(|_| ()).map_err(|error| io::Error::new(error.kind(), error.to_string())))
        .map_err(gone)?
}
