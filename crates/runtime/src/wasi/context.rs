//! What the threads of a process share in WASI calls, and the builder that sets it up.

use std::path::PathBuf;
use std::sync::Arc;

use rustix::fs::{CWD, Mode, OFlags};
use thiserror::Error;

use super::descriptor::{Descriptor, Origin};
use super::errno::{Errno, Result};
use super::guest::{Guest, GuestMemoryExt};
use super::resolve::Resolver;
use super::stdio::Stream;
use super::table::Table;

/// The WASI state of one process: arguments, environment, descriptors. Its threads use it at the same time.
#[derive(Debug)]
pub struct WasiCtx {
    /// Arguments, without the NUL that ends each in guest memory.
    pub(super) args: Vec<Vec<u8>>,
    /// `NAME=value` each.
    pub(super) environ: Vec<Vec<u8>>,
    pub(super) table: Table,
    pub(super) resolver: Resolver,
}

impl WasiCtx {
    /// Starts with no arguments, no environment, null streams and no directories.
    pub fn builder() -> WasiCtxBuilder {
        WasiCtxBuilder::default()
    }
}

/// A WASI call in progress: the process's state and the guest thread that calls. The calls are its methods.
#[derive(Clone, Copy)]
pub(super) struct Call<'a> {
    pub(super) wasi: &'a WasiCtx,
    pub(super) guest: &'a dyn Guest,
    /// Whether addresses and sizes in memory are 64 bits wide.
    pub(super) wide: bool,
}

impl<'a> Call<'a> {
    /// A call by `guest`, in the ABI as it is written: for 32-bit addresses.
    pub(super) fn new(wasi: &'a WasiCtx, guest: &'a dyn Guest) -> Self {
        Self { wasi, guest, wide: false }
    }

    /// Bytes of an address or a size in memory.
    pub(super) fn word(&self) -> u64 {
        if self.wide { 8 } else { 4 }
    }

    /// Stores an address or a size.
    pub(super) fn store_size(&self, at: u64, value: u64) -> Result<()> {
        if self.wide {
            return self.guest.store_u64(at, value);
        }
        self.guest.store_u32(at, u32::try_from(value).map_err(|_| Errno::Overflow)?)
    }

    /// An open descriptor.
    pub(super) fn descriptor(&self, fd: u32) -> Result<Arc<Descriptor>> {
        self.wasi.table.get(fd)
    }
}

/// Why a [`WasiCtx`] cannot be set up.
#[derive(Debug, Error)]
pub enum WasiError {
    /// An argument or a variable has a NUL inside, or a variable's name is empty or has a `=`.
    #[error("{what} {text:?} cannot be passed to a guest: {reason}")]
    Text {
        /// Argument or environment variable.
        what: &'static str,
        /// The offending text.
        text: String,
        /// What is wrong with it.
        reason: &'static str,
    },
    /// A directory cannot be opened.
    #[error("cannot open directory {}: {error}", path.display())]
    Directory {
        /// On the host.
        path: PathBuf,
        /// Why not.
        error: Errno,
    },
}

/// A directory to give to the guest.
#[derive(Debug)]
struct Preopen {
    host: PathBuf,
    guest: String,
    read_only: bool,
}

/// Sets up a [`WasiCtx`].
#[derive(Debug, Default)]
#[must_use]
pub struct WasiCtxBuilder {
    args: Vec<String>,
    environ: Vec<(String, String)>,
    streams: [Stream; 3],
    preopens: Vec<Preopen>,
}

impl WasiCtxBuilder {
    /// Adds an argument; the first is the program's name.
    pub fn arg(mut self, arg: impl Into<String>) -> Self {
        self.args.push(arg.into());
        self
    }

    /// Adds arguments.
    pub fn args(mut self, args: impl IntoIterator<Item = impl Into<String>>) -> Self {
        self.args.extend(args.into_iter().map(Into::into));
        self
    }

    /// Sets an environment variable; the last of a name wins.
    pub fn env(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        let name = name.into();
        self.environ.retain(|(other, _)| *other != name);
        self.environ.push((name, value.into()));
        self
    }

    /// Where reads of descriptor 0 come from.
    pub fn stdin(mut self, stream: Stream) -> Self {
        self.streams[0] = stream;
        self
    }

    /// Where writes to descriptor 1 go.
    pub fn stdout(mut self, stream: Stream) -> Self {
        self.streams[1] = stream;
        self
    }

    /// Where writes to descriptor 2 go.
    pub fn stderr(mut self, stream: Stream) -> Self {
        self.streams[2] = stream;
        self
    }

    /// The host program's own three streams.
    pub fn inherit_stdio(self) -> Self {
        self.stdin(Stream::Inherit).stdout(Stream::Inherit).stderr(Stream::Inherit)
    }

    /// Gives the guest a directory of the host, under a name. Descriptors 3 and up, in the order of these calls.
    pub fn preopen(mut self, host: impl Into<PathBuf>, guest: impl Into<String>, read_only: bool) -> Self {
        self.preopens.push(Preopen { host: host.into(), guest: guest.into(), read_only });
        self
    }

    /// Opens what was asked for.
    ///
    /// # Errors
    /// [`WasiError::Text`] if an argument or variable cannot be passed on, [`WasiError::Directory`] if a directory
    /// cannot be opened.
    pub fn build(self) -> Result<WasiCtx, WasiError> {
        let mut args = Vec::with_capacity(self.args.len());
        for arg in self.args {
            args.push(checked("argument", arg)?);
        }
        let mut environ = Vec::with_capacity(self.environ.len());
        for (name, value) in self.environ {
            if name.is_empty() || name.contains('=') {
                let reason = "a name is neither empty nor has a '='";
                return Err(WasiError::Text { what: "environment variable", text: name, reason });
            }
            environ.push(checked("environment variable", format!("{name}={value}"))?);
        }
        let mut entries = Vec::with_capacity(3 + self.preopens.len());
        for (fd, stream) in (0..).zip(self.streams) {
            entries.push(stream.open(fd).map(Arc::new));
        }
        for Preopen { host, guest, read_only } in self.preopens {
            let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
            let opened = rustix::fs::openat(CWD, &host, flags, Mode::empty())
                .map_err(Errno::from)
                .and_then(|fd| Descriptor::host(fd, Origin::Preopened { name: guest, read_only }));
            match opened {
                Ok(directory) => entries.push(Some(Arc::new(directory))),
                Err(error) => return Err(WasiError::Directory { path: host, error }),
            }
        }
        Ok(WasiCtx { args, environ, table: Table::new(entries), resolver: Resolver::detect() })
    }
}

/// Text as the guest gets it: it ends at the first NUL there, so it may have none.
fn checked(what: &'static str, text: String) -> Result<Vec<u8>, WasiError> {
    if text.contains('\0') {
        return Err(WasiError::Text { what, text, reason: "it has a NUL inside" });
    }
    Ok(text.into_bytes())
}
