//! `wasi.thread-spawn`: a new guest thread with an instance of its own.
//!
//! Invariants: the call has started the thread, or nothing; the instance is made before the thread is, so whatever can
//! fail fails in the call. The child shares the shared memories, whether imported or defined, and the host's functions.
//! It does not repeat what active segments did to a shared memory; its start function runs, on the child. A trap or exit
//! in any thread ends the process. Source: wasi-threads; its 64-bit flavour as toolchains for wasm64 have it: the argument
//! is an address, so it is an `i64` there, and everything else as it was. Cost: an instance, a stack from the pool, an OS
//! thread.

use spinwise_model::module::Entity;
use spinwise_model::types::ValType;

use crate::error::Error;
use crate::func::Func;
use crate::host::Caller;
use crate::instance::Instance;
use crate::store::Store;
use crate::value::Val;

/// WASI's error numbers.
const EAGAIN: i32 = 6;
const ENOTSUP: i32 = 58;

/// What a thread runs first.
const START: &str = "wasi_thread_start";

/// The import `wasi.thread-spawn`: `(argument) -> identifier`, or a negative error number.
#[must_use]
pub fn thread_spawn() -> Func {
    Func::typed(|caller: Caller<'_>, argument: i32| spawned(&caller, Val::I32(argument)))
}

/// [`thread_spawn`] for guests of 64-bit addresses: the argument is an `i64`, also that of `wasi_thread_start`.
#[must_use]
pub fn thread_spawn64() -> Func {
    Func::typed(|caller: Caller<'_>, argument: i64| spawned(&caller, Val::I64(argument)))
}

fn spawned(caller: &Caller<'_>, argument: Val) -> Result<i32, Error> {
    let Some(parent) = caller.instance() else { return Ok(-ENOTSUP) };
    caller.check()?;
    Ok(spawn(caller, &parent, argument).unwrap_or_else(|errno| -errno))
}

fn spawn(caller: &Caller<'_>, parent: &Instance, argument: Val) -> Result<i32, i32> {
    if !can_start(parent, argument.ty()) {
        return Err(ENOTSUP);
    }
    let process = caller.process();
    let mut store = Store::numbered(process).map_err(|_| EAGAIN)?;
    let instance = parent.sibling(&mut store).map_err(|error| match error {
        Error::Resource(_) => EAGAIN,
        _ => ENOTSUP,
    })?;
    let id = store.thread().id().cast_signed();
    let body = move || run(store, &instance, id, argument);
    process.start(format!("guest-{id}"), body).map_err(|_| EAGAIN)?;
    Ok(id)
}

/// Whether the module has a start function for threads that takes an identifier and such an argument.
fn can_start(parent: &Instance, argument: ValType) -> bool {
    let module = parent.module();
    let Some(Entity::Function(index)) = module.export(START) else { return false };
    let ty = module.func_type(index);
    ty.params == [ValType::I32, argument] && ty.results.is_empty()
}

/// The life of a guest thread.
fn run(mut store: Store, instance: &Instance, id: i32, argument: Val) {
    let arguments = [Val::I32(id), argument];
    let result = instance.start(&mut store).and_then(|()| instance.call(&mut store, START, &arguments));
    if let Err(error) = result {
        store.process().end(error);
    }
}
