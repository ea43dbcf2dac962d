//! How much address space a memory gets, once and for all: it never moves.
//!
//! Invariants: a memory whose accesses are not checked gets all that they can reach. A checked one gets its maximum, but no
//! more than a share of what all checked memories of the process have left together: a maximum is a promise not to need
//! more, often far from what is needed, and however many memories promise nothing, others still find room. Behind what it
//! can grow to there is its guard. Cost: a system call.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};

use rustix::param::page_size;
use spinwise_model::context::MEMORY32_RESERVATION;
use spinwise_model::types::MemoryType;

use crate::mapping::Mapping;
use crate::number::to_usize;

/// Bytes that all checked memories share: half of what a process has with 47-bit addresses.
const BUDGET: u64 = 64 << 40;

/// The part of what is left that one memory may have: at first 1 TiB, for the 300th memory without a maximum 9 GiB.
const SHARES: u64 = 64;

/// Bytes of the budget that are reserved.
static TAKEN: AtomicU64 = AtomicU64::new(0);

/// The address space of one memory.
pub(crate) struct Reservation {
    pub(crate) mapping: Mapping,
    /// Bytes that the memory can grow to.
    pub(crate) limit: u64,
    /// Bytes to give back to the budget.
    taken: u64,
}

impl Reservation {
    /// Address space for a memory that begins with `length` bytes.
    pub(crate) fn new(ty: &MemoryType, length: u64) -> io::Result<Self> {
        let most = ty.max_pages().saturating_mul(ty.page_size());
        if !ty.is_checked() {
            return Ok(Self { mapping: Mapping::reserve(to_usize(MEMORY32_RESERVATION))?, limit: most, taken: 0 });
        }
        // Two at once may both count the same bytes as left. That makes shares a little larger, and is harmless.
        let share = BUDGET.saturating_sub(TAKEN.load(Ordering::Relaxed)) / SHARES;
        let mut limit = most.min(share).max(length);
        let mapping = loop {
            match map(ty, limit) {
                Ok(mapping) => break mapping,
                Err(error) if limit == length => return Err(error),
                // The system may have less to give than the budget says.
                Err(_) => limit = (limit / 2).max(length),
            }
        };
        let taken = mapping.length() as u64;
        TAKEN.fetch_add(taken, Ordering::Relaxed);
        Ok(Self { mapping, limit, taken })
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        TAKEN.fetch_sub(self.taken, Ordering::Relaxed);
    }
}

/// Maps what a memory needs that can grow to so many bytes.
fn map(ty: &MemoryType, limit: u64) -> io::Result<Mapping> {
    let page = page_size() as u64;
    let bytes = limit.max(1).checked_next_multiple_of(page).and_then(|bytes| bytes.checked_add(ty.guard()));
    let bytes = bytes.filter(|bytes| i64::try_from(*bytes).is_ok()).ok_or(io::ErrorKind::OutOfMemory)?;
    Mapping::reserve(to_usize(bytes))
}
