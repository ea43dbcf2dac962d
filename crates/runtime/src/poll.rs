//! The guard's cold call: stop if asked to, else perhaps let others run, then a new budget.
//!
//! In order: an ended process; then a yield, rate-limited. While threads outnumber CPUs, a site with a watch (its loop is
//! known to do nothing but wait) yields at once and gets a small budget; a site without one yields once it has run 50 µs
//! since it last gave way, since it may be working. With CPUs free, one poll in 64 yields, for the sake of neighbours
//! that are none of ours. A yield alone promises no progress (a lower priority, another cgroup): who stays at one site
//! for long sleeps now and then, never without a timeout, since a guest's plain store wakes nobody.
//!
//! Cost: a look at the clock (vDSO, about 25 ns) a poll; no system call but the yields themselves.

use std::cell::Cell;
use std::hint;
use std::sync::atomic::Ordering;
use std::thread;

use spinwise_model::budget;
use spinwise_model::symbol::SITE_HAS_WATCH;
use spinwise_team::{Deadline, clock};

use crate::thread::Running;

/// What a waiting site gets while threads outnumber CPUs, in value-iterations: 2^8 turns of a minimal spin, and as much
/// of the full interval of any other.
const SMALL: i32 = budget::FULL / 64;

/// How long a site that may be working runs before it gives way, in ns.
const QUANTUM: u64 = 50_000;

/// With CPUs free, one poll in so many yields.
const SELDOM: u32 = 64;

/// After so long at one site with a watch, in ns, a thread that yields begins to sleep as well. Not sooner: whoever sleeps
/// at a barrier is late for it (8 threads on 2 cores, µs a barrier: 105 with sleeps after 1 ms, 25 after 30 ms).
const PATIENCE: u64 = 30_000_000;

/// A sleep there takes this part of the time waited so far: it delays what is waited for by no more than that. (A site
/// without a watch may be working: it sleeps 50 µs in 10 ms.)
const SLEEP_SHARE: u64 = 16;

/// The longest sleep, in ns.
const LONGEST_SLEEP: u64 = 1_000_000;

/// What a thread remembers from poll to poll. All times in ns of the monotonic clock.
#[derive(Debug, Default)]
pub(crate) struct Pace {
    /// Where it polled last.
    site: Cell<u32>,
    /// When it began to poll there and nowhere else.
    since: Cell<u64>,
    /// When it last gave way or came back from elsewhere; 0: find out at the next poll.
    resumed: Cell<u64>,
    /// When it last slept, at this site.
    slept: Cell<u64>,
    /// Polls that did not yield, in a row.
    quiet: Cell<u32>,
}

impl Pace {
    /// The thread has been elsewhere: in a wait, a host function, or outside guest code.
    pub(crate) fn resumed(&self) {
        self.resumed.set(0);
        self.since.set(0);
    }
}

/// What a poll does beside refilling the budget.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Step {
    /// Nothing.
    Go,
    /// Lets another thread run, if the system knows one.
    Yield,
    /// Sleeps so many ns.
    Sleep(u64),
}

/// The guard's cold call. Returns in any case; compiled code looks at `interrupted` afterwards.
pub(crate) fn poll(running: Running<'_>, site: u32) {
    let context = running.thread().context();
    // The word that compiled code looks at: who has not been told yet is called here again.
    if context.interrupted.load(Ordering::Acquire) != 0 {
        context.budget.store(budget::FULL, Ordering::Relaxed);
        return;
    }
    let now = clock::now();
    let crowd = running.thread().process().crowd();
    crowd.cpus().refresh(now);
    let crowded = crowd.is_over();
    let pace = &running.own().pace;
    match pace.step(site, now, crowded) {
        Step::Go => hint::spin_loop(),
        Step::Yield => {
            thread::yield_now();
            pace.resumed.set(clock::now());
        }
        Step::Sleep(time) => {
            running.doze(Deadline::at(now.saturating_add(time)));
            pace.resumed.set(clock::now());
        }
    }
    let waits = site & SITE_HAS_WATCH != 0;
    let refill = if waits && crowded { SMALL } else { budget::FULL };
    context.budget.store(refill, Ordering::Relaxed);
}

impl Pace {
    fn step(&self, site: u32, now: u64, crowded: bool) -> Step {
        let watched = site & SITE_HAS_WATCH != 0;
        if self.site.replace(site) != site || self.since.get() == 0 {
            self.since.set(now);
            self.slept.set(now);
        }
        if self.resumed.get() == 0 {
            self.resumed.set(now);
        }
        let due = if crowded { watched || now - self.resumed.get() >= QUANTUM } else { self.quiet.get() + 1 >= SELDOM };
        if !due {
            self.quiet.set(self.quiet.get() + 1);
            return Step::Go;
        }
        self.quiet.set(0);
        let waited = now - self.since.get();
        let (time, period) = if watched {
            let time = (waited / SLEEP_SHARE).min(LONGEST_SLEEP);
            (time, PATIENCE.max(time))
        } else {
            (QUANTUM, 200 * QUANTUM)
        };
        if waited >= period && now - self.slept.get() >= period {
            self.slept.set(now);
            return Step::Sleep(time);
        }
        Step::Yield
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WATCHED: u32 = SITE_HAS_WATCH | 1;
    const PLAIN: u32 = 2;
    const US: u64 = 1_000;

    /// Polls every `interval` ns from `start`; answers the steps.
    fn polls(pace: &Pace, site: u32, start: u64, interval: u64, count: u64, crowded: bool) -> Vec<Step> {
        let one = |i| {
            let step = pace.step(site, start + i * interval, crowded);
            if step != Step::Go {
                pace.resumed.set(start + i * interval);
            }
            step
        };
        (0..count).map(one).collect()
    }

    #[test]
    fn a_known_wait_yields_at_once_in_a_crowd() {
        let steps = polls(&Pace::default(), WATCHED, 1_000, 10 * US, 50, true);
        assert!(steps.iter().all(|step| *step == Step::Yield), "{steps:?}");
    }

    #[test]
    fn work_gives_way_every_50_us_in_a_crowd() {
        let steps = polls(&Pace::default(), PLAIN, 1_000, 10 * US, 61, true);
        let yields = steps.iter().filter(|step| **step == Step::Yield).count();
        assert_eq!(yields, 12, "every fifth poll: {steps:?}");
        assert_eq!(steps[4], Step::Go);
        assert_eq!(steps[5], Step::Yield);
    }

    #[test]
    fn with_free_cpus_one_poll_in_64_yields() {
        for site in [WATCHED, PLAIN] {
            let steps = polls(&Pace::default(), site, 1_000, US, 640, false);
            assert_eq!(steps.iter().filter(|step| **step == Step::Yield).count(), 10);
        }
    }

    #[test]
    fn what_may_be_work_sleeps_half_a_percent() {
        let steps = polls(&Pace::default(), PLAIN, 1_000, 10 * US, 100_000, true);
        let slept: u64 = steps.iter().map(|step| if let Step::Sleep(time) = step { *time } else { 0 }).sum();
        assert!((4_000_000..=5_000_000).contains(&slept), "in one second: {slept} ns");
    }

    #[test]
    fn a_long_wait_sleeps_a_bounded_share_of_it() {
        let pace = Pace::default();
        let steps = polls(&pace, WATCHED, 1_000, 5 * US, 200_000, true);
        assert!(steps[..200].iter().all(|step| *step == Step::Yield), "not in the first millisecond");
        assert!(steps.contains(&Step::Sleep(LONGEST_SLEEP)));
        assert!(steps.iter().filter(|step| matches!(step, Step::Sleep(_))).count() > 20);
        assert_eq!(pace.step(WATCHED + 1, 2_000_000_000, true), Step::Yield, "another site begins anew");
    }
}
