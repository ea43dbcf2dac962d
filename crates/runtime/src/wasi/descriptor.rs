//! One open descriptor: what it is, what may be done with it, and its flags.
//!
//! Rights are those that the object can have, less what the guest gave up (`fd_fdstat_set_rights`) on it or on the
//! directory it was opened from. A call that the object cannot serve fails as on POSIX; one that it could serve, but whose
//! right was given up, fails with [`Errno::NotCapable`].

use std::io::{Cursor, IsTerminal};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicU16, Ordering};

use parking_lot::{Mutex, MutexGuard};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::net::SocketType;
use rustix::net::sockopt::{socket_acceptconn, socket_type};

use super::abi::{Filetype, Rights, fdflags};
use super::errno::{Errno, Result};
use super::stdio::Capture;

/// What a directory can do.
const DIRECTORY: Rights = Rights::PATH_CREATE_DIRECTORY
    .with(Rights::PATH_CREATE_FILE)
    .with(Rights::PATH_LINK_SOURCE)
    .with(Rights::PATH_LINK_TARGET)
    .with(Rights::PATH_OPEN)
    .with(Rights::FD_READDIR)
    .with(Rights::PATH_READLINK)
    .with(Rights::PATH_RENAME_SOURCE)
    .with(Rights::PATH_RENAME_TARGET)
    .with(Rights::PATH_FILESTAT_GET)
    .with(Rights::PATH_FILESTAT_SET_SIZE)
    .with(Rights::PATH_FILESTAT_SET_TIMES)
    .with(Rights::PATH_SYMLINK)
    .with(Rights::PATH_REMOVE_DIRECTORY)
    .with(Rights::PATH_UNLINK_FILE)
    .with(Rights::FD_FILESTAT_GET)
    .with(Rights::FD_FILESTAT_SET_TIMES)
    .with(Rights::FD_FDSTAT_SET_FLAGS)
    .with(Rights::FD_SYNC)
    .with(Rights::FD_DATASYNC);

/// What would change a file system, or let it be changed through another directory.
const CHANGES: Rights = Rights::PATH_CREATE_DIRECTORY
    .with(Rights::PATH_CREATE_FILE)
    .with(Rights::PATH_LINK_SOURCE)
    .with(Rights::PATH_LINK_TARGET)
    .with(Rights::PATH_RENAME_SOURCE)
    .with(Rights::PATH_RENAME_TARGET)
    .with(Rights::PATH_FILESTAT_SET_SIZE)
    .with(Rights::PATH_FILESTAT_SET_TIMES)
    .with(Rights::PATH_SYMLINK)
    .with(Rights::PATH_REMOVE_DIRECTORY)
    .with(Rights::PATH_UNLINK_FILE)
    .with(Rights::FD_FILESTAT_SET_TIMES);

/// What only a directory can do.
const DIRECTORY_ONLY: Rights = Rights(DIRECTORY.0 & !FILE.0);

/// What any open object can do.
const ANY: Rights = Rights::FD_FDSTAT_SET_FLAGS
    .with(Rights::FD_SYNC)
    .with(Rights::FD_DATASYNC)
    .with(Rights::FD_FILESTAT_GET)
    .with(Rights::FD_FILESTAT_SET_TIMES)
    .with(Rights::POLL_FD_READWRITE);

/// What needs a position.
const SEEKABLE: Rights = Rights::FD_SEEK.with(Rights::FD_TELL).with(Rights::FD_ADVISE);

/// What needs write access.
const WRITABLE: Rights = Rights::FD_WRITE.with(Rights::FD_ALLOCATE).with(Rights::FD_FILESTAT_SET_SIZE);

/// What a connected socket can do.
const SOCKET: Rights = ANY.with(Rights::FD_READ).with(Rights::FD_WRITE).with(Rights::SOCK_SHUTDOWN);

/// What a listening socket can do. It is readable when somebody wants to connect.
const LISTENER: Rights = ANY.with(Rights::FD_READ).with(Rights::SOCK_ACCEPT);

/// What a regular file can do.
const FILE: Rights = ANY.with(SEEKABLE).with(WRITABLE).with(Rights::FD_READ);

/// Where bytes come from or go to.
#[derive(Debug)]
pub(super) enum Object {
    /// A descriptor of the host.
    Host(OwnedFd),
    /// Bytes to read.
    Input(Mutex<Cursor<Vec<u8>>>),
    /// Bytes written go here.
    Output(Capture),
    /// Reads end at once, writes vanish.
    Null,
}

/// How a host descriptor came to be.
#[derive(Debug)]
pub(super) enum Origin {
    /// Handed over by the host program.
    Inherited,
    /// A directory given to the guest under a name.
    Preopened { name: String, read_only: bool },
    /// Opened by the guest.
    Opened { inheriting: Rights, flags: u16, read_only: bool },
}

/// The rights of a descriptor.
#[derive(Clone, Copy, Debug)]
pub(super) struct Held {
    /// For the descriptor itself.
    pub(super) base: Rights,
    /// For what is opened from it.
    pub(super) inheriting: Rights,
}

/// An open descriptor.
#[derive(Debug)]
pub(super) struct Descriptor {
    pub(super) object: Object,
    pub(super) kind: Filetype,
    /// What it could do.
    supported: Rights,
    /// What it may do: never more than `supported`.
    held: Mutex<Held>,
    /// `fdflags`. `NONBLOCK` is kept here alone: the host's descriptor may be shared with other processes.
    flags: AtomicU16,
    /// The name of a preopened directory.
    pub(super) preopen: Option<String>,
    /// Whether nothing may be changed through it.
    pub(super) read_only: bool,
    /// Whether the host's file status flags may be set: not if other processes share them.
    pub(super) ours: bool,
    /// Held by a call that uses the file position more than once. Never held while a call blocks.
    position: Mutex<()>,
}

impl Descriptor {
    /// Wraps a descriptor of the host.
    pub(super) fn host(fd: OwnedFd, origin: Origin) -> Result<Self> {
        let mut kind = Filetype::from(FileType::from_raw_mode(rustix::fs::fstat(&fd)?.st_mode));
        if kind == Filetype::SocketStream && socket_type(&fd)? == SocketType::DGRAM {
            kind = Filetype::SocketDgram;
        }
        let status = rustix::fs::fcntl_getfl(&fd)?;
        let mut supported = match kind {
            Filetype::Directory => DIRECTORY,
            Filetype::SocketDgram => SOCKET,
            Filetype::SocketStream if socket_acceptconn(&fd)? => {
                // Another thread or process may be faster to accept; accept has no flag that says not to wait then.
                rustix::fs::fcntl_setfl(&fd, status | OFlags::NONBLOCK)?;
                LISTENER
            }
            Filetype::SocketStream => SOCKET,
            Filetype::RegularFile | Filetype::BlockDevice => FILE,
            // A terminal or a pipe has no position; `isatty` in guests goes by this.
            _ if rustix::fs::tell(&fd).is_err() => ANY | Rights::FD_READ | Rights::FD_WRITE,
            _ => FILE,
        };
        match status & OFlags::RWMODE {
            OFlags::RDONLY => supported = supported & !WRITABLE,
            OFlags::WRONLY => supported = supported & !Rights::FD_READ,
            _ => {}
        }
        let mut flags = 0;
        let mut granted = Rights::ALL;
        let mut preopen = None;
        let mut read_only = false;
        let ours = !matches!(origin, Origin::Inherited);
        match origin {
            // A directory is a capability that only a preopen gives.
            Origin::Inherited if kind == Filetype::Directory => return Err(Errno::IsDir),
            Origin::Inherited if status.contains(OFlags::APPEND) => flags = fdflags::APPEND,
            Origin::Inherited => {}
            Origin::Preopened { name, read_only: changes_refused } => {
                preopen = Some(name);
                read_only = changes_refused;
            }
            Origin::Opened { inheriting, flags: asked, read_only: changes_refused } => {
                granted = inheriting;
                flags = asked;
                read_only = changes_refused;
            }
        }
        if read_only {
            supported = supported & !CHANGES;
        }
        let inheriting = if kind == Filetype::Directory { granted } else { Rights::NONE };
        let fd = match (kind, ours) {
            (Filetype::Unknown | Filetype::CharacterDevice, false) => own_description(&fd, status).unwrap_or(fd),
            _ => fd,
        };
        Ok(Self {
            held: Mutex::new(Held { base: supported & granted, inheriting }),
            flags: AtomicU16::new(flags),
            preopen,
            read_only,
            ours,
            ..Self::new(Object::Host(fd), kind, supported)
        })
    }

    /// A descriptor without one of the host.
    pub(super) fn memory(object: Object) -> Self {
        let access = match object {
            Object::Input(_) => Rights::FD_READ,
            Object::Output(_) => Rights::FD_WRITE,
            Object::Null | Object::Host(_) => Rights::FD_READ | Rights::FD_WRITE,
        };
        Self::new(object, Filetype::Unknown, ANY & !Rights::FD_FILESTAT_SET_TIMES | access)
    }

    fn new(object: Object, kind: Filetype, supported: Rights) -> Self {
        Self {
            object,
            kind,
            supported,
            held: Mutex::new(Held { base: supported, inheriting: Rights::NONE }),
            flags: AtomicU16::new(0),
            preopen: None,
            read_only: false,
            ours: false,
            position: Mutex::new(()),
        }
    }

    /// Fails unless the descriptor can do this and still may.
    pub(super) fn require(&self, right: Rights) -> Result<()> {
        if !self.supported.contains(right) {
            return Err(self.refusal(right));
        }
        if !self.held.lock().base.contains(right) {
            return Err(Errno::NotCapable);
        }
        Ok(())
    }

    /// Why the object cannot do it.
    fn refusal(&self, right: Rights) -> Errno {
        let directory = self.kind == Filetype::Directory;
        if !directory && DIRECTORY_ONLY.contains(right) {
            Errno::NotDir
        } else if self.read_only && CHANGES.contains(right) {
            Errno::RoFs
        } else if !directory && SEEKABLE.contains(right) {
            Errno::SPipe
        } else {
            Errno::BadF
        }
    }

    /// The host's directory behind this descriptor.
    pub(super) fn directory(&self, right: Rights) -> Result<BorrowedFd<'_>> {
        match &self.object {
            Object::Host(fd) if self.kind == Filetype::Directory => self.require(right).map(|()| fd.as_fd()),
            _ => Err(Errno::NotDir),
        }
    }

    /// Whether an operation may have to wait for the other end.
    pub(super) fn is_stream(&self) -> bool {
        matches!(self.object, Object::Host(_))
            && !matches!(self.kind, Filetype::RegularFile | Filetype::Directory | Filetype::BlockDevice)
    }

    /// Whether it is a socket.
    pub(super) fn is_socket(&self) -> bool {
        matches!(self.kind, Filetype::SocketStream | Filetype::SocketDgram)
    }

    /// Whether it is a socket that gives connections, not bytes.
    pub(super) fn is_listening(&self) -> bool {
        self.supported.contains(Rights::SOCK_ACCEPT)
    }

    /// Its rights, as the guest sees them.
    pub(super) fn held(&self) -> Held {
        *self.held.lock()
    }

    /// Gives up the rights that are not in `wanted`; asking for more than there is fails and changes nothing.
    pub(super) fn keep(&self, wanted: Held) -> Result<()> {
        let held = &mut *self.held.lock();
        if !held.base.contains(wanted.base) || !held.inheriting.contains(wanted.inheriting) {
            return Err(Errno::NotCapable);
        }
        *held = wanted;
        Ok(())
    }

    /// `fdflags`.
    pub(super) fn flags(&self) -> u16 {
        self.flags.load(Ordering::Relaxed)
    }

    /// Replaces `fdflags`; the caller has told the host.
    pub(super) fn set_flags(&self, flags: u16) {
        self.flags.store(flags, Ordering::Relaxed);
    }

    /// Whether the guest wants `again` instead of waiting.
    pub(super) fn is_nonblocking(&self) -> bool {
        self.flags() & fdflags::NONBLOCK != 0
    }

    /// Keeps other calls from the position of a file that has one, for the time of several steps.
    pub(super) fn hold_position(&self) -> Option<MutexGuard<'_, ()>> {
        (!self.is_stream()).then(|| self.position.lock())
    }
}

/// Opens an inherited pipe or terminal anew, so that it can be non-blocking for us and stay as it is for other processes:
/// a thread that was told of bytes which another then took must get `again` from the host, not wait where nothing can
/// end it. Where the host does not let us (no `/proc`, no permission, no reader yet), `None`.
fn own_description(fd: &OwnedFd, status: OFlags) -> Option<OwnedFd> {
    let kind = FileType::from_raw_mode(rustix::fs::fstat(fd).ok()?.st_mode);
    if kind != FileType::Fifo && !fd.is_terminal() {
        return None;
    }
    let kept = status & (OFlags::RWMODE | OFlags::APPEND);
    let path = format!("/proc/self/fd/{}", fd.as_raw_fd());
    rustix::fs::open(path, kept | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty()).ok()
}
