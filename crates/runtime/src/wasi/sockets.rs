//! `sock_*`: present so that every module links. There is no way for a guest to make a socket.

use super::abi::Filetype;
use super::context::Call;
use super::errno::{Errno, Result};

impl Call<'_> {
    /// `sock_accept`
    pub(super) fn sock_accept(&self, fd: u32, _flags: u32, _opened: u32) -> Result<()> {
        self.refuse_socket(fd)
    }

    /// `sock_recv`
    pub(super) fn sock_recv(&self, fd: u32, _iovs: u32, _count: u32, _flags: u32, _n: u32, _out: u32) -> Result<()> {
        self.refuse_socket(fd)
    }

    /// `sock_send`
    pub(super) fn sock_send(&self, fd: u32, _iovs: u32, _count: u32, _flags: u32, _sent: u32) -> Result<()> {
        self.refuse_socket(fd)
    }

    /// `sock_shutdown`
    pub(super) fn sock_shutdown(&self, fd: u32, _how: u32) -> Result<()> {
        self.refuse_socket(fd)
    }

    fn refuse_socket(&self, fd: u32) -> Result<()> {
        match self.descriptor(fd)?.kind {
            Filetype::SocketStream => Err(Errno::NotSup),
            _ => Err(Errno::NotSock),
        }
    }
}
