//! Thread identifiers of wasi-threads: 1 to 2^29 − 1, each held by one live thread at a time.
//!
//! The next free one after the last given, so that an identifier is not given again at once. Cost: logarithmic.

use std::collections::BTreeSet;

/// The largest identifier.
const MAX: u32 = (1 << 29) - 1;

/// Identifiers in use.
#[derive(Debug, Default)]
pub(crate) struct Tids {
    live: BTreeSet<u32>,
    last: u32,
}

impl Tids {
    /// One that no live thread has; `None` where all are taken.
    pub(crate) fn take(&mut self) -> Option<u32> {
        if self.live.len() >= MAX as usize {
            return None;
        }
        loop {
            self.last = if self.last >= MAX { 1 } else { self.last + 1 };
            if self.live.insert(self.last) {
                return Some(self.last);
            }
        }
    }

    /// Takes one back; 0 is nobody's.
    pub(crate) fn put(&mut self, id: u32) {
        self.live.remove(&id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identifiers_are_positive_distinct_and_wrap() {
        let mut tids = Tids::default();
        assert_eq!((tids.take(), tids.take()), (Some(1), Some(2)));
        tids.put(1);
        assert_eq!(tids.take(), Some(3), "not given again at once");
        tids.last = MAX - 1;
        assert_eq!((tids.take(), tids.take(), tids.take()), (Some(MAX), Some(1), Some(4)));
    }
}
