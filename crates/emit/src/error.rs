//! What can go wrong between CLIF and machine code, a line each.

use cranelift_codegen::CodegenError;

/// Why no code came out. Every message is one line and names the function or target it is about.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The target triple cannot be read.
    #[error("malformed target triple `{triple}`: {reason}")]
    MalformedTriple {
        /// As given.
        triple: String,
        /// What is wrong with it.
        reason: String,
    },
    /// The target is none of [`crate::isa::SUPPORTED`].
    #[error("unsupported target `{triple}`: supported are {}", crate::isa::SUPPORTED.join(", "))]
    UnsupportedTarget {
        /// As given.
        triple: String,
    },
    /// [`crate::isa::Cpu::Native`] for another machine than this one.
    #[error("the native CPU is the one of this machine: it says nothing about target `{triple}`")]
    NativeElsewhere {
        /// As given.
        triple: String,
    },
    /// The code generator refused the target's settings, or this machine's CPU.
    #[error("target `{triple}`: {reason}")]
    Target {
        /// As given.
        triple: String,
        /// What it said.
        reason: String,
    },
    /// A function could not be compiled.
    #[error("function `{function}`: {reason}")]
    Compile {
        /// Its symbol.
        function: String,
        /// Why.
        reason: String,
    },
    /// Compiled code refers to a function that is not there, or that is there twice. Always a bug of an earlier stage.
    #[error("function `{function}`: {reason}")]
    Link {
        /// The symbol of the function that refers to it, or that is missing.
        function: String,
        /// What is missing or doubled.
        reason: String,
    },
    /// The code is for another machine than this one, so that it can be written to a file but not run.
    #[error("code for target `{triple}` cannot run on this machine")]
    ForeignCode {
        /// The target.
        triple: String,
    },
    /// No executable memory.
    #[error("cannot place code in memory: {0}")]
    Memory(String),
    /// The object file could not be written.
    #[error("cannot write the object: {0}")]
    Object(String),
}

impl Error {
    /// What the code generator said about a function, in one line.
    pub(crate) fn compile(function: &str, error: &CodegenError) -> Self {
        let reason = match error {
            CodegenError::ImplLimitExceeded => "too large for the code generator (implementation limit)".to_owned(),
            CodegenError::CodeTooLarge => "too large for the code generator (machine code limit)".to_owned(),
            CodegenError::Unsupported(what) => {
                format!("not supported on this target: {}", what.lines().next().unwrap_or_default())
            }
            CodegenError::Verifier(errors) => {
                let first = errors.0.first().map(ToString::to_string).unwrap_or_default();
                format!("invalid intermediate code, always a bug: {first}")
            }
            other => format!("code generation failed: {}", other.to_string().lines().next().unwrap_or_default()),
        };
        Self::Compile { function: function.to_owned(), reason }
    }
}
