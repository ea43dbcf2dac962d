//! How a waiter blocks, and how it is woken: a token that at most one `park` takes.
//!
//! A wait is given its [`Parker`] and knows nothing of what is behind it: a futex for an OS thread, suspension for a
//! fibre. An unpark that comes before the park is kept, so a waker never needs to know how far the waiter has got.

use std::fmt;

use crate::clock::Deadline;
use crate::fault::Fault;
use crate::sync::{Futex, Ordering, faulty};

/// How one waiter blocks. Only the waiter itself parks; anyone unparks, at any time, even long after the wait is over.
pub trait Parker: fmt::Debug + Send + Sync {
    /// Blocks until [`unpark`](Self::unpark) has been called since the last `park` returned, or the deadline passes. It
    /// may also return for no reason: callers look at their condition again. What happened before the `unpark` that
    /// ends it is visible after it.
    fn park(&self, deadline: Option<Deadline>);

    /// Ends the current or the next [`park`](Self::park). Calls do not add up.
    fn unpark(&self);

    /// Whether nobody else could use this processor while the waiter spins or yields. False for a fibre, whose worker
    /// has others to run: it parks at once.
    fn may_spin(&self) -> bool;
}

/// Nobody is parked and nobody has called `unpark`.
const IDLE: u32 = 0;
/// The owner sleeps, or is about to.
const PARKED: u32 = 1;
/// `unpark` was called and no `park` has taken notice yet.
const TOKEN: u32 = 2;

/// Parks an OS thread on a futex.
#[derive(Debug)]
pub struct FutexParker {
    futex: Futex,
}

impl FutexParker {
    /// For one thread: whoever parks on it.
    #[must_use]
    pub fn new() -> Self {
        Self { futex: Futex::new(IDLE) }
    }
}

impl Default for FutexParker {
    fn default() -> Self {
        Self::new()
    }
}

impl Parker for FutexParker {
    fn park(&self, deadline: Option<Deadline>) {
        let word = &self.futex.word;
        if faulty(Fault::ParkOverToken) {
            word.store(PARKED, Ordering::Relaxed);
        }
        let announced = word.compare_exchange(IDLE, PARKED, Ordering::Relaxed, Ordering::Relaxed);
        if announced.is_ok() || faulty(Fault::ParkOverToken) {
            while word.load(Ordering::Relaxed) == PARKED && !deadline.is_some_and(Deadline::passed) {
                self.futex.wait(PARKED, deadline);
            }
        }
        word.swap(IDLE, Ordering::Acquire);
    }

    fn unpark(&self) {
        if self.futex.word.swap(TOKEN, Ordering::Release) == PARKED {
            self.futex.wake();
        }
    }

    fn may_spin(&self) -> bool {
        true
    }
}
