//! What to compile for: a target and its flags become Cranelift's description of a machine.
//!
//! Invariant: a baseline build depends on the target triple alone, never on the machine it runs on; only
//! [`Cpu::Native`] looks at the host.

use cranelift_codegen::isa::{self, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable};
use target_lexicon::{Architecture, BinaryFormat, Environment, OperatingSystem, Triple};

use crate::error::Error;

/// The targets that compile, as they are named in messages; other environments of the same system (musl) do as well.
pub const SUPPORTED: &[&str] = &[
    "x86_64-unknown-linux-gnu",
    "aarch64-unknown-linux-gnu",
    "riscv64gc-unknown-linux-gnu",
    "s390x-unknown-linux-gnu",
    "x86_64-apple-darwin",
    "aarch64-apple-darwin",
    "x86_64-pc-windows-msvc",
];

/// How much work to spend on the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum OptLevel {
    /// Compile fast.
    None,
    /// Run fast.
    #[default]
    Speed,
    /// Run fast, where it does not cost code size.
    Size,
}

/// Which CPU of the target's architecture must be able to run the code.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Cpu {
    /// Every one.
    #[default]
    Baseline,
    /// The one of this machine, with all its features.
    Native,
}

/// What to compile for.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Target {
    /// Target triple; `None`: this machine's.
    pub triple: Option<String>,
    /// CPU.
    pub cpu: Cpu,
    /// Optimisation.
    pub opt: OptLevel,
    /// Whether plain loads may be merged and forwarded. Must be off for code that loads from shared memory.
    pub alias_analysis: bool,
    /// Whether Cranelift checks each function before and between its passes: slow, finds bugs of earlier stages.
    pub verifier: bool,
}

impl Default for Target {
    /// Baseline code for this machine, optimised for speed, safe for shared memory.
    fn default() -> Self {
        Self {
            triple: None,
            cpu: Cpu::Baseline,
            opt: OptLevel::Speed,
            alias_analysis: false,
            verifier: cfg!(debug_assertions),
        }
    }
}

/// The machine description for a target; `pic` for code that a linker will place, not for code that is loaded in
/// this process.
///
/// # Errors
/// If the triple cannot be read or is not supported, or the CPU asked for is not of the target.
pub fn isa(target: &Target, pic: bool) -> Result<OwnedTargetIsa, Error> {
    let triple = triple(target)?;
    let name = triple.to_string();
    let failed = |reason: String| Error::Target { triple: name.clone(), reason };

    let mut builder = isa::lookup(triple.clone()).map_err(|error| failed(error.to_string()))?;
    if target.cpu == Cpu::Native {
        let host = Triple::host();
        if (triple.architecture, triple.operating_system) != (host.architecture, host.operating_system) {
            return Err(Error::NativeElsewhere { triple: name });
        }
        cranelift_native::infer_native_flags(&mut builder).map_err(|reason| failed(reason.to_owned()))?;
    }

    let mut flags = settings::builder();
    let on = |enabled: bool| if enabled { "true" } else { "false" };
    let level = match target.opt {
        OptLevel::None => "none",
        OptLevel::Speed => "speed",
        OptLevel::Size => "speed_and_size",
    };
    for (flag, value) in [
        ("opt_level", level),
        ("is_pic", on(pic)),
        ("enable_alias_analysis", on(target.alias_analysis)),
        ("enable_verifier", on(target.verifier)),
        // Profilers and backtraces walk guest frames by them.
        ("preserve_frame_pointers", "true"),
        ("unwind_info", "true"),
        // More results than registers is ordinary in wasm.
        ("enable_multi_ret_implicit_sret", "true"),
        // A frame larger than a guard page must touch each page of itself.
        ("enable_probestack", "true"),
        ("probestack_strategy", "inline"),
    ] {
        flags.set(flag, value).map_err(|error| failed(format!("flag `{flag}`: {error}")))?;
    }
    builder.finish(settings::Flags::new(flags)).map_err(|error| failed(error.to_string()))
}

/// The triple of a target, if it is supported.
fn triple(target: &Target) -> Result<Triple, Error> {
    let (triple, name) = match &target.triple {
        None => (Triple::host(), Triple::host().to_string()),
        Some(name) => {
            let triple: Triple = name.parse().map_err(|error: target_lexicon::ParseError| Error::MalformedTriple {
                triple: name.clone(),
                reason: error.to_string(),
            })?;
            (triple, name.clone())
        }
    };
    let supported = match (triple.operating_system, triple.binary_format) {
        (OperatingSystem::Linux, BinaryFormat::Elf) => match triple.architecture {
            Architecture::X86_64 => triple.environment != Environment::Gnux32,
            Architecture::Aarch64(_) => triple.endianness() == Ok(target_lexicon::Endianness::Little),
            Architecture::Riscv64(_) | Architecture::S390x => true,
            _ => false,
        },
        (OperatingSystem::Darwin(_) | OperatingSystem::MacOSX(_), BinaryFormat::Macho) => {
            matches!(triple.architecture, Architecture::X86_64 | Architecture::Aarch64(_))
        }
        (OperatingSystem::Windows, BinaryFormat::Coff) => triple.architecture == Architecture::X86_64,
        _ => false,
    };
    if supported { Ok(triple) } else { Err(Error::UnsupportedTarget { triple: name }) }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn for_triple(triple: &str) -> Target {
        Target { triple: Some(triple.to_owned()), ..Target::default() }
    }

    #[test]
    fn every_supported_target_has_an_isa() {
        for triple in SUPPORTED {
            for pic in [false, true] {
                let isa = isa(&for_triple(triple), pic).expect(triple);
                assert!(isa.flags().preserve_frame_pointers(), "{triple}");
                assert_eq!(isa.flags().is_pic(), pic, "{triple}");
            }
        }
    }

    #[test]
    fn other_targets_are_refused_by_name() {
        for triple in [
            "aarch64-pc-windows-msvc",
            "i686-unknown-linux-gnu",
            "armv7-unknown-linux-gnueabihf",
            "x86_64-unknown-freebsd",
            "x86_64-unknown-linux-gnux32",
            "aarch64_be-unknown-linux-gnu",
            "riscv64gc-apple-darwin",
            "wasm32-wasip1",
            "pulley64",
        ] {
            let error = isa(&for_triple(triple), true).err().expect(triple);
            let text = error.to_string();
            assert!(matches!(error, Error::UnsupportedTarget { .. }), "{text}");
            assert!(text.contains(triple) && text.contains("s390x-unknown-linux-gnu"), "{text}");
            assert!(!text.contains('\n'), "{text}");
        }
    }

    #[test]
    fn nonsense_is_refused() {
        let error = isa(&for_triple("no such thing"), true).err().expect("nonsense");
        assert!(matches!(error, Error::MalformedTriple { .. }), "{error}");
    }

    #[test]
    fn baseline_ignores_the_host_and_native_is_only_for_it() {
        let baseline = isa(&Target::default(), false).expect("host");
        let spelled = isa(&for_triple(&Triple::host().to_string()), false).expect("host");
        let flags = |isa: &OwnedTargetIsa| isa.isa_flags().iter().map(ToString::to_string).collect::<Vec<_>>();
        assert_eq!(flags(&baseline), flags(&spelled));
        let bare = isa::lookup(Triple::host()).expect("host").finish(settings::Flags::new(settings::builder()));
        assert_eq!(flags(&baseline), flags(&bare.expect("host")));

        let elsewhere = SUPPORTED.iter().find(|t| !t.starts_with(std::env::consts::ARCH)).expect("several");
        let error = isa(&Target { cpu: Cpu::Native, ..for_triple(elsewhere) }, true).err().expect("foreign");
        assert!(matches!(error, Error::NativeElsewhere { .. }), "{error}");
    }

    #[cfg(target_arch = "x86_64")]
    #[test]
    fn native_uses_what_the_host_has() {
        let native = isa(&Target { cpu: Cpu::Native, ..Target::default() }, false).expect("host");
        let has_avx = native.isa_flags().iter().any(|flag| flag.name == "has_avx" && flag.as_bool() == Some(true));
        assert_eq!(has_avx, std::is_x86_feature_detected!("avx"));
    }
}
