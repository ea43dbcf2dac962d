//! The wait protocol on real threads: agreement, progress and poison, on all CPUs and on one.
//!
//! Every test has a watchdog: a lost wake-up fails it instead of hanging it. The stuck threads end with the process.

use std::hint;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use spinwise_team::clock;
use spinwise_team::{AllowedCpus, Crowd, Deadline, Epoch, FutexParker, Outcome, Parker, SpinBudget, Ticket, Waiter};

/// Runs the body on a thread of its own, on all CPUs and then on one; panics if it takes a minute.
fn watched(name: &'static str, body: impl Fn() + Send + Sync + 'static) {
    let body = Arc::new(body);
    for one_cpu in [false, true] {
        let (done, ended) = channel::<()>();
        let body = Arc::clone(&body);
        let run = thread::spawn(move || {
            let _done = done;
            if one_cpu {
                narrow();
            }
            body();
        });
        if ended.recv_timeout(Duration::from_secs(60)) == Err(RecvTimeoutError::Timeout) {
            panic!("{name} hangs (one CPU: {one_cpu})");
        }
        run.join().expect("the body panicked");
    }
}

/// Keeps this thread, and those that it starts, on one CPU.
fn narrow() {
    let all = sched_getaffinity(None).expect("a mask");
    let mut one = CpuSet::new();
    one.set((0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).expect("some CPU"));
    sched_setaffinity(None, &one).expect("narrowing is always allowed");
}

fn waiter(budget: SpinBudget) -> Waiter {
    Waiter::new(Arc::new(FutexParker::new()), budget)
}

fn budgets() -> [SpinBudget; 3] {
    [SpinBudget::passive(), SpinBudget::fixed(2_000), SpinBudget::adaptive(5_000)]
}

fn join<T>(thread: JoinHandle<T>) -> T {
    thread.join().expect("no panic")
}

#[test]
fn threads_hand_epochs_round() {
    watched("threads_hand_epochs_round", || {
        for count in [2, 3, 8] {
            let ring: Arc<Vec<Epoch>> = Arc::new((0..count).map(|_| Epoch::new()).collect());
            let crowd = Arc::new(Crowd::new(AllowedCpus::read()));
            let threads: Vec<_> = (0..count)
                .map(|me| {
                    let (ring, crowd) = (Arc::clone(&ring), Arc::clone(&crowd));
                    thread::spawn(move || {
                        let _member = crowd.join();
                        let mut waiter = waiter(budgets()[me % 3].clone()).in_crowd(crowd);
                        for epoch in 1..=2_000 {
                            assert_eq!(ring[me].wait_for(epoch, &mut waiter, None), Outcome::Ok);
                            ring[(me + 1) % ring.len()].post();
                        }
                    })
                })
                .collect();
            ring[0].post();
            threads.into_iter().for_each(join);
            assert!(ring[1..].iter().all(|epoch| epoch.current() == 2_000));
        }
    });
}

#[test]
fn one_post_frees_all() {
    watched("one_post_frees_all", || {
        let start = Arc::new(Epoch::new());
        let arrived = Arc::new((Epoch::new(), AtomicU32::new(0)));
        let rounds = 300;
        let threads: Vec<_> = (0..7)
            .map(|me| {
                let (start, arrived) = (Arc::clone(&start), Arc::clone(&arrived));
                thread::spawn(move || {
                    let mut waiter = waiter(budgets()[me % 3].clone());
                    for round in 1..=rounds {
                        assert_eq!(start.wait_for(round, &mut waiter, None), Outcome::Ok);
                        if arrived.1.fetch_add(1, Ordering::AcqRel) % 7 == 6 {
                            arrived.0.post();
                        }
                    }
                })
            })
            .collect();
        let mut waiter = waiter(SpinBudget::passive());
        for round in 1..=rounds {
            start.post();
            assert_eq!(arrived.0.wait_for(round, &mut waiter, None), Outcome::Ok);
        }
        threads.into_iter().for_each(join);
    });
}

/// Notifies that come at about the deadline: both sides must always agree on who was first.
#[test]
fn notify_races_timeout() {
    watched("notify_races_timeout", || {
        let mut outcomes = [0; 2];
        for (budget, lateness) in budgets().into_iter().zip([100_000, 400, 400]) {
            let (send, receive) = channel::<(Arc<Ticket>, u64)>();
            let notifier = thread::spawn(move || {
                let notify = |(ticket, at): (Arc<Ticket>, u64)| {
                    while clock::now() < at {
                        hint::spin_loop();
                    }
                    ticket.notify()
                };
                receive.iter().map(notify).collect::<Vec<bool>>()
            });
            let mut waiter = waiter(budget);
            let wait = |turn: u64| {
                let ticket = Arc::new(Ticket::new());
                let deadline = clock::now() + 2_000;
                let at = deadline - 200 + turn * 7919 % lateness;
                send.send((Arc::clone(&ticket), at)).expect("the notifier listens");
                ticket.wait(&mut waiter, Some(Deadline::at(deadline))) == Outcome::Ok
            };
            let woken: Vec<bool> = (0..10_000).map(wait).collect();
            drop(send);
            assert!(join(notifier) == woken, "waiter and notifier disagree");
            outcomes[0] += woken.iter().filter(|woken| **woken).count();
            outcomes[1] += woken.iter().filter(|woken| !**woken).count();
        }
        assert!(outcomes.iter().all(|count| *count > 0), "NOT_EXERCISED: woken and timed out {outcomes:?} times");
    });
}

#[test]
fn poison_frees_all_kinds_of_waiters() {
    watched("poison_frees_all_kinds_of_waiters", || {
        for turn in 0..50_u64 {
            let shared = Arc::new((Epoch::new(), (0..4).map(|_| Ticket::new()).collect::<Vec<_>>()));
            let threads: Vec<_> = (0..8)
                .map(|me| {
                    let shared = Arc::clone(&shared);
                    thread::spawn(move || {
                        let mut waiter = waiter(budgets()[me % 3].clone());
                        match shared.1.get(me) {
                            Some(ticket) => ticket.wait(&mut waiter, None),
                            None => shared.0.wait_for(1, &mut waiter, Deadline::after(u64::MAX)),
                        }
                    })
                })
                .collect();
            thread::sleep(Duration::from_micros(turn * 20));
            assert!(shared.1.iter().all(Ticket::poison));
            shared.0.poison();
            assert!(threads.into_iter().map(join).all(|outcome| outcome == Outcome::Poisoned));
        }
    });
}

#[test]
fn deadlines_are_kept_and_never_early() {
    watched("deadlines_are_kept_and_never_early", || {
        for budget in budgets() {
            let mut waiter = waiter(budget);
            for ns in [0, 1, 999, 50_000, 3_000_000] {
                // A stray token from an earlier wait must not shorten this one.
                waiter.parker().unpark();
                let start = clock::now();
                assert_eq!(Ticket::new().wait(&mut waiter, Deadline::after(ns)), Outcome::TimedOut);
                assert!(clock::now() - start >= ns, "{ns} ns was cut short");
                assert_eq!(Epoch::new().wait_for(1, &mut waiter, Deadline::after(ns)), Outcome::TimedOut);
                assert!(clock::now() - start >= 2 * ns, "{ns} ns was cut short");
            }
            assert_eq!(Deadline::after(u64::MAX), None);
        }
    });
}

/// Whatever was decided stays, for late comers as well.
#[test]
fn late_comers() {
    let mut waiter = waiter(SpinBudget::passive());
    let ticket = Ticket::new();
    assert_eq!(ticket.outcome(), None);
    assert!(ticket.notify());
    assert!(!ticket.notify() && !ticket.poison());
    assert_eq!(ticket.wait(&mut waiter, Some(Deadline::at(0))), Outcome::Ok);

    let epoch = Epoch::new();
    assert_eq!(epoch.wait_for(0, &mut waiter, None), Outcome::Ok);
    epoch.post();
    epoch.poison();
    assert_eq!(epoch.wait_for(1, &mut waiter, None), Outcome::Ok);
    assert_eq!(epoch.wait_for(2, &mut waiter, None), Outcome::Poisoned);
    assert!(epoch.is_poisoned());
    assert_eq!(epoch.post(), 2);
    assert_eq!(epoch.wait_for(2, &mut waiter, None), Outcome::Ok);
}

/// A stand-in for a fibre's parker: it counts how often it is asked to park.
#[derive(Debug)]
struct Counting {
    inner: FutexParker,
    parks: AtomicU32,
    may_spin: bool,
}

impl Parker for Counting {
    fn park(&self, deadline: Option<Deadline>) {
        self.parks.fetch_add(1, Ordering::Relaxed);
        self.inner.park(deadline);
    }

    fn unpark(&self) {
        self.inner.unpark();
    }

    fn may_spin(&self) -> bool {
        self.may_spin
    }
}

#[test]
fn a_parker_that_may_not_spin_parks_at_once() {
    let spent = |may_spin| {
        let parker = Arc::new(Counting { inner: FutexParker::new(), parks: AtomicU32::new(0), may_spin });
        let mut waiter = Waiter::new(Arc::clone(&parker) as Arc<dyn Parker>, SpinBudget::fixed(20_000_000));
        let before = thread_time();
        assert_eq!(Ticket::new().wait(&mut waiter, Deadline::after(30_000_000)), Outcome::TimedOut);
        // After the spin a busy machine may leave no time to park.
        assert!(may_spin || parker.parks.load(Ordering::Relaxed) >= 1);
        thread_time() - before
    };
    let (parking, spinning) = (spent(false), spent(true));
    assert!(parking < 2_000_000, "{parking} ns of CPU time without spinning");
    // The spin is 20 ms of wall time; beside busy neighbours the CPU time is a part of that.
    assert!(spinning > parking, "{spinning} ns of CPU time with spinning, {parking} ns without");
}

/// CPU time of this thread, in ns.
fn thread_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    u64::try_from(time.tv_sec).expect("not negative") * 1_000_000_000 + u64::try_from(time.tv_nsec).expect("below 1e9")
}
