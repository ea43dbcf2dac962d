//! How long to spin before parking: a time in ns, learnt from whether spinning paid.
//!
//! Time and not turns: a fixed number of turns lasts a hundred times longer on one machine than on another. Pure: it is
//! given the times and reads no clock.
//!
//! Adaptive budgets start at what a park and a wake cost here. A wait that ended while spinning (a hit) doubles the
//! budget up to [`CEILING`]. One that did not (a miss), or that took more than twice its grant, so that the thread was
//! descheduled in the middle, halves it; below [`FLOOR`] it is nothing. Every [`PROBE_EVERY`]th wait spins for at least
//! the starting budget, to notice that waits became short again. A crowd, more threads than CPUs, spins not at all: the
//! awaited thread needs the processor.

/// The largest adaptive budget, in ns. A wait longer than this is not made better by spinning: a park is a hundredth.
pub const CEILING: u64 = 1_000_000;

/// The smallest adaptive budget, in ns: less cannot be told from a look at the clock.
pub const FLOOR: u64 = 500;

/// The budget of the active policy, in ns. Long, since somebody asked for it; bounded all the same.
pub const ACTIVE: u64 = 10_000_000;

/// Every which wait probes.
pub const PROBE_EVERY: u32 = 64;

/// How long one waiter spins.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct SpinBudget {
    /// ns granted to the next wait.
    now: u64,
    /// ns granted at first and to a probe.
    start: u64,
    /// Waits since the last probe.
    waits: u32,
    adapts: bool,
    yields: bool,
}

impl SpinBudget {
    /// Parks at once, without yielding first.
    #[must_use]
    pub const fn passive() -> Self {
        Self { now: 0, start: 0, waits: 0, adapts: false, yields: false }
    }

    /// Always the same time, in ns.
    #[must_use]
    pub const fn fixed(ns: u64) -> Self {
        Self { now: ns, start: ns, waits: 0, adapts: false, yields: true }
    }

    /// Learns, starting from the time in ns that a park and a wake take; held between [`FLOOR`] and [`CEILING`].
    #[must_use]
    pub fn adaptive(round_trip: u64) -> Self {
        let start = round_trip.clamp(FLOOR, CEILING);
        Self { now: start, start, waits: 0, adapts: true, yields: true }
    }

    /// The time that this wait may spin, in ns.
    pub fn grant(&mut self, crowded: bool) -> u64 {
        if crowded {
            return 0;
        }
        if self.adapts {
            self.waits += 1;
            if self.waits >= PROBE_EVERY {
                self.waits = 0;
                return self.now.max(self.start);
            }
        }
        self.now
    }

    /// Learns from a wait that was granted `granted` ns, spun for `elapsed`, and ended meanwhile (`hit`) or not.
    pub fn settle(&mut self, granted: u64, elapsed: u64, hit: bool) {
        if !self.adapts {
            return;
        }
        let descheduled = elapsed > granted.saturating_mul(2);
        self.now = if hit && !descheduled { granted.saturating_mul(2).min(CEILING) } else { self.now / 2 };
        if self.now < FLOOR {
            self.now = 0;
        }
    }

    /// Whether to yield a few times between spinning and parking.
    #[must_use]
    pub const fn yields(&self) -> bool {
        self.yields
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Waits that last `length` ns each; answers the last grant.
    fn waits(budget: &mut SpinBudget, count: u32, length: u64) -> u64 {
        let mut granted = 0;
        for _ in 0..count {
            granted = budget.grant(false);
            if granted > 0 {
                budget.settle(granted, length.min(granted), length <= granted);
            }
        }
        granted
    }

    #[test]
    fn starts_at_the_round_trip_within_bounds() {
        assert_eq!(SpinBudget::adaptive(7_000).grant(false), 7_000);
        assert_eq!(SpinBudget::adaptive(1).grant(false), FLOOR);
        assert_eq!(SpinBudget::adaptive(u64::MAX).grant(false), CEILING);
    }

    #[test]
    fn a_hit_doubles_up_to_the_ceiling() {
        let mut budget = SpinBudget::adaptive(7_000);
        budget.settle(7_000, 3_000, true);
        assert_eq!(budget.grant(false), 14_000);
        assert_eq!(waits(&mut budget, 20, 100), CEILING);
    }

    #[test]
    fn a_miss_halves_down_to_nothing() {
        let mut budget = SpinBudget::adaptive(7_000);
        budget.settle(7_000, 7_010, false);
        assert_eq!(budget.grant(false), 3_500);
        assert_eq!(waits(&mut budget, 10, 1_000_000_000), 0);
    }

    #[test]
    fn a_hit_that_was_descheduled_halves() {
        let mut budget = SpinBudget::adaptive(8_000);
        budget.settle(8_000, 16_001, true);
        assert_eq!(budget.grant(false), 4_000);
        budget.settle(4_000, 8_000, true);
        assert_eq!(budget.grant(false), 8_000);
    }

    #[test]
    fn a_long_stall_ends_the_spin_and_a_probe_brings_it_back() {
        let mut budget = SpinBudget::adaptive(5_000);
        let stalled: Vec<u64> = (0..200).map(|_| waits(&mut budget, 1, 1_000_000_000)).collect();
        let probes = stalled.iter().skip(10).filter(|granted| **granted > 0).count();
        assert_eq!(probes, 3, "one wait in 64 probes: {stalled:?}");
        assert!(stalled.iter().skip(10).all(|granted| [0, 5_000].contains(granted)));

        waits(&mut budget, PROBE_EVERY, 1_000);
        assert!(waits(&mut budget, 1, 1_000) >= 10_000, "the probe hit, so spinning is back");
    }

    #[test]
    fn a_crowd_does_not_spin_and_learns_nothing() {
        for mut budget in [SpinBudget::adaptive(5_000), SpinBudget::fixed(5_000), SpinBudget::passive()] {
            let before = budget.clone();
            assert_eq!(budget.grant(true), 0);
            assert_eq!(budget, before);
        }
    }

    #[test]
    fn fixed_budgets_stay() {
        let mut budget = SpinBudget::fixed(5_000);
        assert_eq!(waits(&mut budget, 100, 1), 5_000);
        assert_eq!(waits(&mut budget, 100, 1_000_000), 5_000);
        assert_eq!(waits(&mut SpinBudget::passive(), 100, 1), 0);
    }
}
