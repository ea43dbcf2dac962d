//! Whether the threads that compete for this process's CPUs outnumber them.
//!
//! Advice: being wrong for a moment costs time, never correctness, so everything is relaxed.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use crate::cpus::AllowedCpus;

/// Threads that want to run at the same time, and the CPUs that they may run on.
#[derive(Debug)]
pub struct Crowd {
    members: AtomicU32,
    cpus: AllowedCpus,
}

impl Crowd {
    /// Nobody yet.
    #[must_use]
    pub fn new(cpus: AllowedCpus) -> Self {
        Self { members: AtomicU32::new(0), cpus }
    }

    /// Counts one more thread for as long as the answer lives.
    #[must_use]
    pub fn join(self: &Arc<Self>) -> Member {
        self.members.fetch_add(1, Ordering::Relaxed);
        Member { crowd: Arc::clone(self) }
    }

    /// How many threads are counted.
    #[must_use]
    pub fn members(&self) -> u32 {
        self.members.load(Ordering::Relaxed)
    }

    /// The CPUs that they share.
    #[must_use]
    pub fn cpus(&self) -> &AllowedCpus {
        &self.cpus
    }

    /// Whether threads outnumber CPUs. Two loads.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.members() > self.cpus.count()
    }
}

/// One thread of a [`Crowd`]; leaves it when dropped.
#[derive(Debug)]
pub struct Member {
    crowd: Arc<Crowd>,
}

impl Drop for Member {
    fn drop(&mut self) {
        self.crowd.members.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn over_is_more_threads_than_cpus() {
        let crowd = Arc::new(Crowd::new(AllowedCpus::fixed(2)));
        let two = [crowd.join(), crowd.join()];
        assert!(!crowd.is_over());
        let third = crowd.join();
        assert!(crowd.is_over());
        drop(third);
        assert!(!crowd.is_over());
        drop(two);
        assert_eq!(crowd.members(), 0);
    }
}
