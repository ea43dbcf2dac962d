//! What it costs here to park a thread and wake it: the time that spinning has to beat.

use std::sync::{Arc, OnceLock};
use std::thread;

use crate::clock;
use crate::parker::{FutexParker, Parker};

/// Exchanges measured. The first wake-ups are slow (cold caches, sleeping CPUs); the median is not.
const EXCHANGES: usize = 31;

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
    let echo = {
        let (here, there) = (Arc::clone(&here), Arc::clone(&there));
        let answer = move || {
            for _ in 0..EXCHANGES {
                there.park(None);
                here.unpark();
            }
        };
        thread::Builder::new().name("spinwise-measure".into()).spawn(answer).ok()?
    };
    let mut times = [0; EXCHANGES];
    for time in &mut times {
        let start = clock::now();
        there.unpark();
        here.park(None);
        *time = clock::now() - start;
    }
    echo.join().ok()?;
    times.sort_unstable();
    Some(times[EXCHANGES / 2])
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
