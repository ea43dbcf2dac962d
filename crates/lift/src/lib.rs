//! WebAssembly bytes to a validated module and one CLIF function a body.
//!
//! This crate must not know how loops are found, guarded or compiled, nor how code is run: its only other crate is
//! `model`, which also defines all memory that the code it makes refers to.
//!
//! In the order data moves: `parse` reads the tables, `func` lifts a body operator by operator through one module a
//! family (`control`, `exceptions`, `locals`, `numeric`, `memory`, `call`, `global`, `atomics`, `bulk`, `table`,
//! `reference`, `object`, `cast`, `simd`, `wide`), `glue` makes the functions around guest code; `source` is a module whose
//! bodies are lifted one by one. `diagnose` turns a rejection into an [`Error`].

mod abi;
mod atomics;
mod bulk;
mod call;
mod cast;
mod control;
mod diagnose;
mod error;
mod exceptions;
mod features;
mod func;
mod global;
mod glue;
mod locals;
mod memory;
mod names;
mod numeric;
mod object;
mod parse;
mod reference;
mod relaxed;
mod simd;
mod source;
mod stack;
mod table;
mod traced;
mod types;
mod wide;

use std::fmt;

use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::{CallConv, TargetFrontendConfig};
use spinwise_model::module::Module;

pub use crate::error::Error;
pub use crate::features::Features;
pub use crate::func::Scratch;
pub use crate::relaxed::Relaxed;
pub use crate::source::Source;

/// What lifting must know about the target.
#[derive(Clone, Copy)]
pub struct Config {
    /// The target, as the frontend wants it.
    pub frontend: TargetFrontendConfig,
    /// The C convention, in which builtins are called and host entries are entered.
    pub host_call_conv: CallConv,
    /// The convention of the poll thunk.
    pub thunk_call_conv: CallConv,
    /// What modules may use.
    pub features: Features,
    /// What relaxed SIMD gives where it has a choice.
    pub relaxed: Relaxed,
}

impl fmt::Debug for Config {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Config")
            .field("host_call_conv", &self.host_call_conv)
            .field("thunk_call_conv", &self.thunk_call_conv)
            .field("features", &self.features)
            .finish_non_exhaustive()
    }
}

/// A module and its code, before inlining and guards.
#[derive(Clone, Debug)]
pub struct Lifted {
    /// The module's tables.
    pub module: Module,
    /// The defined functions, in index order.
    pub functions: Vec<Function>,
    /// Import stubs, host entries, host adapters, reference stubs and the poll thunk, named as [`spinwise_model::symbol`] says.
    pub glue: Vec<Function>,
}

/// Validates and lifts a module in its binary format, all of it at once: [`Source`] without its thrift.
///
/// # Errors
/// As [`Source::survey`].
pub fn lift(bytes: &[u8], config: &Config) -> Result<Lifted, Error> {
    let (source, functions) = Source::survey(bytes, config, |function| function)?;
    let glue = source.glue();
    Ok(Lifted { module: source.into_module(), functions, glue })
}
