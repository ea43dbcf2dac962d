//! One wait with one outcome, on which waiter and notifier agree.
//!
//! The word goes once from EMPTY to NOTIFIED, POISONED or TIMED_OUT, by a compare-exchange: whoever wins it has decided,
//! and whoever loses it learns what was decided. A notifier that counts whom it woke counts right, also where a timeout
//! races it. A ticket belongs to one waiter; a queue that holds it shares it by `Arc`, so that the notifier's last touch
//! may come after the waiter has gone.

use crate::clock::Deadline;
use crate::fault::{Fault, order};
use crate::sync::{AtomicU32, Ordering, faulty};
use crate::wait::{Outcome, Waiter, Waiters};

const EMPTY: u32 = 0;
const NOTIFIED: u32 = 1;
const POISONED: u32 = 2;
const TIMED_OUT: u32 = 3;

/// One wait: a waiter in a queue.
#[derive(Debug)]
pub struct Ticket {
    state: AtomicU32,
    waiters: Waiters,
}

impl Ticket {
    /// Not settled yet.
    #[must_use]
    pub fn new() -> Self {
        Self { state: AtomicU32::new(EMPTY), waiters: Waiters::new() }
    }

    /// How it was settled; `None` while it is not. What the notifier did before is visible.
    #[must_use]
    pub fn outcome(&self) -> Option<Outcome> {
        match self.state.load(order(Ordering::Acquire, Fault::RelaxedWait)) {
            EMPTY => None,
            NOTIFIED => Some(Outcome::Ok),
            POISONED => Some(Outcome::Poisoned),
            _ => Some(Outcome::TimedOut),
        }
    }

    /// Wakes the waiter, now or when it comes. False: it was settled before, so somebody else must be woken instead.
    #[must_use = "a notify that comes too late must go to the next waiter"]
    pub fn notify(&self) -> bool {
        let won = self.grant();
        if won {
            self.wake();
        }
        won
    }

    /// The first half of [`notify`](Self::notify), cheap enough to hold a queue's lock: decides that the waiter is woken,
    /// and leaves it asleep. True obliges the caller to [`wake`](Self::wake) it, after it has let go of the lock.
    #[must_use = "a granted ticket must be woken, one that was settled before must go to the next waiter"]
    pub fn grant(&self) -> bool {
        self.settle(NOTIFIED, order(Ordering::Release, Fault::RelaxedPost))
    }

    /// The second half of [`notify`](Self::notify).
    pub fn wake(&self) {
        self.waiters.wake_all();
    }

    /// Frees the waiter, now or when it comes, with [`Outcome::Poisoned`]. False: it was settled before.
    pub fn poison(&self) -> bool {
        let won = self.settle(POISONED, Ordering::Release);
        if won && !faulty(Fault::PoisonWithoutWake) {
            self.wake();
        }
        won
    }

    /// Waits until the ticket is settled, and settles it itself at the deadline.
    pub fn wait(&self, waiter: &mut Waiter, deadline: Option<Deadline>) -> Outcome {
        if let Some(outcome) = self.waiters.wait(waiter, deadline, || self.outcome()) {
            return outcome;
        }
        if faulty(Fault::TimeoutByStore) {
            self.state.store(TIMED_OUT, Ordering::Relaxed);
        }
        self.settle(TIMED_OUT, Ordering::Relaxed);
        self.outcome().unwrap_or(Outcome::TimedOut)
    }

    /// Whether this call decided.
    fn settle(&self, state: u32, success: Ordering) -> bool {
        if faulty(Fault::SettleByStore) && state == NOTIFIED {
            let empty = self.state.load(Ordering::Relaxed) == EMPTY;
            self.state.store(state, success);
            return empty;
        }
        self.state.compare_exchange(EMPTY, state, success, Ordering::Relaxed).is_ok()
    }
}

impl Default for Ticket {
    fn default() -> Self {
        Self::new()
    }
}
