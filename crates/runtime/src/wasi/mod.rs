//! WASI preview 1 (`wasi_snapshot_preview1`), for any number of guest threads at once.
//!
//! A [`WasiCtx`] holds what the calls of one process share: arguments, environment and descriptors. Each call is a
//! method of `Call`, which pairs it with the guest thread that makes it; the calls know that thread only through the
//! traits `Guest` and `GuestMemory`. [`imports()`] makes host functions of all of them, so that every preview 1 module
//! links.
//!
//! | file | calls |
//! |---|---|
//! | `args` | `args_*`, `environ_*` |
//! | `clocks`, `random` | `clock_*`, `random_get` |
//! | `io` | `fd_read`, `fd_write`, `fd_pread`, `fd_pwrite`, `fd_seek`, `fd_tell` |
//! | `status` | `fd_fdstat_*`, `fd_filestat_*`, `fd_sync`, `fd_datasync`, `fd_advise`, `fd_allocate`, `fd_close`, `fd_renumber` |
//! | `directory` | `fd_prestat_*`, `fd_readdir` |
//! | `paths`, `resolve` | `path_*` |
//! | `poll` | `poll_oneoff` |
//! | `process`, `imports` | `proc_exit`, `proc_raise`, `sched_yield` |
//! | `sockets` | `sock_*`, on sockets that the host program passed on |
//!
//! Guests of 64-bit addresses: addresses and sizes are `u64` inside, whatever the guest's are; `Call::wide` says how wide
//! they are in its memory (`iovec`, `prestat`, lists of addresses, sizes stored), and [`imports_for()`] how they are passed.
//!
//! Not built: `dsync`, `rsync` and `sync` set on an open descriptor (`inval`; they are honoured by `path_open`);
//! clock subscriptions to CPU-time clocks (`notsup`); stop signals in `proc_raise` (`notsup`).
//!
//! Sandbox: a path never leads out of the directory it starts from (`resolve`); `perm` is the answer to an absolute
//! path, a `..` or a symbolic link that would. Through a read-only preopen nothing changes: such calls answer `rofs`.
//!
//! Host: Linux. A named pipe is opened without waiting for its other end: for writing, `nxio` while nobody reads.
//!
//! Waiting: a call that may block (reads and writes of pipes, terminals and sockets, `sock_accept`, `poll_oneoff`) waits
//! in `Guest::wait`, which the end of the process ends; it holds no lock meanwhile. The step after it does not block: a
//! pipe or terminal is opened anew for that, a socket is told so each time. Where an inherited pipe cannot be opened anew,
//! a thread whom another outran between the two waits in the host until it gets its turn.

mod abi;
mod args;
mod clocks;
mod context;
mod descriptor;
mod directory;
mod errno;
mod guest;
mod imports;
mod io;
mod paths;
mod poll;
mod process;
mod random;
mod resolve;
mod sockets;
mod status;
mod stdio;
mod table;

pub use context::{WasiCtx, WasiCtxBuilder, WasiError};
pub use errno::Errno;
pub use imports::{MODULE, imports, imports_for};
pub use stdio::{Capture, Stream};

#[cfg(test)]
mod tests;
