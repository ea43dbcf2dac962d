//! What the protocol asks of the machine: atomics, a lock, a futex, a clock.
//!
//! The files of the protocol (`parker`, `wait`, `epoch`, `ticket`) take these from `crate::sync` and from nowhere else.
//! `tests/loom.rs` compiles the same files in a crate whose `sync` is loom's, so the models run the shipped text.

use std::num::NonZeroU32;

pub(crate) use std::hint::spin_loop;
pub(crate) use std::sync::Mutex;
pub(crate) use std::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
pub(crate) use std::thread::yield_now;

use rustix::thread::futex;
use rustix::time::{ClockId, Timespec, clock_gettime};

use crate::clock::Deadline;
use crate::fault::Fault;

/// Whether a deliberate fault is in force: never, outside the models.
pub(crate) const fn faulty(_: Fault) -> bool {
    false
}

/// The monotonic clock, in ns. A read through the vDSO: no system call, about 25 ns.
pub(crate) fn now() -> u64 {
    let time = clock_gettime(ClockId::Monotonic);
    let seconds = u64::try_from(time.tv_sec).expect("the monotonic clock starts at 0");
    let ns = u64::try_from(time.tv_nsec).expect("nanoseconds are below 1e9");
    seconds * 1_000_000_000 + ns
}

/// A word that a thread can sleep on.
#[derive(Debug)]
pub(crate) struct Futex {
    pub(crate) word: AtomicU32,
}

impl Futex {
    pub(crate) fn new(value: u32) -> Self {
        Self { word: AtomicU32::new(value) }
    }

    /// Sleeps while the word is `expected`, until a wake or the deadline. May return early for no reason.
    pub(crate) fn wait(&self, expected: u32, deadline: Option<Deadline>) {
        let until = deadline.map(|deadline| {
            let clamp = |part: u64| part.try_into().unwrap_or(i64::MAX);
            Timespec { tv_sec: clamp(deadline.ns() / 1_000_000_000), tv_nsec: clamp(deadline.ns() % 1_000_000_000) }
        });
        // `wait_bitset` takes an absolute time of the monotonic clock, where `wait` takes a relative one, which would
        // drift each time a signal interrupts it. Interrupted, timed out and "word changed" all mean: look again.
        let _ = futex::wait_bitset(&self.word, futex::Flags::PRIVATE, expected, until.as_ref(), NonZeroU32::MAX);
    }

    /// Wakes the thread that sleeps on the word, if any.
    pub(crate) fn wake(&self) {
        let _ = futex::wake(&self.word, futex::Flags::PRIVATE, 1);
    }
}
