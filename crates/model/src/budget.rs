//! The price of a guard: sizes, intervals and weights, in value-iterations.
//!
//! A thread's budget is one `i32`. A guard pays its weight; when the budget is gone (≤ 0) it calls `poll`, which refills.
//! A loop of `size` values polls at least once every [`interval`] turns.

/// A full budget, in value-iterations.
pub const FULL: i32 = 1 << 18;

/// The longest interval, in turns: a minimal spin makes that many before it polls (tens of µs).
pub const MAX_INTERVAL: u32 = 1 << 14;

/// The shortest interval, in turns.
pub const MIN_INTERVAL: u32 = 1 << 8;

/// How many turns a loop of `size` SSA values makes on a full budget before it polls.
///
/// 2^14, halved while it is above 2^8 and `interval * size` is above 2^18. A `size` of 0 counts as 1.
#[must_use]
pub const fn interval(size: u32) -> u32 {
    let size = if size == 0 { 1 } else { size as u64 };
    let mut interval = MAX_INTERVAL;
    while interval > MIN_INTERVAL && interval as u64 * size > FULL as u64 {
        interval /= 2;
    }
    interval
}

/// What one turn costs, in value-iterations: 2^18 / interval, so 16 to 1024.
#[must_use]
pub const fn weight(interval: u32) -> i32 {
    FULL / interval.cast_signed()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn intervals_follow_the_table() {
        let table = [
            (0..=16, 16384),
            (17..=32, 8192),
            (33..=64, 4096),
            (65..=128, 2048),
            (129..=256, 1024),
            (257..=512, 512),
            (513..=2000, 256),
        ];
        for (sizes, expected) in table {
            for size in sizes {
                assert_eq!(interval(size), expected, "size {size}");
            }
        }
        assert_eq!(interval(u32::MAX), MIN_INTERVAL);
    }

    #[test]
    fn weights_cover_a_full_budget() {
        assert_eq!(weight(MAX_INTERVAL), 16);
        assert_eq!(weight(MIN_INTERVAL), 1024);
    }
}
