//! `memory.atomic.wait` and `notify`: who waits where in one memory, first come first served.
//!
//! Invariants: the comparison and the joining of the queue are one step under the queue's lock, which a notifier takes
//! after the store that it announces: no wake-up is lost. Each wait is a [`Ticket`], settled exactly once, by a notifier, the
//! deadline or the end of the process; a notifier counts only what it settled itself and goes on to the next otherwise.
//! No ticket outlives its wait in the queue, and no empty queue is kept. Source: threads proposal; `README.md` has the proof.
//! Cost: a lock and an allocation a wait; a notify where nobody waits, a lock.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use parking_lot::Mutex;
use spinwise_team::{Deadline, Outcome, Ticket};

use crate::thread::Running;

const SHARDS: usize = 16;

type Queues = BTreeMap<u64, VecDeque<Arc<Ticket>>>;

/// The threads that wait in one memory, by byte address, in order of arrival. Addresses are spread over several locks.
#[derive(Debug, Default)]
pub(crate) struct WaitQueue {
    shards: [Mutex<Queues>; SHARDS],
}

/// How a wait ended.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Waited {
    /// A notifier woke it.
    Woken,
    /// The value was not the expected one.
    NotEqual,
    /// The time was over.
    TimedOut,
    /// The process has ended.
    Interrupted,
}

impl WaitQueue {
    pub(crate) fn new() -> Self {
        Self::default()
    }

    /// Waits at an address while nobody notifies, if the memory there `is_expected`. A negative timeout (in ns) is none.
    pub(crate) fn wait(
        &self,
        running: Running<'_>,
        address: u64,
        timeout: i64,
        is_expected: impl FnOnce() -> bool,
    ) -> Waited {
        let deadline = u64::try_from(timeout).ok().and_then(Deadline::after);
        let ticket = Arc::new(Ticket::new());
        {
            let mut queues = self.shard(address).lock();
            if !is_expected() {
                return Waited::NotEqual;
            }
            queues.entry(address).or_default().push_back(Arc::clone(&ticket));
        }
        match running.wait(&ticket, deadline) {
            // The notifier took it off the queue.
            Outcome::Ok => Waited::Woken,
            Outcome::TimedOut => {
                self.withdraw(address, &ticket);
                Waited::TimedOut
            }
            Outcome::Poisoned => {
                self.withdraw(address, &ticket);
                Waited::Interrupted
            }
        }
    }

    /// Wakes up to `count` waiters of an address, longest first; answers how many.
    pub(crate) fn notify(&self, address: u64, count: u32) -> u32 {
        let mut woken = 0;
        while woken < count {
            let first = self.take(address, (count - woken) as usize);
            if first.is_empty() {
                break;
            }
            for ticket in first {
                // A ticket that its deadline settled first was not woken: somebody else is.
                woken += u32::from(ticket.notify());
            }
        }
        woken
    }

    /// Takes the first waiters of an address off its queue.
    fn take(&self, address: u64, count: usize) -> VecDeque<Arc<Ticket>> {
        let mut queues = self.shard(address).lock();
        let Some(queue) = queues.get_mut(&address) else { return VecDeque::new() };
        if queue.len() > count {
            return queue.drain(..count).collect();
        }
        queues.remove(&address).unwrap_or_default()
    }

    /// Takes a settled ticket off its queue, if a notifier has not done so.
    fn withdraw(&self, address: u64, ticket: &Arc<Ticket>) {
        let mut queues = self.shard(address).lock();
        let Some(queue) = queues.get_mut(&address) else { return };
        queue.retain(|other| !Arc::ptr_eq(other, ticket));
        if queue.is_empty() {
            queues.remove(&address);
        }
    }

    fn shard(&self, address: u64) -> &Mutex<Queues> {
        // Words four bytes apart, and cache lines 64 bytes apart, fall into different shards.
        let mixed = (address >> 2) ^ (address >> 6);
        &self.shards[crate::number::to_usize(mixed) % SHARDS]
    }

    /// How many wait at an address.
    pub(crate) fn waiting(&self, address: u64) -> usize {
        self.shard(address).lock().get(&address).map_or(0, VecDeque::len)
    }
}
