//! What the tests of this crate share: targets to verify for, and lifting of text.

#![allow(dead_code, clippy::allow_attributes, reason = "each test file uses its part of this module")]

use std::str::FromStr;

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::{self, CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use spinwise_lift::{Config, Error, Lifted, lift};
use target_lexicon::Triple;

/// The targets whose verifier rules every lifted function must keep.
pub(crate) const TARGETS: [&str; 2] = ["x86_64-unknown-linux-gnu", "aarch64-unknown-linux-gnu"];

pub(crate) fn target(triple: &str) -> OwnedTargetIsa {
    let mut flags = settings::builder();
    for (name, value) in [("preserve_frame_pointers", "true"), ("enable_multi_ret_implicit_sret", "true")] {
        flags.set(name, value).expect("a known flag");
    }
    let triple = Triple::from_str(triple).expect("a known target");
    let isa = isa::lookup(triple).expect("a supported target");
    isa.finish(settings::Flags::new(flags)).expect("flags that fit the target")
}

pub(crate) fn config() -> Config {
    let isa = target(TARGETS[0]);
    Config {
        frontend: isa.frontend_config(),
        host_call_conv: isa.default_call_conv(),
        thunk_call_conv: CallConv::PreserveAll,
        features: spinwise_lift::Features::default(),
        relaxed: spinwise_lift::Relaxed::DETERMINISTIC,
    }
}

/// Lifts a module given as text.
pub(crate) fn lift_text(text: &str) -> Result<Lifted, Error> {
    lift(&wat::parse_str(text).expect("the test's own text parses"), &config())
}

/// Runs Cranelift's verifier over all functions, for all targets.
pub(crate) fn verify(lifted: &Lifted) {
    for triple in TARGETS {
        let isa = target(triple);
        for function in all(lifted) {
            if let Err(errors) = cranelift_codegen::verify_function(function, &*isa) {
                panic!("{triple}: {}\n{}", function.display(), errors);
            }
        }
    }
}

/// Compiles all functions for all targets: nothing is beyond what their instruction selection covers.
pub(crate) fn compile(lifted: &Lifted) {
    for triple in TARGETS {
        let isa = target(triple);
        for function in all(lifted) {
            let mut context = Context::for_function(function.clone());
            if let Err(error) = context.compile(&*isa, &mut ControlPlane::default()) {
                panic!("{triple}: {}\n{:?}", function.display(), error.inner);
            }
        }
    }
}

pub(crate) fn all(lifted: &Lifted) -> impl Iterator<Item = &Function> {
    lifted.functions.iter().chain(&lifted.glue)
}

/// The CLIF of a defined function, as text.
pub(crate) fn clif(lifted: &Lifted, position: usize) -> String {
    lifted.functions[position].display().to_string()
}
