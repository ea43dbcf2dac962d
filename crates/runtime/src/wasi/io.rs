//! Moving bytes: `fd_read`, `fd_write`, `fd_pread`, `fd_pwrite`, `fd_seek`, `fd_tell`.
//!
//! A stream (pipe, terminal, socket) is asked for readiness first, in a wait that the end of the process ends, and then
//! read once or written at most `PIPE_BUF` bytes at a time, which a ready pipe takes without blocking. A datagram is one
//! message: it is written whole.

use std::io::Read;
use std::os::fd::{AsFd, OwnedFd};
use std::time::Duration;

use rustix::event::PollFlags;
use rustix::fs::SeekFrom;
use rustix::io::Errno as Host;
use rustix::net::{RecvFlags, SendFlags};

use super::abi::{Filetype, Rights};
use super::context::Call;
use super::descriptor::{Descriptor, Object};
use super::errno::{Errno, Result};
use super::guest::{GuestMemoryExt, Readiness, Spans};

/// Bytes that a pipe takes at once when it is ready (POSIX `PIPE_BUF`, on Linux).
const STREAM_CHUNK: usize = 4096;

/// Bytes of a message that a datagram socket sends at most: one bounce buffer.
const MAX_DATAGRAM: u64 = 64 << 10;

impl Call<'_> {
    /// `fd_read`
    pub(super) fn fd_read(&self, fd: u32, iovs: u64, count: u64, read: u64) -> Result<()> {
        let descriptor = self.descriptor(fd)?;
        descriptor.require(Rights::FD_READ)?;
        self.guest.check(read, self.word())?;
        let spans = Spans::load(self, iovs, count)?;
        let position = descriptor.hold_position();
        let done = spans.fill(self.guest, descriptor.is_stream(), |buffer, _| self.read(&descriptor, buffer))?;
        drop(position);
        self.store_size(read, done.into())
    }

    /// `fd_pread`
    pub(super) fn fd_pread(&self, fd: u32, iovs: u64, count: u64, at: u64, read: u64) -> Result<()> {
        let descriptor = self.descriptor(fd)?;
        let file = positioned(&descriptor, Rights::FD_READ, at)?;
        self.guest.check(read, self.word())?;
        let spans = Spans::load(self, iovs, count)?;
        let done = spans.fill(self.guest, false, |buffer, before| {
            let at = at.checked_add(before).ok_or(Errno::Inval)?;
            uninterrupted(|| rustix::io::pread(file, &mut *buffer, at))
        })?;
        self.store_size(read, done.into())
    }

    /// `fd_write`
    pub(super) fn fd_write(&self, fd: u32, iovs: u64, count: u64, written: u64) -> Result<()> {
        let descriptor = self.descriptor(fd)?;
        descriptor.require(Rights::FD_WRITE)?;
        self.guest.check(written, self.word())?;
        let spans = Spans::load(self, iovs, count)?;
        let done = self.write_all(&descriptor, spans)?;
        self.store_size(written, done.into())
    }

    /// `fd_pwrite`
    pub(super) fn fd_pwrite(&self, fd: u32, iovs: u64, count: u64, at: u64, written: u64) -> Result<()> {
        let descriptor = self.descriptor(fd)?;
        let file = positioned(&descriptor, Rights::FD_WRITE, at)?;
        self.guest.check(written, self.word())?;
        let spans = Spans::load(self, iovs, count)?;
        let done = spans.drain(self.guest, usize::MAX, |bytes, before| {
            let at = at.checked_add(before).ok_or(Errno::Inval)?;
            uninterrupted(|| rustix::io::pwrite(file, bytes, at))
        })?;
        self.store_size(written, done.into())
    }

    /// `fd_seek`
    pub(super) fn fd_seek(&self, fd: u32, by: i64, whence: u32, position: u64) -> Result<()> {
        let target = match whence {
            0 => SeekFrom::Start(u64::try_from(by).map_err(|_| Errno::Inval)?),
            1 => SeekFrom::Current(by),
            2 => SeekFrom::End(by),
            _ => return Err(Errno::Inval),
        };
        let right = if target == SeekFrom::Current(0) { Rights::FD_TELL } else { Rights::FD_SEEK };
        self.seek(fd, right, target, position)
    }

    /// `fd_tell`
    pub(super) fn fd_tell(&self, fd: u32, position: u64) -> Result<()> {
        self.seek(fd, Rights::FD_TELL, SeekFrom::Current(0), position)
    }

    fn seek(&self, fd: u32, right: Rights, target: SeekFrom, position: u64) -> Result<()> {
        let descriptor = self.descriptor(fd)?;
        descriptor.require(right)?;
        self.guest.check(position, 8)?;
        let Object::Host(file) = &descriptor.object else { return Err(Errno::SPipe) };
        let held = descriptor.hold_position();
        let now = rustix::fs::seek(file, target)?;
        drop(held);
        self.guest.store_u64(position, now)
    }

    /// Writes the buffers, as far as the descriptor takes them.
    pub(super) fn write_all(&self, descriptor: &Descriptor, spans: Spans) -> Result<u32> {
        let chunk = match descriptor.kind {
            Filetype::SocketDgram if spans.left() > MAX_DATAGRAM => return Err(Errno::MsgSize),
            Filetype::SocketDgram => usize::MAX,
            _ if descriptor.is_stream() => STREAM_CHUNK,
            _ => usize::MAX,
        };
        if descriptor.kind == Filetype::SocketDgram && spans.left() == 0 {
            // A message without bytes is one all the same.
            self.write(descriptor, &[])?;
        }
        let _position = descriptor.hold_position();
        spans.drain(self.guest, chunk, |bytes, _| self.write(descriptor, bytes))
    }

    /// Reads once, waiting for a stream unless the guest said not to.
    fn read(&self, descriptor: &Descriptor, buffer: &mut [u8]) -> Result<usize> {
        match &descriptor.object {
            Object::Host(_) if descriptor.is_listening() => Err(Errno::Inval),
            Object::Host(file) if descriptor.is_socket() => self.patiently(descriptor, file, PollFlags::IN, || {
                rustix::net::recv(file, &mut *buffer, RecvFlags::DONTWAIT).map(|(count, _)| count)
            }),
            Object::Host(file) => {
                self.patiently(descriptor, file, PollFlags::IN, || rustix::io::read(file, &mut *buffer))
            }
            Object::Input(bytes) => Ok(bytes.lock().read(buffer)?),
            Object::Output(_) => Err(Errno::BadF),
            Object::Null => Ok(0),
        }
    }

    /// Writes once, waiting for a stream unless the guest said not to.
    fn write(&self, descriptor: &Descriptor, bytes: &[u8]) -> Result<usize> {
        match &descriptor.object {
            Object::Host(file) if descriptor.is_socket() => self.patiently(descriptor, file, PollFlags::OUT, || {
                rustix::net::send(file, bytes, SendFlags::DONTWAIT | SendFlags::NOSIGNAL)
            }),
            Object::Host(file) => self.patiently(descriptor, file, PollFlags::OUT, || rustix::io::write(file, bytes)),
            Object::Output(capture) => {
                capture.append(bytes);
                Ok(bytes.len())
            }
            Object::Input(_) => Err(Errno::BadF),
            Object::Null => Ok(bytes.len()),
        }
    }

    /// Does `step` once the descriptor is ready for it.
    pub(super) fn patiently<T>(
        &self,
        descriptor: &Descriptor,
        file: &OwnedFd,
        readiness: PollFlags,
        mut step: impl FnMut() -> rustix::io::Result<T>,
    ) -> Result<T> {
        let stream = descriptor.is_stream();
        loop {
            if stream {
                self.ready(descriptor, file, readiness)?;
            }
            match step() {
                // Another thread or process was faster.
                Err(Host::AGAIN) if stream && !descriptor.is_nonblocking() => {}
                Err(Host::INTR) => {}
                result => return Ok(result?),
            }
        }
    }

    /// Waits until a stream can be read or written, or has an error to tell.
    fn ready(&self, descriptor: &Descriptor, file: &OwnedFd, readiness: PollFlags) -> Result<()> {
        let mut stream = [Readiness::new(file.as_fd(), readiness)];
        loop {
            let nonblocking = descriptor.is_nonblocking();
            self.guest.wait(&mut stream, nonblocking.then_some(Duration::ZERO))?;
            if !stream[0].found.is_empty() {
                return Ok(());
            }
            if nonblocking {
                return Err(Errno::Again);
            }
        }
    }
}

/// The file of a descriptor that can be used at any position.
fn positioned(descriptor: &Descriptor, access: Rights, at: u64) -> Result<&OwnedFd> {
    descriptor.require(access)?;
    descriptor.require(Rights::FD_SEEK)?;
    if i64::try_from(at).is_err() {
        return Err(Errno::Inval);
    }
    match &descriptor.object {
        Object::Host(file) => Ok(file),
        _ => Err(Errno::SPipe),
    }
}

/// Repeats what a signal interrupted.
fn uninterrupted(mut step: impl FnMut() -> rustix::io::Result<usize>) -> Result<usize> {
    loop {
        match step() {
            Err(Host::INTR) => {}
            result => return Ok(result?),
        }
    }
}
