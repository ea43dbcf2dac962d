//! `clock_*`: the host's clocks, in ns.
//!
//! With guest threads as fibres, a thread's CPU time is that of the OS thread it runs on.

use rustix::time::{ClockId, Timespec, clock_getres, clock_gettime};

use super::context::Call;
use super::errno::{Errno, Result};
use super::guest::GuestMemoryExt;

/// `clockid`: wall clock.
pub(super) const REALTIME: u32 = 0;
/// `clockid`: time that only goes on.
pub(super) const MONOTONIC: u32 = 1;

impl Call<'_> {
    /// `clock_res_get`
    pub(super) fn clock_res_get(&self, id: u32, resolution: u64) -> Result<()> {
        self.guest.store_u64(resolution, nanoseconds(clock_getres(clock(id)?))?)
    }

    /// `clock_time_get`. The precision asked for is a wish; the host's clocks have none to choose.
    pub(super) fn clock_time_get(&self, id: u32, _precision: u64, time: u64) -> Result<()> {
        self.guest.store_u64(time, now(id)?)
    }
}

/// A clock's time.
pub(super) fn now(id: u32) -> Result<u64> {
    nanoseconds(clock_gettime(clock(id)?))
}

/// The host's clock of that `clockid`.
fn clock(id: u32) -> Result<ClockId> {
    match id {
        REALTIME => Ok(ClockId::Realtime),
        MONOTONIC => Ok(ClockId::Monotonic),
        2 => Ok(ClockId::ProcessCPUTime),
        3 => Ok(ClockId::ThreadCPUTime),
        _ => Err(Errno::Inval),
    }
}

/// As one number; a time before 1970 or after 2554 has none.
pub(super) fn nanoseconds(time: Timespec) -> Result<u64> {
    u64::try_from(time.tv_sec)
        .ok()
        .zip(u64::try_from(time.tv_nsec).ok())
        .and_then(|(seconds, rest)| seconds.checked_mul(1_000_000_000)?.checked_add(rest))
        .ok_or(Errno::Overflow)
}
