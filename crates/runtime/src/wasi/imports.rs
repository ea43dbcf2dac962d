//! The calls as host functions under their preview 1 names, and the guest thread behind them.

use std::sync::Arc;
use std::time::Duration;

use rustix::event::PollFd;

use super::context::{Call, WasiCtx};
use super::errno::{Errno, Result};
use super::guest::{Guest, GuestMemory, Readiness};
use crate::error::Error;
use crate::func::Func;
use crate::host::Caller;

/// The module that guests import these functions from.
pub const MODULE: &str = "wasi_snapshot_preview1";

/// Makes a host function of each named method of [`Call`], with its name; the methods' parameters give the types.
macro_rules! functions {
    ($wasi:ident: $($name:ident($($parameter:ident: $ty:ty),*);)*) => {
        vec![$((stringify!($name), {
            let wasi = Arc::clone(&$wasi);
            Func::typed(move |caller: Caller<'_>, $($parameter: $ty),*| {
                Ok(answer(Call::new(&wasi, &caller).$name($($parameter),*)))
            })
        })),*]
    };
}

/// Every function of preview 1, over the state of one process.
#[must_use]
pub fn imports(wasi: &Arc<WasiCtx>) -> Vec<(&'static str, Func)> {
    let mut functions = functions! { wasi:
        args_get(pointers: u32, bytes: u32);
        args_sizes_get(count: u32, bytes: u32);
        environ_get(pointers: u32, bytes: u32);
        environ_sizes_get(count: u32, bytes: u32);
        clock_res_get(id: u32, out: u32);
        clock_time_get(id: u32, precision: u64, out: u32);
        fd_advise(fd: u32, at: u64, length: u64, advice: u32);
        fd_allocate(fd: u32, at: u64, length: u64);
        fd_close(fd: u32);
        fd_datasync(fd: u32);
        fd_fdstat_get(fd: u32, out: u32);
        fd_fdstat_set_flags(fd: u32, flags: u32);
        fd_fdstat_set_rights(fd: u32, base: u64, inheriting: u64);
        fd_filestat_get(fd: u32, out: u32);
        fd_filestat_set_size(fd: u32, size: u64);
        fd_filestat_set_times(fd: u32, accessed: u64, modified: u64, flags: u32);
        fd_pread(fd: u32, iovs: u32, count: u32, at: u64, read: u32);
        fd_prestat_get(fd: u32, out: u32);
        fd_prestat_dir_name(fd: u32, at: u32, length: u32);
        fd_pwrite(fd: u32, iovs: u32, count: u32, at: u64, written: u32);
        fd_read(fd: u32, iovs: u32, count: u32, read: u32);
        fd_readdir(fd: u32, at: u32, length: u32, cookie: u64, used: u32);
        fd_renumber(from: u32, to: u32);
        fd_seek(fd: u32, by: i64, whence: u32, out: u32);
        fd_sync(fd: u32);
        fd_tell(fd: u32, out: u32);
        fd_write(fd: u32, iovs: u32, count: u32, written: u32);
        path_create_directory(fd: u32, path: u32, length: u32);
        path_filestat_get(fd: u32, lookup: u32, path: u32, length: u32, out: u32);
        path_filestat_set_times(
            fd: u32, lookup: u32, path: u32, length: u32, accessed: u64, modified: u64, flags: u32
        );
        path_link(fd: u32, lookup: u32, path: u32, length: u32, new_fd: u32, new_path: u32, new_length: u32);
        path_open(
            fd: u32, lookup: u32, path: u32, length: u32, open: u32, base: u64, inheriting: u64, flags: u32, opened: u32
        );
        path_readlink(fd: u32, path: u32, length: u32, buffer: u32, room: u32, used: u32);
        path_remove_directory(fd: u32, path: u32, length: u32);
        path_rename(fd: u32, path: u32, length: u32, new_fd: u32, new_path: u32, new_length: u32);
        path_symlink(target: u32, target_length: u32, fd: u32, path: u32, length: u32);
        path_unlink_file(fd: u32, path: u32, length: u32);
        poll_oneoff(subscriptions: u32, events: u32, count: u32, stored: u32);
        random_get(at: u32, length: u32);
        sched_yield();
        sock_accept(fd: u32, flags: u32, opened: u32);
        sock_recv(fd: u32, iovs: u32, count: u32, flags: u32, read: u32, out: u32);
        sock_send(fd: u32, iovs: u32, count: u32, flags: u32, sent: u32);
        sock_shutdown(fd: u32, how: u32);
    };
    functions.push(("proc_exit", Func::typed(|_: Caller<'_>, code: u32| Err::<(), _>(exit(code)))));
    let raising = Arc::clone(wasi);
    let raise = move |caller: Caller<'_>, signal: u32| match Call::new(&raising, &caller).proc_raise(signal) {
        Ok(Some(code)) => Err(exit(code)),
        Ok(None) => Ok(answer(Ok(()))),
        Err(error) => Ok(answer(Err(error))),
    };
    functions.push(("proc_raise", Func::typed(raise)));
    functions
}

/// What the guest sees of a call's outcome.
fn answer(outcome: Result<()>) -> u32 {
    outcome.map_or_else(|error| error.code().into(), |()| 0)
}

/// The end of the process, in every thread.
fn exit(code: u32) -> Error {
    Error::Exit(code.cast_signed())
}

impl GuestMemory for Caller<'_> {
    fn size(&self) -> u64 {
        self.memory().map_or(0, |memory| memory.length())
    }

    fn read(&self, at: u32, into: &mut [u8]) -> Result<()> {
        self.check().map_err(|_| Errno::Intr)?;
        self.memory().ok_or(Errno::Fault)?.read(at.into(), into).map_err(|_| Errno::Fault)
    }

    fn write(&self, at: u32, from: &[u8]) -> Result<()> {
        self.check().map_err(|_| Errno::Intr)?;
        self.memory().ok_or(Errno::Fault)?.write(at.into(), from).map_err(|_| Errno::Fault)
    }
}

impl Guest for Caller<'_> {
    fn wait(&self, list: &mut [Readiness<'_>], timeout: Option<Duration>) -> Result<()> {
        let mut polled: Vec<_> =
            list.iter().map(|entry| PollFd::from_borrowed_fd(entry.descriptor, entry.wanted)).collect();
        Caller::wait(self, &mut polled, timeout)?;
        for (entry, polled) in list.iter_mut().zip(&polled) {
            entry.found = polled.revents();
        }
        Ok(())
    }

    fn yield_now(&self) {
        Caller::yield_now(self);
    }
}
