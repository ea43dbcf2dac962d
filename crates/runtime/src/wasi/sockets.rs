//! `sock_*`: sockets that the host program passed on as a standard stream, as internet super-servers do, and connections
//! accepted on them. A guest cannot make a socket or connect one.
//!
//! All of them wait as streams do: for readiness, in a wait that the end of the process ends, then a step that does not
//! block.

use std::os::fd::OwnedFd;

use rustix::event::PollFlags;
use rustix::net::{RecvFlags, Shutdown, SocketFlags};

use super::abi::{DATA_TRUNCATED, Filetype, Rights, fdflags, riflags};
use super::context::Call;
use super::descriptor::{Descriptor, Object, Origin};
use super::errno::{Errno, Result};
use super::guest::{GuestMemoryExt, Spans};

impl Call<'_> {
    /// `sock_accept`
    pub(super) fn sock_accept(&self, fd: u32, flags: u32, opened: u64) -> Result<()> {
        let descriptor = self.descriptor(fd)?;
        let socket = socket(&descriptor)?;
        descriptor.require(Rights::SOCK_ACCEPT).map_err(|error| inval_if_unsupported(&descriptor, error))?;
        let flags = u16::try_from(flags).ok().filter(|flags| flags & !fdflags::NONBLOCK == 0).ok_or(Errno::Inval)?;
        self.guest.check(opened, 4)?;
        let accepted = self
            .patiently(&descriptor, socket, PollFlags::IN, || rustix::net::accept_with(socket, SocketFlags::CLOEXEC))?;
        let origin = Origin::Opened { inheriting: Rights::ALL, flags, read_only: false };
        let accepted = self.wasi.table.insert(Descriptor::host(accepted, origin)?)?;
        self.guest.store_u32(opened, accepted)
    }

    /// `sock_recv`. `WAITALL` with `PEEK` is `PEEK` alone: what is only looked at cannot be gathered piece by piece.
    pub(super) fn sock_recv(&self, fd: u32, iovs: u64, count: u64, flags: u32, read: u64, out: u64) -> Result<()> {
        let descriptor = self.descriptor(fd)?;
        let socket = socket(&descriptor)?;
        descriptor.require(Rights::FD_READ)?;
        if flags & !riflags::ALL != 0 || descriptor.is_listening() {
            return Err(Errno::Inval);
        }
        self.guest.check(read, self.word())?;
        self.guest.check(out, 2)?;
        let spans = Spans::load(self, iovs, count)?;
        let peek = flags & riflags::PEEK != 0;
        let datagram = descriptor.kind == Filetype::SocketDgram;
        let all = flags & riflags::WAITALL != 0 && !peek && !datagram;
        let mut host = RecvFlags::DONTWAIT;
        host.set(RecvFlags::PEEK, peek);
        // For a datagram: the length it really has.
        host.set(RecvFlags::TRUNC, datagram);
        let mut truncated = false;
        let done = spans.fill(self.guest, !all, |buffer, _| {
            let mut done = 0;
            loop {
                let rest = &mut buffer[done..];
                let room = rest.len();
                let step =
                    self.patiently(&descriptor, socket, PollFlags::IN, || rustix::net::recv(socket, &mut *rest, host));
                match step {
                    Ok((got, length)) => {
                        truncated |= length > room;
                        done += got;
                        if !all || got == 0 || done == buffer.len() {
                            return Ok(done);
                        }
                    }
                    Err(Errno::Intr) => return Err(Errno::Intr),
                    Err(_) if done > 0 => return Ok(done),
                    Err(error) => return Err(error),
                }
            }
        })?;
        self.store_size(read, done.into())?;
        self.guest.write(out, &(if truncated { DATA_TRUNCATED } else { 0 }).to_le_bytes())
    }

    /// `sock_send`
    pub(super) fn sock_send(&self, fd: u32, iovs: u64, count: u64, flags: u32, sent: u64) -> Result<()> {
        let descriptor = self.descriptor(fd)?;
        socket(&descriptor)?;
        descriptor.require(Rights::FD_WRITE)?;
        if flags != 0 {
            return Err(Errno::Inval);
        }
        self.guest.check(sent, self.word())?;
        let spans = Spans::load(self, iovs, count)?;
        let done = self.write_all(&descriptor, spans)?;
        self.store_size(sent, done.into())
    }

    /// `sock_shutdown`
    pub(super) fn sock_shutdown(&self, fd: u32, how: u32) -> Result<()> {
        let descriptor = self.descriptor(fd)?;
        let socket = socket(&descriptor)?;
        descriptor.require(Rights::SOCK_SHUTDOWN).map_err(|error| inval_if_unsupported(&descriptor, error))?;
        let how = match how {
            1 => Shutdown::Read,
            2 => Shutdown::Write,
            3 => Shutdown::Both,
            _ => return Err(Errno::Inval),
        };
        Ok(rustix::net::shutdown(socket, how)?)
    }
}

/// The host's socket.
fn socket(descriptor: &Descriptor) -> Result<&OwnedFd> {
    match &descriptor.object {
        Object::Host(file) if descriptor.is_socket() => Ok(file),
        _ => Err(Errno::NotSock),
    }
}

/// A socket that is connected cannot accept, one that listens cannot shut down: as POSIX answers.
fn inval_if_unsupported(descriptor: &Descriptor, error: Errno) -> Errno {
    match (error, descriptor.kind) {
        (Errno::BadF, Filetype::SocketDgram) => Errno::NotSup,
        (Errno::BadF, _) => Errno::Inval,
        (error, _) => error,
    }
}
