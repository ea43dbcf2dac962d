//! Where a guest's standard streams lead: nowhere, to the host program's own, to a descriptor, or into memory.

use std::io::Cursor;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::Arc;

use parking_lot::Mutex;

use super::descriptor::{Descriptor, Object, Origin};

/// Bytes that a guest wrote, for its host to look at. Clones share the same bytes.
#[derive(Clone, Debug, Default)]
pub struct Capture(Arc<Mutex<Vec<u8>>>);

impl Capture {
    /// An empty one.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// What has been written so far.
    #[must_use]
    pub fn contents(&self) -> Vec<u8> {
        self.0.lock().clone()
    }

    /// Takes what has been written so far, leaving nothing.
    #[must_use]
    pub fn take(&self) -> Vec<u8> {
        std::mem::take(&mut *self.0.lock())
    }

    pub(super) fn append(&self, bytes: &[u8]) {
        self.0.lock().extend_from_slice(bytes);
    }
}

/// Where one of the three standard streams leads.
#[derive(Debug, Default)]
pub enum Stream {
    /// Reading ends at once, what is written vanishes.
    #[default]
    Null,
    /// The host program's own stream of that number. One that is closed, or is a directory, is closed for the guest.
    Inherit,
    /// A descriptor of the host: a file, a pipe, a socket. As with `Inherit`, a directory is not passed on.
    Descriptor(OwnedFd),
    /// Reads give these bytes, then end. Cannot be written.
    Bytes(Vec<u8>),
    /// What is written is kept. Cannot be read.
    Capture(Capture),
}

impl Stream {
    /// The descriptor for it, as number `fd`; `None` if that number is to be closed.
    pub(super) fn open(self, fd: u32) -> Option<Descriptor> {
        let duplicate = |stream: BorrowedFd<'_>| stream.try_clone_to_owned().ok();
        let host = match self {
            Self::Null => return Some(Descriptor::memory(Object::Null)),
            Self::Bytes(bytes) => return Some(Descriptor::memory(Object::Input(Mutex::new(Cursor::new(bytes))))),
            Self::Capture(capture) => return Some(Descriptor::memory(Object::Output(capture))),
            Self::Descriptor(descriptor) => Some(descriptor),
            Self::Inherit => match fd {
                0 => duplicate(std::io::stdin().as_fd()),
                1 => duplicate(std::io::stdout().as_fd()),
                _ => duplicate(std::io::stderr().as_fd()),
            },
        };
        Descriptor::host(host?, Origin::Inherited).ok()
    }
}
