//! WebAssembly bytes to a validated module and one CLIF function a body.
//!
//! This crate must not know how loops are found, guarded or compiled, nor how code is run: its only other crate is
//! `model`, which also defines all memory that the code it makes refers to.
//!
//! In the order data moves: `parse` reads the tables, `func` lifts a body operator by operator through one module a
//! family (`control`, `exceptions`, `locals`, `numeric`, `memory`, `call`, `global`, `atomics`, `bulk`, `table`,
//! `reference`, `object`, `cast`, `simd`, `wide`), `glue` makes the functions around guest code. `diagnose` turns a rejection
//! into an [`Error`].

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
mod stack;
mod table;
mod traced;
mod types;
mod wide;

use std::fmt;

use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::{CallConv, TargetFrontendConfig};
use rayon::prelude::*;
use spinwise_model::context::Layout;
use spinwise_model::module::Module;

pub use crate::error::Error;
pub use crate::features::Features;
use crate::func::{Facts, Failure, Scratch, lift_body};
use crate::parse::{Parsed, parse};
pub use crate::relaxed::Relaxed;

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

/// Validates and lifts a module in its binary format. Bodies are lifted in parallel; the result does not depend on it.
///
/// # Errors
/// If the bytes are not a valid module, need an unsupported feature, or exceed a limit. Of several faulty bodies the
/// first is reported.
pub fn lift(bytes: &[u8], config: &Config) -> Result<Lifted, Error> {
    // One offset is left to mean "none".
    if bytes.len() >= u32::MAX as usize {
        let limit = "modules must be shorter than 4 GiB".to_owned();
        return Err(Error::Limit { limit, function: None, offset: 0 });
    }
    let features = config.features;
    let Parsed { mut module, bodies } =
        parse(bytes, features.flags()).map_err(|error| diagnose::diagnose(bytes, features, Failure::Wasm(error)))?;
    let layout = Layout::new(&module);
    let lifted: Vec<_> = bodies
        .into_par_iter()
        .map_init(Scratch::default, |scratch, body| lift_body(&module, &layout, config, body, scratch))
        .collect();
    let mut functions = Vec::with_capacity(lifted.len());
    for body in lifted {
        let (function, facts) = body.map_err(|failure| diagnose::diagnose(bytes, features, failure))?;
        functions.push(function);
        note(&mut module, facts);
    }
    module.address_taken.sort_unstable();
    module.address_taken.dedup();
    let glue = glue::glue(&module, &layout, config);
    Ok(Lifted { module, functions, glue })
}

/// Adds what a body told to the module's tables.
fn note(module: &mut Module, facts: Facts) {
    module.address_taken.extend(facts.referenced);
    module.written_tables.extend(facts.written_tables);
    module.indirect_calls.extend(facts.indirect_calls);
    module.reference_calls.extend(facts.reference_calls);
}
