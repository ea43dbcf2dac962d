//! What it costs here to park a thread and wake it: the time that spinning has to beat.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, OnceLock};
use std::thread;

use crate::clock;
use crate::parker::{FutexParker, Parker};

/// Exchanges measured, unless time is up. The first are slow (cold caches, sleeping CPUs); the median is not.
const EXCHANGES: usize = 31;

/// When time is up, in ns: on a machine so busy that a few exchanges take longer, a few must do.
const ENOUGH: u64 = 2_000_000;

/// What to assume where it cannot be measured, in ns.
const USUAL: u64 = 10_000;

/// ns from one thread's unpark of another to that one's answer. Measured once a process, in well under a millisecond on
/// a quiet machine.
pub fn round_trip() -> u64 {
    static MEASURED: OnceLock<u64> = OnceLock::new();
    *MEASURED.get_or_init(|| measure().unwrap_or(USUAL))
}

fn measure() -> Option<u64> {
    let [here, there] = [(); 2].map(|()| Arc::new(FutexParker::new()));
    let over = Arc::new(AtomicBool::new(false));
    let echo = {
        let (here, there, over) = (Arc::clone(&here), Arc::clone(&there), Arc::clone(&over));
        let answer = move || {
            while !over.load(Ordering::Acquire) {
                there.park(None);
                here.unpark();
            }
        };
        thread::Builder::new().name("spinwise-measure".into()).spawn(answer).ok()?
    };
    let begin = clock::now();
    let mut times = Vec::with_capacity(EXCHANGES);
    while times.len() < EXCHANGES && clock::now() - begin < ENOUGH {
        let start = clock::now();
        there.unpark();
        here.park(None);
        times.push(clock::now() - start);
    }
    over.store(true, Ordering::Release);
    there.unpark();
    echo.join().ok()?;
    times.sort_unstable();
    times.get(times.len() / 2).copied()
}

#[cfg(test)]
mod tests {
    #[test]
    fn measured_once_and_plausible() {
        let first = super::round_trip();
        assert!((100..1_000_000_000).contains(&first), "{first} ns");
        assert_eq!(super::round_trip(), first);
    }
}
