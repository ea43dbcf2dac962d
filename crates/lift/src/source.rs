//! A module whose bodies are lifted one by one, as often as they are needed: wasm is the compact form of its CLIF, a
//! tenth of the size, and lifting takes a small part of the time that compiling takes.
//!
//! Invariant: lifting a body gives the same function each time.
//! Cost: tables and one entry a body; no code.

use std::fmt;

use cranelift_codegen::ir::Function;
use rayon::prelude::*;
use spinwise_model::context::Layout;
use spinwise_model::module::Module;

use crate::func::{Body, Facts, Failure, Scratch, lift_body};
use crate::parse::{Parsed, parse};
use crate::{Config, Error, diagnose, glue};

/// A module in its binary format: valid, once it was surveyed.
pub struct Source<'a> {
    bytes: &'a [u8],
    config: Config,
    module: Module,
    layout: Layout,
    bodies: Vec<Body<'a>>,
}

impl fmt::Debug for Source<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source")
            .field("config", &self.config)
            .field("bodies", &self.bodies.len())
            .finish_non_exhaustive()
    }
}

impl<'a> Source<'a> {
    /// Reads a module's tables, and lifts each body for the first time, which validates it. `look` gets each function,
    /// on any thread; what it answers comes in index order.
    ///
    /// # Errors
    /// If the bytes are not a valid module, need an unsupported feature, or exceed a limit. Of several faulty bodies the
    /// first is reported.
    pub fn survey<T: Send>(
        bytes: &'a [u8],
        config: &Config,
        look: impl Fn(Function) -> T + Sync,
    ) -> Result<(Self, Vec<T>), Error> {
        // One offset is left to mean "none".
        if bytes.len() >= u32::MAX as usize {
            let limit = "modules must be shorter than 4 GiB".to_owned();
            return Err(Error::Limit { limit, function: None, offset: 0 });
        }
        let failed = |failure: Failure| diagnose::diagnose(bytes, config.features, failure);
        let Parsed { module, bodies } = parse(bytes, config.features.flags()).map_err(|error| failed(error.into()))?;
        let layout = Layout::new(&module);
        let mut source = Self { bytes, config: *config, module, layout, bodies };
        let lifted: Vec<_> = source
            .bodies
            .par_iter()
            .map_init(Scratch::default, |scratch, body| {
                let (function, facts) = lift_body(&source.module, &source.layout, config, body, scratch)?;
                Ok((look(function), facts))
            })
            .collect();
        let mut answers = Vec::with_capacity(lifted.len());
        for body in lifted {
            let (answer, facts) = body.map_err(failed)?;
            answers.push(answer);
            note(&mut source.module, facts);
        }
        source.module.address_taken.sort_unstable();
        source.module.address_taken.dedup();
        Ok((source, answers))
    }

    /// The module's tables.
    #[must_use]
    pub fn module(&self) -> &Module {
        &self.module
    }

    /// The module's tables alone.
    #[must_use]
    pub fn into_module(self) -> Module {
        self.module
    }

    /// How many bytes the body of each defined function has, in index order.
    pub fn body_sizes(&self) -> impl ExactSizeIterator<Item = usize> + '_ {
        let defined = &self.module.functions[self.module.imported_functions as usize..];
        defined.iter().map(|function| function.body.len())
    }

    /// Lifts a defined function, given by its position among them. `scratch` lends its allocations.
    ///
    /// # Panics
    /// If it was lifted before and cannot be lifted again: always a bug.
    #[must_use]
    pub fn lift(&self, position: usize, scratch: &mut Scratch) -> Function {
        match lift_body(&self.module, &self.layout, &self.config, &self.bodies[position], scratch) {
            Ok((function, _)) => function,
            Err(failure) => {
                let error = diagnose::diagnose(self.bytes, self.config.features, failure);
                unreachable!("it was lifted before: {error}")
            }
        }
    }

    /// The functions around guest code: import stubs, host entries, host adapters, reference stubs and the poll thunk,
    /// named as [`spinwise_model::symbol`] says.
    #[must_use]
    pub fn glue(&self) -> Vec<Function> {
        glue::glue(&self.module, &self.layout, &self.config)
    }
}

/// Adds what a body told to the module's tables.
fn note(module: &mut Module, facts: Facts) {
    module.address_taken.extend(facts.referenced);
    module.written_tables.extend(facts.written_tables);
    module.indirect_calls.extend(facts.indirect_calls);
    module.reference_calls.extend(facts.reference_calls);
}
