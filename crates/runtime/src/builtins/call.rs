//! Polls and calls of host functions.
#![expect(unsafe_code, reason = "called by compiled code")]

use std::sync::atomic::Ordering;

use crate::error::Error;
use crate::heap::roots::Exit;
use crate::host::{Caller, HostFunction};
use crate::instance::Inner;
use crate::number::to_usize;
use crate::poll;
use crate::signal;
use crate::thread::{GuestThread, Running};
use crate::value::Slots;

/// `spw_poll`
pub(super) unsafe extern "C" fn poll(thread: *const GuestThread, site: u32) {
    // SAFETY: a thread context is the start of its thread.
    let thread = unsafe { &*thread };
    // SAFETY: its guest code is running, here.
    let running = unsafe { Running::new(thread) };
    poll::poll(running, site);
}

/// `spw_host_call`, called with that frame pointer and to return to that address. A thread that was interrupted meanwhile
/// fails with nothing pending, whatever the closure answered well: the stub is gone, and compiled code would not look.
pub(super) unsafe extern "C" fn host_call(
    host: *const HostFunction,
    slots: *mut u8,
    frame: usize,
    address: usize,
) -> u64 {
    let running = signal::running().expect("compiled code runs inside an entry");
    running.set_exit(Exit { frame, address });
    let context = to_usize(running.thread().context().caller.load(Ordering::Relaxed));
    let context = std::ptr::with_exposed_provenance::<u8>(context);
    // SAFETY: the stub that led here has stored its context: an instance's, which is running, or a reference's.
    let instance = unsafe { Inner::of_context(context) };
    // SAFETY: adapters get the address that the instance has in its context, and keeps alive.
    let host = unsafe { &*host };
    // SAFETY: the adapter made as many slots as there are parameters or results.
    match unsafe { host.call(Caller::new(running, instance), Slots::new(slots)) } {
        Ok(()) => running.thread().interrupted().into(),
        // An exception of this thread goes on into the guest, unless the thread is to end: that nothing catches.
        Err(Error::Exception(exception)) if !running.thread().interrupted() => match exception.to_raw(running) {
            Ok(exception) => exception,
            Err(_) => running.fail(Error::Exception(exception)).into(),
        },
        Err(error) => running.fail(error).into(),
    }
}
