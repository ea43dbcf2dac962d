//! The targets to compile for.

use cranelift_codegen::isa::{OwnedTargetIsa, lookup_by_name};
use cranelift_codegen::settings::{self, Configurable};
use spinwise_lift::{Config, Features, Relaxed};

/// A target with all that its CPU must have beyond the triple's least.
pub(crate) const ALL: &[(&str, &[&str])] = &[
    ("x86_64-unknown-linux-gnu", &[]),
    ("x86_64-unknown-linux-gnu", &["sse41"]),
    ("x86_64-unknown-linux-gnu", &["haswell"]),
    ("x86_64-unknown-linux-gnu", &["icelake-server"]),
    ("x86_64-apple-darwin", &[]),
    ("x86_64-pc-windows-msvc", &[]),
    ("aarch64-unknown-linux-gnu", &[]),
    ("aarch64-apple-darwin", &[]),
    ("s390x-unknown-linux-gnu", &[]),
    ("riscv64gc-unknown-linux-gnu", &["has_v"]),
];

/// Optimisation levels that the product has.
pub(crate) const LEVELS: [&str; 2] = ["none", "speed"];

/// A target as the product configures it.
pub(crate) fn target(triple: &str, features: &[&str], level: &str) -> OwnedTargetIsa {
    let mut builder = lookup_by_name(triple).expect("a supported target");
    for feature in features {
        builder.enable(feature).expect("a feature of the target");
    }
    builder.finish(flags(level)).expect("consistent flags")
}

/// This machine, with what its CPU has or with the least of its kind.
pub(crate) fn host(all_features: bool, level: &str) -> OwnedTargetIsa {
    let builder = cranelift_native::builder_with_options(all_features).expect("a supported host");
    builder.finish(flags(level)).expect("consistent flags")
}

/// What lifting must know about a target.
pub(crate) fn config(isa: &OwnedTargetIsa) -> Config {
    let convention = isa.default_call_conv();
    Config {
        frontend: isa.frontend_config(),
        host_call_conv: convention,
        thunk_call_conv: convention,
        features: Features::default(),
        relaxed: Relaxed::fast(&**isa),
    }
}

fn flags(level: &str) -> settings::Flags {
    let mut flags = settings::builder();
    let values = [
        ("opt_level", level),
        ("is_pic", "false"),
        ("preserve_frame_pointers", "true"),
        ("enable_multi_ret_implicit_sret", "true"),
        ("regalloc_checker", "true"),
    ];
    for (name, value) in values {
        flags.set(name, value).expect("a known setting");
    }
    settings::Flags::new(flags)
}
