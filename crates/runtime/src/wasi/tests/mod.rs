//! The calls, driven through [`GuestMemory`] over a plain vector: no instance needed.
//!
//! Everything about paths runs under both resolvers.

mod basics;
mod changes;
mod escapes;
mod files;
mod hostile;
mod readdir;
mod sockets;
mod threads;
mod waits;
mod wide;

use std::os::fd::{AsFd, OwnedFd};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use parking_lot::Mutex;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use tempfile::TempDir;

use super::context::{Call, WasiCtx, WasiCtxBuilder};
use super::errno::{Errno, Result};
use super::guest::{Guest, GuestMemory, Readiness};
use super::resolve::Resolver;
use crate::number::to_usize;

/// Bytes of a test guest's memory: two pages.
const MEMORY: usize = 2 << 16;

/// A guest thread with a memory of its own and a descriptor that ends its waits.
struct TestGuest {
    memory: Mutex<Vec<u8>>,
    /// Where the next scratch bytes go.
    free: AtomicU64,
    /// Readable once the process is ending.
    ending: (OwnedFd, OwnedFd),
}

impl TestGuest {
    fn new() -> Self {
        Self { memory: Mutex::new(vec![0xaa; MEMORY]), free: AtomicU64::new(64), ending: pipe() }
    }

    /// Scratch space, 8-aligned; it wraps around before the memory ends.
    fn space(&self, length: usize) -> u64 {
        let length = length.next_multiple_of(8);
        let at = self.free.fetch_add(length as u64, Ordering::Relaxed);
        if at + length as u64 > MEMORY as u64 {
            self.free.store(64, Ordering::Relaxed);
            return self.space(length);
        }
        at
    }

    fn put(&self, bytes: &[u8]) -> u64 {
        let at = self.space(bytes.len());
        self.write(at, bytes).unwrap();
        at
    }

    fn get(&self, at: u64, length: usize) -> Vec<u8> {
        let mut bytes = vec![0; length];
        self.read(at, &mut bytes).unwrap();
        bytes
    }

    fn u16(&self, at: u64) -> u16 {
        u16::from_le_bytes(self.get(at, 2).try_into().unwrap())
    }

    fn u32(&self, at: u64) -> u32 {
        u32::from_le_bytes(self.get(at, 4).try_into().unwrap())
    }

    fn u64(&self, at: u64) -> u64 {
        u64::from_le_bytes(self.get(at, 8).try_into().unwrap())
    }

    /// A list of `iovec`s.
    fn iovecs(&self, spans: &[(u64, u64)]) -> u64 {
        let word = |value: u64| u32::try_from(value).unwrap().to_le_bytes();
        let bytes: Vec<u8> = spans.iter().flat_map(|(at, length)| [word(*at), word(*length)].concat()).collect();
        self.put(&bytes)
    }

    /// Ends the process, as far as this thread is concerned.
    fn end(&self) {
        rustix::io::write(&self.ending.1, b"!").unwrap();
    }
}

impl GuestMemory for TestGuest {
    fn size(&self) -> u64 {
        MEMORY as u64
    }

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        let memory = self.memory.lock();
        let source = memory.get(to_usize(at)..).and_then(|rest| rest.get(..into.len())).ok_or(Errno::Fault)?;
        into.copy_from_slice(source);
        Ok(())
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        let mut memory = self.memory.lock();
        let target = memory.get_mut(to_usize(at)..).and_then(|rest| rest.get_mut(..from.len())).ok_or(Errno::Fault)?;
        target.copy_from_slice(from);
        Ok(())
    }
}

impl Guest for TestGuest {
    fn wait(&self, list: &mut [Readiness<'_>], timeout: Option<Duration>) -> Result<()> {
        // A timeout too long for the host is one that nobody lives to see.
        let timeout = timeout.and_then(|timeout| Timespec::try_from(timeout).ok());
        let mut polled = vec![PollFd::from_borrowed_fd(self.ending.0.as_fd(), PollFlags::IN)];
        polled.extend(list.iter().map(|entry| PollFd::from_borrowed_fd(entry.descriptor, entry.wanted)));
        poll(&mut polled, timeout.as_ref())?;
        if !polled[0].revents().is_empty() {
            return Err(Errno::Intr);
        }
        for (entry, polled) in list.iter_mut().zip(&polled[1..]) {
            entry.found = polled.revents();
        }
        Ok(())
    }
}

/// The end to read from and the end to write to.
fn pipe() -> (OwnedFd, OwnedFd) {
    let (reader, writer) = std::io::pipe().unwrap();
    (reader.into(), writer.into())
}

/// A process with one guest thread.
struct Process {
    wasi: WasiCtx,
    guest: TestGuest,
}

impl Process {
    fn new(builder: WasiCtxBuilder) -> Self {
        Self { wasi: builder.build().unwrap(), guest: TestGuest::new() }
    }

    fn call(&self) -> Call<'_> {
        Call::new(&self.wasi, &self.guest)
    }

    fn path(&self, path: &str) -> (u64, u64) {
        (self.guest.put(path.as_bytes()), path.len() as u64)
    }

    /// `path_open` with `fs_rights_base` as given.
    fn open_as(&self, fd: u32, path: &str, follow: bool, open: u16, rights: u64, flags: u16) -> Result<u32> {
        let (at, length) = self.path(path);
        let out = self.guest.space(4);
        self.call().path_open(fd, u32::from(follow), at, length, open.into(), rights, 0, flags.into(), out)?;
        Ok(self.guest.u32(out))
    }

    /// Opens for reading, following a link.
    fn open(&self, path: &str) -> Result<u32> {
        self.open_as(3, path, true, 0, READ, 0)
    }

    fn read(&self, fd: u32, length: usize) -> Result<Vec<u8>> {
        let at = self.guest.space(length);
        let iovecs = self.guest.iovecs(&[(at, length as u64)]);
        let out = self.guest.space(4);
        self.call().fd_read(fd, iovecs, 1, out)?;
        Ok(self.guest.get(at, self.guest.u32(out) as usize))
    }

    fn write(&self, fd: u32, bytes: &[u8]) -> Result<u32> {
        let at = self.guest.put(bytes);
        let iovecs = self.guest.iovecs(&[(at, bytes.len() as u64)]);
        let out = self.guest.space(4);
        self.call().fd_write(fd, iovecs, 1, out)?;
        Ok(self.guest.u32(out))
    }

    /// Type and size of what a path leads to.
    fn stat(&self, path: &str, follow: bool) -> Result<(u8, u64)> {
        let (at, length) = self.path(path);
        let out = self.guest.space(64);
        self.call().path_filestat_get(3, u32::from(follow), at, length, out)?;
        Ok((self.guest.get(out + 16, 1)[0], self.guest.u64(out + 32)))
    }
}

/// `fd_read`.
const READ: u64 = 1 << 1;
/// `fd_write`.
const WRITE: u64 = 1 << 6;

/// A process with descriptor 3 on a fresh directory that `fill` has filled.
fn in_directory(read_only: bool, resolver: Resolver, fill: impl FnOnce(&Path)) -> (TempDir, Process) {
    let outer = TempDir::new().unwrap();
    std::fs::create_dir(outer.path().join("inside")).unwrap();
    fill(&outer.path().join("inside"));
    let builder = WasiCtx::builder().preopen(outer.path().join("inside"), "/", read_only);
    let mut process = Process::new(builder);
    process.wasi.resolver = resolver;
    (outer, process)
}

const RESOLVERS: [Resolver; 2] = [Resolver::Kernel, Resolver::Walk];
