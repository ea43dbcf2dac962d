//! The wait primitive: spin, yield, announce, look again, park.
//!
//! The condition is the caller's: any function of memory that [`Waiters::wait`] calls until it answers. Whoever makes it
//! true calls [`Waiters::wake_all`] after the write. No wake-up is lost, and none is passed on for nothing: a wait ends
//! with an answer or at its deadline. `README.md` has the protocol and the proof.
//!
//! Cost: an answer at the first look, two loads. A wake with nobody parked, a fence and a load. A park, two short
//! critical sections and what the [`Parker`] takes. A thread that is woken has been taken off the list already, by the
//! waker, outside whose lock all the waking happens.

use std::sync::{Arc, PoisonError};

use crate::clock::{self, Deadline};
use crate::crowd::Crowd;
use crate::fault::{Fault, fence_unless};
use crate::parker::Parker;
use crate::spin::SpinBudget;
use crate::sync::{AtomicU32, Mutex, Ordering, faulty, spin_loop, yield_now};

/// How a wait ended.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// What was waited for has happened.
    Ok,
    /// It will not happen: the thing waited on was poisoned.
    Poisoned,
    /// The deadline came first.
    TimedOut,
}

/// Turns between two looks at the clock while spinning.
const TURNS: u32 = 8;

/// Yields between spinning and parking.
const YIELDS: u32 = 4;

/// Who waits: one thread or fibre, how it parks, and how long it spins first.
#[derive(Debug)]
pub struct Waiter {
    parker: Arc<dyn Parker>,
    budget: SpinBudget,
    crowd: Option<Arc<Crowd>>,
}

impl Waiter {
    /// A waiter outside any crowd. Where the parker may not spin the budget is not used.
    #[must_use]
    pub fn new(parker: Arc<dyn Parker>, budget: SpinBudget) -> Self {
        Self { parker, budget, crowd: None }
    }

    /// The same waiter, not spinning while this crowd outnumbers its CPUs. Being counted in it is another matter:
    /// [`Crowd::join`].
    #[must_use]
    pub fn in_crowd(self, crowd: Arc<Crowd>) -> Self {
        Self { crowd: Some(crowd), ..self }
    }

    /// How it parks. Unparking it makes a wait look at its condition again, so a condition may include a flag that is
    /// none of the awaited thing's business: set the flag, then unpark.
    #[must_use]
    pub fn parker(&self) -> &Arc<dyn Parker> {
        &self.parker
    }

    /// SPIN and YIELD. Answers where the condition did; `None` means park.
    fn linger<T>(&mut self, deadline: Option<Deadline>, ready: &mut impl FnMut() -> Option<T>) -> Option<T> {
        if !self.parker.may_spin() {
            return None;
        }
        let granted = self.budget.grant(self.crowd.as_ref().is_some_and(|crowd| crowd.is_over()));
        if granted > 0 {
            let start = clock::now();
            let end = start.saturating_add(granted).min(deadline.map_or(u64::MAX, Deadline::ns));
            let (answer, spent) = loop {
                let answer = (0..TURNS).find_map(|_| {
                    spin_loop();
                    ready()
                });
                let now = clock::now();
                if answer.is_some() || now >= end {
                    break (answer, now - start);
                }
            };
            // A spin that the deadline cut short says nothing about what a longer one would have met.
            if answer.is_some() || spent >= granted {
                self.budget.settle(granted, spent, answer.is_some());
            }
            if answer.is_some() {
                return answer;
            }
        }
        let yields = if self.budget.yields() { YIELDS } else { 0 };
        (0..yields).find_map(|_| {
            yield_now();
            ready()
        })
    }
}

/// Those who wait for one thing.
#[derive(Debug)]
pub struct Waiters {
    /// Length of the list. Written under its lock, by waiters and wakers; read without it by wakers.
    parked: AtomicU32,
    /// In order of announcement. A waker empties it; a waiter that goes for another reason takes itself off.
    list: Mutex<Vec<Arc<dyn Parker>>>,
}

impl Waiters {
    /// Nobody yet.
    #[must_use]
    pub fn new() -> Self {
        Self { parked: AtomicU32::new(0), list: Mutex::new(Vec::new()) }
    }

    /// Waits until `ready` answers; `None` where the deadline passed and the last look, at or after it, found nothing.
    ///
    /// `ready` must read what it reads with Acquire, must not block, and may be called any number of times.
    pub fn wait<T>(
        &self,
        waiter: &mut Waiter,
        deadline: Option<Deadline>,
        mut ready: impl FnMut() -> Option<T>,
    ) -> Option<T> {
        if let Some(answer) = ready() {
            return Some(answer);
        }
        if deadline.is_some_and(Deadline::passed) {
            return ready();
        }
        if let Some(answer) = waiter.linger(deadline, &mut ready) {
            return Some(answer);
        }
        self.park(&waiter.parker, deadline, &mut ready)
    }

    /// ANNOUNCE and PARKED.
    #[cold]
    fn park<T>(
        &self,
        parker: &Arc<dyn Parker>,
        deadline: Option<Deadline>,
        ready: &mut impl FnMut() -> Option<T>,
    ) -> Option<T> {
        let answer = loop {
            self.announce(parker);
            let over = deadline.is_some_and(Deadline::passed);
            if !faulty(Fault::NoRecheck) || over {
                let answer = ready();
                if answer.is_some() || over {
                    break answer;
                }
            }
            parker.park(deadline);
            let answer = ready();
            if answer.is_some() {
                break answer;
            }
        };
        self.change(|list| list.retain(|other| !Arc::ptr_eq(other, parker)));
        answer
    }

    /// Puts the waiter on the list, unless no waker took it off since the last time. The condition is read after this.
    fn announce(&self, parker: &Arc<dyn Parker>) {
        self.change(|list| {
            if !list.iter().any(|other| Arc::ptr_eq(other, parker)) {
                list.push(Arc::clone(parker));
            }
        });
        fence_unless(Fault::NoAnnounceFence);
    }

    /// Wakes everyone who is parked. The write that makes their condition true comes before, with Release.
    pub fn wake_all(&self) {
        fence_unless(Fault::NoPostFence);
        if self.parked.load(Ordering::Relaxed) > 0 {
            self.wake_parked();
        }
    }

    #[cold]
    fn wake_parked(&self) {
        for parker in self.change(std::mem::take) {
            parker.unpark();
        }
    }

    /// Changes the list and counts it again. Nothing can panic while it is locked, so its poison means nothing.
    fn change<T>(&self, change: impl FnOnce(&mut Vec<Arc<dyn Parker>>) -> T) -> T {
        let mut list = self.list.lock().unwrap_or_else(PoisonError::into_inner);
        let result = change(&mut list);
        let count = u32::try_from(list.len()).expect("fewer threads than 2^32");
        self.parked.store(count, Ordering::Relaxed);
        result
    }
}

impl Default for Waiters {
    fn default() -> Self {
        Self::new()
    }
}
