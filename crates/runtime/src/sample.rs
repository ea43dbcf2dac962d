//! Where a thread is that does not come to a poll: it is asked by a signal.
//!
//! Only threads that did not arrive in time are asked, so nobody else ever sees the signal, SIGURG: ignored by default,
//! and meant to be cheap. The handler notes the program counter where that is compiled code's and hands on what is not for it.
//! Invariant: it allocates nothing and takes no lock. Cost: a signal for each thread asked.
#![expect(unsafe_code, reason = "signal handlers")]

use std::cell::UnsafeCell;
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Once;
use std::sync::atomic::{AtomicI32, AtomicUsize, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use libc::{c_void, sigaction, siginfo_t, ucontext_t};

use crate::backtrace;
use crate::error::Frame;
use crate::program;
use crate::signal;

const SIGNAL: c_int = libc::SIGURG;

/// How long to wait for an answer.
const PATIENCE: Duration = Duration::from_millis(100);

/// Where one guest thread was seen last.
#[derive(Debug, Default)]
pub(crate) struct Sample {
    /// The OS thread that runs it; 0 before its first entry.
    os_thread: AtomicI32,
    /// What the handler found: [`UNASKED`], [`OUTSIDE`] or a program counter.
    found: AtomicUsize,
}

const UNASKED: usize = 0;
const OUTSIDE: usize = 1;

impl Sample {
    /// Notes that the calling OS thread runs the guest thread.
    pub(crate) fn runs_here(&self) {
        thread_local! {
            static ID: c_int = rustix::thread::gettid().as_raw_nonzero().get();
        }
        ID.with(|id| self.os_thread.store(*id, Ordering::Relaxed));
    }

    /// Asks. The guest function that the thread is in, or `None` where it is in none, or gave no answer.
    pub(crate) fn ask(&self) -> Option<Frame> {
        install();
        self.found.store(UNASKED, Ordering::Relaxed);
        let os_thread = self.os_thread.load(Ordering::Relaxed);
        // SAFETY: asks for this process's number.
        let process = unsafe { libc::getpid() };
        // SAFETY: sends a signal that has a handler to a thread of this process, if it still exists.
        let sent = unsafe { libc::syscall(libc::SYS_tgkill, process, os_thread, SIGNAL) };
        let start = Instant::now();
        while sent == 0 && start.elapsed() < PATIENCE {
            match self.found.load(Ordering::Relaxed) {
                UNASKED => thread::sleep(Duration::from_micros(100)),
                OUTSIDE => return None,
                pc => return backtrace::innermost(pc),
            }
        }
        None
    }
}

/// What was installed before.
struct Previous(UnsafeCell<MaybeUninit<sigaction>>);

// SAFETY: written once, before the handler that reads it is installed.
unsafe impl Sync for Previous {}

static PREVIOUS: Previous = Previous(UnsafeCell::new(MaybeUninit::uninit()));

fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: only asks.
        let asked = unsafe { sigaction(SIGNAL, ptr::null(), PREVIOUS.0.get().cast()) };
        assert_eq!(asked, 0, "sigaction cannot fail for this signal");
        // SAFETY: all zeros is a valid sigaction.
        let mut action: sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
        action.sa_sigaction = (handle as *const ()).expose_provenance();
        action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        // SAFETY: the handler is async-signal-safe and hands on what is not its own.
        let installed = unsafe { sigaction(SIGNAL, &raw const action, ptr::null_mut()) };
        assert_eq!(installed, 0, "sigaction cannot fail for this signal");
    });
}

unsafe extern "C" fn handle(number: c_int, info: *mut siginfo_t, context: *mut c_void) {
    if let Some(running) = signal::running() {
        // SAFETY: the kernel passes a valid pointer.
        let machine = unsafe { &*context.cast::<ucontext_t>() };
        let pc = signal::pc(machine);
        let found = if program::with_program_at(pc, |_| ()).is_some() { pc } else { OUTSIDE };
        running.thread().sample().found.store(found, Ordering::Relaxed);
    }
    // SAFETY: written before this handler was installed, and not since.
    let previous = unsafe { &*PREVIOUS.0.get().cast::<sigaction>() };
    // SAFETY: the arguments are the kernel's.
    unsafe { signal::call_previous(previous, number, info, context) };
}
