//! Which of the results that relaxed SIMD allows a target gives.

use cranelift_codegen::isa::TargetIsa;

/// What relaxed SIMD operators become: for each fact that holds they take the faster way. The results are then those of the
/// instructions in question, the same for the same operands on each call.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Relaxed {
    /// x86: truncation gives the least number for what does not fit, minimum and maximum give the first operand where one
    /// is NaN or both are zero.
    pub x86: bool,
    /// x86 with SSSE3: swizzles, rounding multiplications and byte products in one instruction.
    pub ssse3: bool,
    /// x86 with SSE4.1: lanes are selected by their highest bits.
    pub sse41: bool,
    /// Products are added to before they are rounded.
    pub fma: bool,
}

impl Relaxed {
    /// The results of the specification's deterministic profile, on every target.
    pub const DETERMINISTIC: Self = Self { x86: false, ssse3: false, sse41: false, fma: false };

    /// The results that the target computes fastest.
    #[must_use]
    pub fn fast(isa: &dyn TargetIsa) -> Self {
        let has = |name: &str| isa.isa_flags().iter().any(|flag| flag.name == name && flag.as_bool() == Some(true));
        match isa.name() {
            "x64" => Self {
                x86: true,
                ssse3: has("has_ssse3"),
                sse41: has("has_sse41"),
                fma: has("has_avx") && has("has_fma"),
            },
            // Vectors come with a fused multiplication there.
            "aarch64" | "s390x" | "riscv64" => Self { fma: true, ..Self::DETERMINISTIC },
            _ => Self::DETERMINISTIC,
        }
    }
}
