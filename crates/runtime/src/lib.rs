//! Memories, instances, traps, threads, polls, wait/notify and WASI: what compiled code needs to run.
//!
//! This crate must not know how code is made: it gets a [`Module`](spinwise_model::module::Module) and a
//! [`CodeImage`](spinwise_model::image::CodeImage), and shares the layouts of [`spinwise_model::context`] with compiled code.
//! `README.md` describes its protocols: poll and end, wait and notify, traps.
//!
//! In the order of a run: [`program`] makes code known; [`process`] is the threads that end together, [`thread`] one of
//! them, [`store`] its home; [`link`], [`instance`] and [`init`] bring a module to life over [`memory`], [`table`],
//! [`global`], [`tag`], [`func`] and [`mod@reference`]s to them, and [`any`] object on a [`heap`]; [`enter`] goes into guest
//! code on a [`stack`], [`signal`] and [`backtrace`] bring traps back, [`unwind`] finds who handles an [`exception`]; compiled
//! code calls [`builtins`]: [`poll`], [`wait`], [`host`] functions; [`spawn`] starts guest threads.

mod affinity;
mod altstack;
mod any;
mod backtrace;
mod builtins;
mod copy;
mod enter;
mod error;
mod exception;
mod func;
mod global;
mod heap;
mod host;
mod init;
mod instance;
mod link;
mod mapping;
mod memory;
mod number;
mod poll;
mod process;
mod program;
mod reference;
mod reserve;
mod sample;
mod signal;
mod spawn;
mod stack;
mod store;
mod table;
mod tag;
mod thread;
mod tid;
mod types;
mod unwind;
mod value;
mod wait;
pub mod wasi;

pub use any::{AnyRef, Object};
pub use builtins::builtin_address;
pub use copy::Scalar;
pub use error::{Error, Frame, LinkError, LinkErrorKind, OutOfBounds, Trap};
pub use exception::Exception;
pub use func::Func;
pub use global::Global;
pub use host::{Caller, TypedClosure};
pub use instance::Instance;
pub use link::{Extern, Imports};
pub use memory::Memory;
pub use process::{Options, Process, Straggler};
pub use program::Program;
pub use spawn::{thread_spawn, thread_spawn64};
pub use store::{Context, Store};
pub use table::Table;
pub use tag::Tag;
pub use value::{Val, WasmResults, WasmType};
