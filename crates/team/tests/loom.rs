//! Models of the wait protocol: every interleaving and every permitted stale read of two or three threads, by loom.
//!
//! The files of the protocol are compiled here a second time, over loom's atomics, with a lock and a condition variable
//! for the kernel's futex, and a clock that only timed parks advance. What is modelled is therefore the shipped text.
//!
//! Each model also runs with one of the protocol's steps broken (`fault.rs`), and must fail for the reason that the step
//! is there to prevent. Loom aborts on a deadlock, so these controls run in a child: this test program again, with
//! `SPINWISE_FAULT` naming the fault.

use std::env;
use std::process::{Command, Output};
use std::sync::Arc;

use loom::model::Builder;
use loom::sync::atomic::{AtomicU32, Ordering};
use loom::thread;

use spinwise_team::SpinBudget;

use epoch::Epoch;
use fault::Fault;
use parker::{FutexParker, Parker};
use ticket::Ticket;
use wait::{Outcome, Waiter};

/// What `src/sync.rs` offers, over loom.
mod sync {
    use std::cell::Cell;
    use std::env;
    use std::sync::OnceLock;

    pub(crate) use loom::hint::spin_loop;
    pub(crate) use loom::sync::Mutex;
    pub(crate) use loom::sync::atomic::{AtomicU32, AtomicU64, Ordering, fence};
    pub(crate) use loom::thread::yield_now;

    use crate::clock::Deadline;
    use crate::fault::Fault;

    loom::thread_local! {
        static NOW: Cell<u64> = Cell::new(0);
    }

    pub(crate) fn faulty(fault: Fault) -> bool {
        static FAULT: OnceLock<Option<String>> = OnceLock::new();
        FAULT.get_or_init(|| env::var("SPINWISE_FAULT").ok()).as_ref().is_some_and(|name| *name == format!("{fault:?}"))
    }

    pub(crate) fn now() -> u64 {
        NOW.with(Cell::get)
    }

    /// The kernel compares and sleeps in one step as seen by wakers: both take its lock.
    #[derive(Debug)]
    pub(crate) struct Futex {
        pub(crate) word: AtomicU32,
        kernel: Mutex<()>,
        sleeper: loom::sync::Condvar,
    }

    impl Futex {
        pub(crate) fn new(value: u32) -> Self {
            Self { word: AtomicU32::new(value), kernel: Mutex::new(()), sleeper: loom::sync::Condvar::new() }
        }

        /// A timed sleep times out at once: the other threads' steps before, between and after are the race to explore.
        pub(crate) fn wait(&self, expected: u32, deadline: Option<Deadline>) {
            if let Some(deadline) = deadline {
                NOW.with(|now| now.set(deadline.ns()));
                return;
            }
            let kernel = self.kernel.lock().expect("no panic");
            if self.word.load(Ordering::Relaxed) == expected {
                drop(self.sleeper.wait(kernel).expect("no panic"));
            }
        }

        pub(crate) fn wake(&self) {
            let _kernel = self.kernel.lock().expect("no panic");
            self.sleeper.notify_one();
        }
    }
}

mod crowd {
    pub(crate) use spinwise_team::Crowd;
}

mod spin {
    pub(crate) use spinwise_team::SpinBudget;
}

#[expect(dead_code, unreachable_pub, reason = "the shipped file, of which the models use a part")]
#[path = "../src/clock.rs"]
mod clock;
#[expect(dead_code, unreachable_pub, reason = "the shipped file, of which the models use a part")]
#[path = "../src/epoch.rs"]
mod epoch;
#[path = "../src/fault.rs"]
mod fault;
#[expect(unreachable_pub, reason = "the shipped file, of which the models use a part")]
#[path = "../src/parker.rs"]
mod parker;
#[expect(unreachable_pub, reason = "the shipped file, of which the models use a part")]
#[path = "../src/ticket.rs"]
mod ticket;
#[expect(dead_code, unreachable_pub, reason = "the shipped file, of which the models use a part")]
#[path = "../src/wait.rs"]
mod wait;

use clock::Deadline;

/// The consequence of a fault, as loom or the model reports it.
const DEADLOCK: &str = "deadlock";
const STALE: &str = "a write from before the post is not visible after the wait";
const DISAGREE: &str = "waiter and notifier disagree";

/// Explore every interleaving.
const ALL: Option<usize> = None;
/// Explore the interleavings with at most three switches away from a thread that could run on. Larger models take hours
/// without; `LOOM_MAX_PREEMPTIONS` raises it.
const THREE: Option<usize> = Some(3);

/// Runs the model, and then again in a child for each fault, where it must fail by the consequence.
fn check(name: &str, preemptions: Option<usize>, faults: &[(Fault, &str)], model: impl Fn() + Sync + Send + 'static) {
    let mut builder = Builder::new();
    builder.preemption_bound = builder.preemption_bound.or(preemptions);
    builder.check(model);
    if env::var_os("SPINWISE_FAULT").is_some() {
        return;
    }
    for (fault, consequence) in faults {
        let Output { status, stdout, stderr } = Command::new(env::current_exe().expect("this program"))
            .args([name, "--exact", "--nocapture", "--test-threads=1"])
            .env("SPINWISE_FAULT", format!("{fault:?}"))
            .output()
            .expect("this program runs again");
        let text = String::from_utf8_lossy(&stdout) + String::from_utf8_lossy(&stderr);
        assert!(text.contains("running 1 test"), "{name} names no test:\n{text}");
        assert!(!status.success(), "{name}: {fault:?} went unnoticed");
        assert!(text.contains(consequence), "{name}: {fault:?} failed, but not by {consequence:?}:\n{text}");
    }
}

fn waiter() -> Waiter {
    Waiter::new(Arc::new(FutexParker::new()), SpinBudget::passive())
}

const LATER: Option<Deadline> = Some(Deadline::at(1));

/// I7, I1: a waiter never sleeps through a post, and sees what came before it.
#[test]
fn post_reaches_a_waiter() {
    let faults = [
        (Fault::NoAnnounceFence, DEADLOCK),
        (Fault::NoRecheck, DEADLOCK),
        (Fault::NoPostFence, DEADLOCK),
        (Fault::ParkOverToken, DEADLOCK),
        (Fault::RelaxedPost, STALE),
        (Fault::RelaxedWait, STALE),
    ];
    check("post_reaches_a_waiter", ALL, &faults, || {
        let shared = Arc::new((Epoch::new(), AtomicU32::new(0)));
        let poster = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.store(7, Ordering::Relaxed);
                assert_eq!(shared.0.post(), 1);
            })
        };
        assert_eq!(shared.0.wait_for(1, &mut waiter(), None), Outcome::Ok);
        assert_eq!(shared.1.load(Ordering::Relaxed), 7, "{STALE}");
        poster.join().expect("no panic");
    });
}

/// One post frees both waiters, whether they spin, announce or sleep.
#[test]
fn post_reaches_two_waiters() {
    let faults = [(Fault::NoAnnounceFence, DEADLOCK), (Fault::NoPostFence, DEADLOCK)];
    check("post_reaches_two_waiters", THREE, &faults, || {
        let epoch = Arc::new(Epoch::new());
        let other = {
            let epoch = Arc::clone(&epoch);
            thread::spawn(move || assert_eq!(epoch.wait_for(1, &mut waiter(), None), Outcome::Ok))
        };
        let poster = {
            let epoch = Arc::clone(&epoch);
            thread::spawn(move || epoch.post())
        };
        assert_eq!(epoch.wait_for(1, &mut waiter(), None), Outcome::Ok);
        other.join().expect("no panic");
        poster.join().expect("no panic");
    });
}

/// I4 of the laws: two threads hand two epochs to and fro; a wait never returns for an epoch before it has begun.
#[test]
fn epochs_are_not_confused() {
    check("epochs_are_not_confused", THREE, &[(Fault::NoPostFence, DEADLOCK)], || {
        let pair = Arc::new([Epoch::new(), Epoch::new()]);
        let there = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                let mut waiter = waiter();
                for epoch in 1..=2 {
                    assert_eq!(pair[0].wait_for(epoch, &mut waiter, None), Outcome::Ok);
                    pair[1].post();
                }
            })
        };
        let mut waiter = waiter();
        for epoch in 1..=2 {
            assert_eq!(pair[0].post(), epoch);
            assert_eq!(pair[1].wait_for(epoch, &mut waiter, None), Outcome::Ok);
            assert_eq!(pair[1].current(), epoch);
        }
        there.join().expect("no panic");
    });
}

/// A notified waiter wakes and sees what came before the notify.
#[test]
fn notify_reaches_its_waiter() {
    let faults = [
        (Fault::NoAnnounceFence, DEADLOCK),
        (Fault::NoPostFence, DEADLOCK),
        (Fault::RelaxedPost, STALE),
        (Fault::RelaxedWait, STALE),
    ];
    check("notify_reaches_its_waiter", ALL, &faults, || {
        let shared = Arc::new((Ticket::new(), AtomicU32::new(0)));
        let notifier = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.store(7, Ordering::Relaxed);
                assert!(shared.0.notify(), "nobody else settles");
            })
        };
        assert_eq!(shared.0.wait(&mut waiter(), None), Outcome::Ok);
        assert_eq!(shared.1.load(Ordering::Relaxed), 7, "{STALE}");
        notifier.join().expect("no panic");
    });
}

/// A timeout and a notify race: the waiter is woken and the notifier knows it, or neither.
#[test]
fn timeout_races_notify() {
    let faults = [(Fault::TimeoutByStore, DISAGREE), (Fault::SettleByStore, DISAGREE), (Fault::RelaxedWait, STALE)];
    check("timeout_races_notify", ALL, &faults, || {
        let shared = Arc::new((Ticket::new(), AtomicU32::new(0)));
        let notifier = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.store(7, Ordering::Relaxed);
                shared.0.notify()
            })
        };
        let outcome = shared.0.wait(&mut waiter(), LATER);
        if outcome == Outcome::Ok {
            assert_eq!(shared.1.load(Ordering::Relaxed), 7, "{STALE}");
        }
        assert_eq!(notifier.join().expect("no panic"), outcome == Outcome::Ok, "{DISAGREE}: {outcome:?}");
    });
}

/// A timeout, a notify and a poison race: one of them decides, and all three agree on which.
#[test]
fn a_ticket_has_one_outcome() {
    let faults = [(Fault::TimeoutByStore, DISAGREE), (Fault::SettleByStore, DISAGREE)];
    check("a_ticket_has_one_outcome", THREE, &faults, || {
        let ticket = Arc::new(Ticket::new());
        let [notifier, poisoner] = [Ticket::notify, Ticket::poison].map(|settle| {
            let ticket = Arc::clone(&ticket);
            thread::spawn(move || settle(&ticket))
        });
        let outcome = ticket.wait(&mut waiter(), LATER);
        let notified = notifier.join().expect("no panic");
        let poisoned = poisoner.join().expect("no panic");
        let expected = (outcome == Outcome::Ok, outcome == Outcome::Poisoned);
        assert_eq!((notified, poisoned), expected, "{DISAGREE}: {outcome:?}");
        assert_eq!(ticket.outcome(), Some(outcome), "{DISAGREE}");
    });
}

/// I8: poison frees everyone, parked included, now and later.
#[test]
fn poison_frees_everyone() {
    let faults =
        [(Fault::PoisonWithoutWake, DEADLOCK), (Fault::NoPostFence, DEADLOCK), (Fault::NoAnnounceFence, DEADLOCK)];
    check("poison_frees_everyone", THREE, &faults, || {
        let shared = Arc::new((Epoch::new(), Ticket::new()));
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || assert_eq!(shared.1.wait(&mut waiter(), None), Outcome::Poisoned))
        };
        let poisoner = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                assert!(shared.1.poison(), "nobody else settles");
                shared.0.poison();
            })
        };
        assert_eq!(shared.0.wait_for(1, &mut waiter(), None), Outcome::Poisoned);
        assert_eq!(shared.0.wait_for(1, &mut waiter(), None), Outcome::Poisoned);
        other.join().expect("no panic");
        poisoner.join().expect("no panic");
    });
}

/// An epoch that began is reported as begun even where poison came as well; one that never begins, as poisoned.
#[test]
fn a_completed_epoch_is_not_poisoned() {
    check("a_completed_epoch_is_not_poisoned", THREE, &[(Fault::PoisonWithoutWake, DEADLOCK)], || {
        let epoch = Arc::new(Epoch::new());
        let poster = {
            let epoch = Arc::clone(&epoch);
            thread::spawn(move || {
                epoch.post();
                epoch.poison();
            })
        };
        let mut waiter = waiter();
        assert_eq!(epoch.wait_for(1, &mut waiter, None), Outcome::Ok);
        assert_eq!(epoch.wait_for(2, &mut waiter, None), Outcome::Poisoned);
        poster.join().expect("no panic");
    });
}

/// A wait that timed out leaves nothing behind that could harm the next one of the same waiter.
#[test]
fn a_late_wake_does_no_harm() {
    check("a_late_wake_does_no_harm", THREE, &[(Fault::NoPostFence, DEADLOCK)], || {
        let pair = Arc::new((Ticket::new(), Epoch::new()));
        let other = {
            let pair = Arc::clone(&pair);
            thread::spawn(move || {
                let woke = pair.0.notify();
                pair.1.post();
                woke
            })
        };
        let mut waiter = waiter();
        let first = pair.0.wait(&mut waiter, LATER);
        assert_eq!(pair.1.wait_for(1, &mut waiter, None), Outcome::Ok);
        assert_eq!(pair.1.current(), 1, "no early return on the stale token");
        assert_eq!(other.join().expect("no panic"), first == Outcome::Ok, "{DISAGREE}");
    });
}

/// The futex parker alone: an unpark before, during or after the park ends it, and publishes.
#[test]
fn unpark_reaches_a_park() {
    check("unpark_reaches_a_park", ALL, &[(Fault::ParkOverToken, DEADLOCK)], || {
        let shared = Arc::new((FutexParker::new(), AtomicU32::new(0)));
        let other = {
            let shared = Arc::clone(&shared);
            thread::spawn(move || {
                shared.1.store(7, Ordering::Relaxed);
                shared.0.unpark();
            })
        };
        shared.0.park(None);
        assert_eq!(shared.1.load(Ordering::Relaxed), 7, "{STALE}");
        other.join().expect("no panic");
    });
}

/// A flag outside of the awaited thing: set it, unpark the waiter, and the wait looks again.
#[test]
fn a_flag_and_an_unpark_interrupt_a_wait() {
    check("a_flag_and_an_unpark_interrupt_a_wait", ALL, &[(Fault::ParkOverToken, DEADLOCK)], || {
        let waiters = wait::Waiters::new();
        let mut waiter = waiter();
        let flag = Arc::new(AtomicU32::new(0));
        let other = {
            let (flag, parker) = (Arc::clone(&flag), Arc::clone(waiter.parker()));
            thread::spawn(move || {
                flag.store(1, Ordering::Release);
                parker.unpark();
            })
        };
        let look = || (flag.load(Ordering::Acquire) == 1).then_some(());
        assert_eq!(waiters.wait(&mut waiter, None, look), Some(()));
        other.join().expect("no panic");
    });
}
