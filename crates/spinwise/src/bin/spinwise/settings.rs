//! From flags as typed to resolved settings.

use std::path::Path;

use spinwise::config::{Config, Cpu, GuardMode, OptLevel, RelaxedSimd};

use crate::args::{CpuArg, Guard, Opt, RelaxedSimdArg, TranslationArgs};
use crate::exit::Failure;
use crate::files;

/// The CPU level that a flag asks for.
pub(crate) fn cpu(arg: CpuArg) -> Cpu {
    match arg {
        CpuArg::Baseline => Cpu::Baseline,
        CpuArg::Native => Cpu::Native,
    }
}

/// The settings that translation flags ask for; target and CPU are the host's.
pub(crate) fn config(args: &TranslationArgs) -> Config {
    Config {
        guard: match args.guard {
            Guard::Spin => GuardMode::Spin,
            Guard::All => GuardMode::All,
            Guard::Off => GuardMode::Off,
        },
        opt: match args.opt {
            Opt::None => OptLevel::None,
            Opt::Speed => OptLevel::Speed,
            Opt::Size => OptLevel::Size,
        },
        features: args.features,
        relaxed_simd: match args.relaxed_simd {
            RelaxedSimdArg::Fast => RelaxedSimd::Fast,
            RelaxedSimdArg::Deterministic => RelaxedSimd::Deterministic,
        },
        verify: args.verify,
        jobs: args.jobs.map(usize::from),
        ..Config::default()
    }
}

/// The binary form of an input module.
pub(crate) fn module(path: &Path) -> Result<Vec<u8>, Failure> {
    Ok(spinwise::binary_form(files::read(path)?)?)
}

/// Runs compiler work on as many threads as the settings say.
pub(crate) fn with_jobs<T: Send>(config: &Config, work: impl FnOnce() -> T + Send) -> Result<T, Failure> {
    Ok(spinwise::with_jobs(config.jobs, work)?)
}
