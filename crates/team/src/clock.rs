//! Points in time on the monotonic clock, in ns.

use crate::sync;

/// The monotonic clock, in ns since it began.
#[must_use]
pub fn now() -> u64 {
    sync::now()
}

/// When to give up waiting. Waits take an `Option`: `None` is never.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Deadline(u64);

impl Deadline {
    /// At a time of the clock [`now`].
    #[must_use]
    pub const fn at(ns: u64) -> Self {
        Self(ns)
    }

    /// So many ns from now; `None`, never, where the clock does not reach that far (584 years).
    #[must_use]
    pub fn after(ns: u64) -> Option<Self> {
        now().checked_add(ns).map(Self)
    }

    /// The time, in ns of the clock [`now`].
    #[must_use]
    pub const fn ns(self) -> u64 {
        self.0
    }

    /// Whether it is past.
    #[must_use]
    pub fn passed(self) -> bool {
        now() >= self.0
    }
}
