//! How a module is to be translated: resolved settings, with no trace of the flags they came from.

pub use spinwise_emit::{Cpu, OptLevel};
pub use spinwise_guard::Mode as GuardMode;
pub use spinwise_lift::Features;

/// What relaxed SIMD gives where it has a choice.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum RelaxedSimd {
    /// What the target's CPU level computes fastest: with fused multiplications where it has them.
    #[default]
    Fast,
    /// The same everywhere: what the specification's deterministic profile prescribes.
    Deterministic,
}

/// Settings of one translation. The default is what `spinwise run` uses.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which cycles are guarded.
    pub guard: GuardMode,
    /// Which proposals of WebAssembly modules may use.
    pub features: Features,
    /// What relaxed SIMD gives where it has a choice.
    pub relaxed_simd: RelaxedSimd,
    /// How hard Cranelift tries.
    pub opt: OptLevel,
    /// Target triple; `None` is the host.
    pub target: Option<String>,
    /// Which CPU features the code may use.
    pub cpu: Cpu,
    /// Re-derive the guard's promise from the guarded code, and have Cranelift verify what it is given.
    ///
    /// A debug build of Spinwise does so always.
    pub verify: bool,
    /// Compiler threads; `None`: as many as the machine has. The output does not depend on it.
    pub jobs: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            guard: GuardMode::Spin,
            features: Features::default(),
            relaxed_simd: RelaxedSimd::Fast,
            opt: OptLevel::Speed,
            target: None,
            cpu: Cpu::Native,
            verify: false,
            jobs: None,
        }
    }
}
