//! The command line as typed: flags and their legal values, nothing resolved.
//!
//! A flag that is not built yet does not exist here, so that using it is a usage error (exit 2).

use std::ffi::OsString;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Parser, Subcommand, ValueEnum};
use spinwise::config::Features;

/// Translates threaded WebAssembly to native code whose threads can never spin out of reach.
#[derive(Parser, Debug)]
#[command(name = "spinwise", version, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Subcommand, Debug)]
pub(crate) enum Command {
    /// Translate a module to a relocatable object or to guarded CLIF
    Compile(CompileArgs),
    /// Translate a module and run it
    Run(RunArgs),
    /// Show the loops of a module, which of them are guarded, and why
    Explain(ExplainArgs),
    /// Run WebAssembly spec scripts
    Wast(WastArgs),
}

#[derive(Args, Debug)]
pub(crate) struct CompileArgs {
    /// Module, .wasm or .wat; `-` is standard input
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// Where the result goes; `-` is standard output
    #[arg(short, long, value_name = "OUT")]
    pub(crate) output: PathBuf,
    /// What to write
    #[arg(long, value_enum, default_value = "obj")]
    pub(crate) emit: Emit,
    /// Target triple; the host's if not given
    #[arg(long, value_name = "TRIPLE")]
    pub(crate) target: Option<String>,
    /// CPU features that the code may use
    #[arg(long, value_enum, default_value = "baseline")]
    pub(crate) cpu: CpuArg,
    #[command(flatten)]
    pub(crate) translation: TranslationArgs,
}

#[derive(Args, Debug)]
pub(crate) struct RunArgs {
    /// Module, .wasm or .wat; `-` is standard input
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// Give the guest a directory, to read and to change
    #[arg(long, value_name = "HOST[::GUEST]")]
    pub(crate) dir: Vec<String>,
    /// Give the guest a directory in which nothing can be changed
    #[arg(long, value_name = "HOST[::GUEST]")]
    pub(crate) dir_ro: Vec<String>,
    /// Set an environment variable of the guest
    #[arg(long, value_name = "K=V")]
    pub(crate) env: Vec<String>,
    /// Call this export instead of `_start`; ARGS are its parameters, its results are printed one a line
    #[arg(long, value_name = "NAME")]
    pub(crate) invoke: Option<String>,
    /// How guest threads run: `os`, one OS thread each
    #[arg(long, value_enum, default_value = "os")]
    pub(crate) threads: Threads,
    /// End the guest after this time (exit 124)
    #[arg(long, value_name = "DUR", value_parser = duration)]
    pub(crate) timeout: Option<Duration>,
    /// How waiting threads wait; overrides SPINWISE_WAIT_POLICY
    #[arg(long, value_enum)]
    pub(crate) wait_policy: Option<WaitPolicy>,
    #[command(flatten)]
    pub(crate) translation: TranslationArgs,
    /// The guest's arguments
    #[arg(value_name = "ARGS", allow_negative_numbers = true)]
    pub(crate) args: Vec<OsString>,
}

#[derive(Args, Debug)]
pub(crate) struct ExplainArgs {
    /// Module, .wasm or .wat; `-` is standard input
    #[arg(value_name = "IN")]
    pub(crate) input: PathBuf,
    /// Where the result goes; `-` is standard output
    #[arg(short, long, value_name = "OUT", default_value = "-")]
    pub(crate) output: PathBuf,
    /// How to print
    #[arg(long, value_enum, default_value = "text")]
    pub(crate) format: Format,
    #[command(flatten)]
    pub(crate) translation: TranslationArgs,
}

#[derive(Args, Debug)]
pub(crate) struct WastArgs {
    /// Scripts; `-` is standard input
    #[arg(value_name = "FILES", required = true)]
    pub(crate) files: Vec<PathBuf>,
    #[command(flatten)]
    pub(crate) translation: TranslationArgs,
}

/// What all commands that translate understand.
#[derive(Args, Debug)]
pub(crate) struct TranslationArgs {
    /// Which cycles poll: those that read shared memory atomically, all, or none
    #[arg(long, value_enum, default_value = "spin")]
    pub(crate) guard: Guard,
    /// Proposals of WebAssembly that modules may use: names, `-` before one to exclude it; `all`, `none`, `wasm2`, `wasm3`
    #[arg(long, value_name = "LIST", default_value = "all", value_parser = Features::parse, allow_hyphen_values = true)]
    pub(crate) features: Features,
    /// What relaxed SIMD gives where it has a choice
    #[arg(long, value_enum, default_value = "fast", value_name = "CHOICE")]
    pub(crate) relaxed_simd: RelaxedSimdArg,
    /// How hard to optimise
    #[arg(short = 'O', value_enum, default_value = "speed", value_name = "LEVEL")]
    pub(crate) opt: Opt,
    /// Check the guarded code with a second, independent analysis (exit 1 if it fails)
    #[arg(long)]
    pub(crate) verify: bool,
    /// Compiler threads; the output does not depend on it
    #[arg(short, long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..))]
    pub(crate) jobs: Option<u16>,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum Emit {
    /// Relocatable object
    Obj,
    /// Guarded CLIF, as text
    Clif,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum CpuArg {
    /// What every CPU of the target has
    Baseline,
    /// What this machine has
    Native,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum Threads {
    /// One OS thread each
    Os,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum WaitPolicy {
    /// Park at once
    Passive,
    /// Spin for longer, still bounded
    Active,
    /// Spin for as long as it pays
    Hybrid,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum Guard {
    /// Cycles that read shared memory atomically
    Spin,
    /// Every cycle and every recursion
    All,
    /// None
    Off,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum RelaxedSimdArg {
    /// What the CPU computes fastest
    Fast,
    /// The same on every CPU: what the specification's deterministic profile prescribes
    Deterministic,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum Opt {
    /// Compile fast
    None,
    /// Run fast
    Speed,
    /// Run fast, and be small
    Size,
}

#[derive(ValueEnum, Clone, Copy, Debug)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For programs: stable and versioned
    Json,
}

/// Parses a number with one of the units `ns us ms s m`.
pub(crate) fn duration(text: &str) -> Result<Duration, String> {
    let wrong = || format!("`{text}` is not a duration: write a number with ns, us, ms, s or m, such as 500ms");
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(wrong)?;
    let (number, unit) = text.split_at(digits);
    let seconds = match unit {
        "ns" => 1e-9,
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" => 60.0,
        _ => return Err(wrong()),
    };
    let number: f64 = number.parse().map_err(|_| wrong())?;
    Duration::try_from_secs_f64(number * seconds).map_err(|_| wrong())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_grammar_is_consistent() {
        use clap::CommandFactory;
        Cli::command().debug_assert();
    }

    #[test]
    fn durations_need_a_unit() {
        assert_eq!(duration("500ms"), Ok(Duration::from_millis(500)));
        assert_eq!(duration("1.5s"), Ok(Duration::from_millis(1500)));
        assert_eq!(duration("2m"), Ok(Duration::from_secs(120)));
        assert_eq!(duration("7us"), Ok(Duration::from_micros(7)));
        for wrong in ["", "5", "ms", "-1s", "5 s", "5h", "1e400s", "1.2.3s", "99999999999999999999m"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }
}
