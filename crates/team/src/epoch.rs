//! A counter to wait on: it only grows, and it can be poisoned.
//!
//! Word (64 bits): bit 0 poison, bits 1–63 the epoch. Posters add 2, a poisoner sets bit 0, nobody resets anything. Since
//! every wait names the epoch that it wants, a late waiter and a fast re-entry cannot be mistaken for one another.

use crate::clock::Deadline;
use crate::fault::{Fault, order};
use crate::sync::{AtomicU64, Ordering, faulty};
use crate::wait::{Outcome, Waiter, Waiters};

const POISON: u64 = 1;
const ONE: u64 = 2;

/// A counter to wait on: the end of a thread (epoch 1), the next region of work, the end of a process (poison).
#[derive(Debug)]
pub struct Epoch {
    word: AtomicU64,
    waiters: Waiters,
}

impl Epoch {
    /// At epoch 0.
    #[must_use]
    pub fn new() -> Self {
        Self { word: AtomicU64::new(0), waiters: Waiters::new() }
    }

    /// The epoch now. What happened before it was posted is visible.
    #[must_use]
    pub fn current(&self) -> u64 {
        self.word.load(Ordering::Acquire) / ONE
    }

    /// Whether it is poisoned.
    #[must_use]
    pub fn is_poisoned(&self) -> bool {
        self.word.load(Ordering::Acquire) & POISON != 0
    }

    /// Begins the next epoch, wakes everyone, and answers the epoch that began.
    pub fn post(&self) -> u64 {
        let before = self.word.fetch_add(ONE, order(Ordering::Release, Fault::RelaxedPost));
        self.waiters.wake_all();
        before / ONE + 1
    }

    /// Frees everyone who waits now or later for an epoch that has not begun: they get [`Outcome::Poisoned`].
    pub fn poison(&self) {
        self.word.fetch_or(POISON, order(Ordering::Release, Fault::RelaxedPost));
        if !faulty(Fault::PoisonWithoutWake) {
            self.waiters.wake_all();
        }
    }

    /// Waits until `epoch` has begun. An epoch that has begun is never reported poisoned or timed out.
    pub fn wait_for(&self, epoch: u64, waiter: &mut Waiter, deadline: Option<Deadline>) -> Outcome {
        let look = || {
            let word = self.word.load(order(Ordering::Acquire, Fault::RelaxedWait));
            if word / ONE >= epoch {
                Some(Outcome::Ok)
            } else if word & POISON != 0 {
                Some(Outcome::Poisoned)
            } else {
                None
            }
        };
        self.waiters.wait(waiter, deadline, look).unwrap_or(Outcome::TimedOut)
    }
}

impl Default for Epoch {
    fn default() -> Self {
        Self::new()
    }
}
