//! Deliberate faults: one for each line of the protocol that its proof leans on.
//!
//! The shipped crate never commits them ([`faulty`] is a constant `false` and the branches vanish). The models in
//! `tests/loom.rs` switch on one at a time and demand that loom finds the consequence: a line whose fault went unnoticed
//! would be a line without a model. `README.md` lists them beside the steps that they break.

use crate::sync::{Ordering, faulty, fence};

/// A way to get the protocol wrong.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// A waiter announces itself without the fence before it looks again.
    NoAnnounceFence,
    /// A waiter parks without looking again.
    NoRecheck,
    /// A poster looks for waiters without the fence after its write.
    NoPostFence,
    /// The poster's write is relaxed.
    RelaxedPost,
    /// The waiter's reads are relaxed.
    RelaxedWait,
    /// A waiter times out by a plain store.
    TimeoutByStore,
    /// A notifier settles a ticket by a plain store.
    SettleByStore,
    /// Poison is written and nobody is woken.
    PoisonWithoutWake,
    /// Parking overwrites an unpark that came first.
    ParkOverToken,
}

/// The given order, or none where the fault is in force.
pub(crate) fn order(order: Ordering, fault: Fault) -> Ordering {
    if faulty(fault) { Ordering::Relaxed } else { order }
}

/// A sequentially consistent fence, except where the fault is in force.
pub(crate) fn fence_unless(fault: Fault) {
    if !faulty(fault) {
        fence(Ordering::SeqCst);
    }
}
