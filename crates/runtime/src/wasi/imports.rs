//! The calls as host functions under their preview 1 names, and the guest thread behind them.

use std::sync::Arc;
use std::time::Duration;

use rustix::event::PollFd;
use spinwise_model::module::{Entity, Module};
use spinwise_model::types::FuncType;

use super::context::{Call, WasiCtx};
use super::errno::{Errno, Result};
use super::guest::{Guest, GuestMemory, Readiness};
use crate::error::Error;
use crate::func::Func;
use crate::host::Caller;
use crate::value::WasmType;

/// The module that guests import these functions from.
pub const MODULE: &str = "wasi_snapshot_preview1";

/// How a guest passes what preview 1 calls numbers (descriptors, flags) and what it calls addresses and sizes.
trait Abi: 'static {
    /// What a number arrives as.
    type Number: WasmType;
    /// What an address or a size arrives as.
    type Address: WasmType;
    /// Whether addresses and sizes in memory are 64 bits wide.
    const WIDE: bool;
    fn number(value: Self::Number) -> u32;
    fn address(value: Self::Address) -> u64;
}

/// As preview 1 is written.
struct Wasm32;

impl Abi for Wasm32 {
    type Number = u32;
    type Address = u32;
    const WIDE: bool = false;
    fn number(value: u32) -> u32 {
        value
    }
    fn address(value: u32) -> u64 {
        value.into()
    }
}

/// Addresses and sizes are 64 bits wide.
struct Wasm64;

impl Abi for Wasm64 {
    type Number = u32;
    type Address = u64;
    const WIDE: bool = true;
    fn number(value: u32) -> u32 {
        value
    }
    fn address(value: u64) -> u64 {
        value
    }
}

/// Numbers are passed in 64 bits as well, of which the lower half counts.
struct AllWide;

impl Abi for AllWide {
    type Number = u64;
    type Address = u64;
    const WIDE: bool = true;
    fn number(value: u64) -> u32 {
        #[expect(clippy::cast_possible_truncation, reason = "a C library widens its 32-bit numbers")]
        let number = value as u32;
        number
    }
    fn address(value: u64) -> u64 {
        value
    }
}

/// The type of a parameter in an [`Abi`].
macro_rules! parameter {
    ($abi:ident number) => {
        $abi::Number
    };
    ($abi:ident address) => {
        $abi::Address
    };
    ($abi:ident $ty:ident) => {
        $ty
    };
}

/// A parameter as a method of [`Call`] takes it.
macro_rules! argument {
    ($abi:ident number $value:ident) => {
        $abi::number($value)
    };
    ($abi:ident address $value:ident) => {
        $abi::address($value)
    };
    ($abi:ident $ty:ident $value:ident) => {
        $value
    };
}

/// Makes a host function of each named method of [`Call`], with its name; the methods' parameters give the types.
macro_rules! functions {
    ($abi:ident $wasi:ident: $($name:ident($($parameter:ident: $kind:ident),*);)*) => {
        vec![$((stringify!($name), {
            let wasi = Arc::clone(&$wasi);
            Func::typed(move |caller: Caller<'_>, $($parameter: parameter!($abi $kind)),*| {
                let call = Call { wide: $abi::WIDE, ..Call::new(&wasi, &caller) };
                Ok(answer(call.$name($(argument!($abi $kind $parameter)),*)))
            })
        })),*]
    };
}

/// Every function of preview 1, over the state of one process.
#[must_use]
pub fn imports(wasi: &Arc<WasiCtx>) -> Vec<(&'static str, Func)> {
    functions::<Wasm32>(wasi)
}

/// The functions of preview 1 that a module imports, each in the ABI that the import's type belongs to.
///
/// Beside preview 1 as it is written these are two ABIs for 64-bit addresses, which toolchains for wasm64 have and which
/// lay out memory alike, as a C compiler would with 64-bit addresses and sizes: in one, addresses and sizes are passed in
/// 64 bits; in the other, numbers too. Some toolchains add `_wasm64` to the names. A type that belongs to none gets the
/// function as it is written, which linking then compares it with.
#[must_use]
pub fn imports_for(wasi: &Arc<WasiCtx>, module: &Module) -> Vec<(String, Func)> {
    let written = functions::<Wasm32>(wasi);
    let wide: Vec<_> = functions::<Wasm64>(wasi).into_iter().chain(functions::<AllWide>(wasi)).collect();
    let imported = module.imports.iter().filter_map(|import| match import.entity {
        Entity::Function(index) if import.module == MODULE => Some((&import.field, module.func_type(index))),
        _ => None,
    });
    let find = |(field, ty): (&String, &FuncType)| {
        let plain = field.strip_suffix("_wasm64").unwrap_or(field);
        let fits = |candidate: &&(&str, Func)| candidate.0 == plain && candidate.1.ty() == ty;
        let by_name = || written.iter().find(|(name, _)| name == field);
        let exact = by_name().filter(|(_, func)| func.ty() == ty);
        let (_, func) = exact.or_else(|| wide.iter().find(fits)).or_else(by_name)?;
        Some((field.clone(), func.clone()))
    };
    imported.filter_map(find).collect()
}

/// Every function of preview 1 in an ABI.
fn functions<A: Abi>(wasi: &Arc<WasiCtx>) -> Vec<(&'static str, Func)> {
    let mut functions = functions! { A wasi:
        args_get(pointers: address, bytes: address);
        args_sizes_get(count: address, bytes: address);
        environ_get(pointers: address, bytes: address);
        environ_sizes_get(count: address, bytes: address);
        clock_res_get(id: number, out: address);
        clock_time_get(id: number, precision: u64, out: address);
        fd_advise(fd: number, at: u64, length: u64, advice: number);
        fd_allocate(fd: number, at: u64, length: u64);
        fd_close(fd: number);
        fd_datasync(fd: number);
        fd_fdstat_get(fd: number, out: address);
        fd_fdstat_set_flags(fd: number, flags: number);
        fd_fdstat_set_rights(fd: number, base: u64, inheriting: u64);
        fd_filestat_get(fd: number, out: address);
        fd_filestat_set_size(fd: number, size: u64);
        fd_filestat_set_times(fd: number, accessed: u64, modified: u64, flags: number);
        fd_pread(fd: number, iovs: address, count: address, at: u64, read: address);
        fd_prestat_get(fd: number, out: address);
        fd_prestat_dir_name(fd: number, at: address, length: address);
        fd_pwrite(fd: number, iovs: address, count: address, at: u64, written: address);
        fd_read(fd: number, iovs: address, count: address, read: address);
        fd_readdir(fd: number, at: address, length: address, cookie: u64, used: address);
        fd_renumber(from: number, to: number);
        fd_seek(fd: number, by: i64, whence: number, out: address);
        fd_sync(fd: number);
        fd_tell(fd: number, out: address);
        fd_write(fd: number, iovs: address, count: address, written: address);
        path_create_directory(fd: number, path: address, length: address);
        path_filestat_get(fd: number, lookup: number, path: address, length: address, out: address);
        path_filestat_set_times(
            fd: number, lookup: number, path: address, length: address, accessed: u64, modified: u64, flags: number
        );
        path_link(fd: number, lookup: number, path: address, length: address, new_fd: number, new_path: address, new_length: address);
        path_open(
            fd: number, lookup: number, path: address, length: address, open: number, base: u64, inheriting: u64, flags: number, opened: address
        );
        path_readlink(fd: number, path: address, length: address, buffer: address, room: address, used: address);
        path_remove_directory(fd: number, path: address, length: address);
        path_rename(fd: number, path: address, length: address, new_fd: number, new_path: address, new_length: address);
        path_symlink(target: address, target_length: address, fd: number, path: address, length: address);
        path_unlink_file(fd: number, path: address, length: address);
        poll_oneoff(subscriptions: address, events: address, count: address, stored: address);
        random_get(at: address, length: address);
        sched_yield();
        sock_accept(fd: number, flags: number, opened: address);
        sock_recv(fd: number, iovs: address, count: address, flags: number, read: address, out: address);
        sock_send(fd: number, iovs: address, count: address, flags: number, sent: address);
        sock_shutdown(fd: number, how: number);
    };
    let leave = |_: Caller<'_>, code: A::Number| Err::<(), _>(exit(A::number(code)));
    functions.push(("proc_exit", Func::typed(leave)));
    let raising = Arc::clone(wasi);
    let raise =
        move |caller: Caller<'_>, signal: A::Number| match Call::new(&raising, &caller).proc_raise(A::number(signal)) {
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

    fn read(&self, at: u64, into: &mut [u8]) -> Result<()> {
        self.check().map_err(|_| Errno::Intr)?;
        self.memory().ok_or(Errno::Fault)?.read(at, into).map_err(|_| Errno::Fault)
    }

    fn write(&self, at: u64, from: &[u8]) -> Result<()> {
        self.check().map_err(|_| Errno::Intr)?;
        self.memory().ok_or(Errno::Fault)?.write(at, from).map_err(|_| Errno::Fault)
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
