//! How many CPUs this process may use: its affinity, cut by its cgroup quota; rounded down, at least 1.
//!
//! Both can change while it runs, so the number is cached and read again now and then, by whoever has just looked at the
//! clock for another reason. Asking the system each time costs a threaded guest 3 %.

mod cgroup;

use std::fs;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::clock;
use cgroup::QuotaDir;

/// How long a reading is good for, in ns.
const GOOD_FOR: u64 = 100_000_000;

/// The number of CPUs this process may use.
#[derive(Debug)]
pub struct AllowedCpus {
    count: AtomicU32,
    /// When to read again, in ns of the monotonic clock.
    next: AtomicU64,
    quotas: Vec<QuotaDir>,
}

impl AllowedCpus {
    /// Reads them for the calling thread, whose affinity the threads that it starts inherit.
    #[must_use]
    pub fn read() -> Self {
        let text = |path| fs::read_to_string(path).unwrap_or_default();
        let quotas = cgroup::quota_dirs(&text("/proc/self/cgroup"), &text("/proc/self/mountinfo"));
        let next = AtomicU64::new(clock::now() + GOOD_FOR);
        Self { count: AtomicU32::new(count(&quotas)), next, quotas }
    }

    /// A number that does not come from the system: for tests, and for hosts that know better. At least 1.
    #[must_use]
    pub fn fixed(count: u32) -> Self {
        Self { count: AtomicU32::new(count.max(1)), next: AtomicU64::new(u64::MAX), quotas: Vec::new() }
    }

    /// The latest reading. One load.
    #[must_use]
    pub fn count(&self) -> u32 {
        self.count.load(Ordering::Relaxed)
    }

    /// Reads again if the last reading is old; `now` is a time that the caller has at hand. One load otherwise.
    pub fn refresh(&self, now: u64) {
        let due = self.next.load(Ordering::Relaxed);
        let next = now.saturating_add(GOOD_FOR);
        if now >= due && self.next.compare_exchange(due, next, Ordering::Relaxed, Ordering::Relaxed).is_ok() {
            self.count.store(count(&self.quotas), Ordering::Relaxed);
        }
    }
}

/// Asks the system.
fn count(quotas: &[QuotaDir]) -> u32 {
    let quota = cgroup::quota(quotas, |path| fs::read_to_string(path).ok());
    affinity().min(quota.unwrap_or(u32::MAX)).max(1)
}

/// CPUs in the calling thread's affinity mask.
fn affinity() -> u32 {
    // The mask of this call has room for 1024 CPUs; on larger machines it fails and the standard library's answer serves.
    rustix::thread::sched_getaffinity(None).map_or_else(
        |_| std::thread::available_parallelism().map_or(1, |n| u32::try_from(n.get()).unwrap_or(u32::MAX)),
        |set| set.count(),
    )
}

#[cfg(test)]
mod tests {
    use std::thread;

    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

    use super::*;

    #[test]
    fn affinity_is_seen_and_seen_again() {
        // A thread of its own: the narrowed mask ends with it.
        thread::spawn(|| {
            let allowed = AllowedCpus::read();
            let all = sched_getaffinity(None).expect("a mask");
            assert!((1..=all.count()).contains(&allowed.count()));

            let first = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).expect("some CPU");
            let mut one = CpuSet::new();
            one.set(first);
            sched_setaffinity(None, &one).expect("narrowing is always allowed");
            assert_eq!(AllowedCpus::read().count(), 1);

            let before = allowed.count();
            allowed.refresh(clock::now());
            assert_eq!(allowed.count(), before, "a fresh reading is kept");
            allowed.refresh(clock::now() + 2 * GOOD_FOR);
            assert_eq!(allowed.count(), 1, "an old one is replaced");
        })
        .join()
        .expect("no panic");
    }

    #[test]
    fn a_fixed_number_stays() {
        let allowed = AllowedCpus::fixed(0);
        allowed.refresh(u64::MAX - 1);
        assert_eq!(allowed.count(), 1);
        assert_eq!(AllowedCpus::fixed(48).count(), 48);
    }
}
