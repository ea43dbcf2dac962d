//! `proc_raise` and `sched_yield`; `proc_exit` needs nothing of the process's WASI state.

use super::context::Call;
use super::errno::{Errno, Result};

/// `signal`: those whose default action is to do nothing.
const IGNORED: [u32; 5] = [0, 16, 17, 22, 27];
/// `signal`: those whose default action is to stop the process.
const STOPPING: [u32; 4] = [18, 19, 20, 21];
/// `signal`: the last.
const LAST: u32 = 30;

impl Call<'_> {
    /// `proc_raise`: the default action of a signal, since a guest cannot have another. One that ends the process
    /// does so with the exit code that a shell would show, 128 + its number: the answer.
    pub(super) fn proc_raise(&self, signal: u32) -> Result<Option<u32>> {
        match signal {
            _ if signal > LAST => Err(Errno::Inval),
            _ if IGNORED.contains(&signal) => Ok(None),
            _ if STOPPING.contains(&signal) => Err(Errno::NotSup),
            _ => Ok(Some(128 + signal)),
        }
    }

    /// `sched_yield`
    pub(super) fn sched_yield(&self) -> Result<()> {
        self.guest.yield_now();
        Ok(())
    }
}
