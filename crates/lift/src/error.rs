//! Why a module cannot be lifted, in one line: what, where, and what to do about it.

use std::fmt;

/// Why a module was rejected. Its text is one line: what is wrong, in which function, at which offset, what to do.
#[derive(Clone, PartialEq, Eq, Debug, thiserror::Error)]
pub enum Error {
    /// The bytes are not a WebAssembly module's.
    #[error("malformed module: {message}{}; the file is damaged or its producer faulty", Place(function.as_deref(), *offset))]
    Malformed {
        /// What is wrong.
        message: String,
        /// The function whose body is at fault.
        function: Option<String>,
        /// Where, in bytes from the start of the module.
        offset: u64,
    },
    /// The module breaks a rule of WebAssembly.
    #[error("invalid module: {message}{}; its producer is faulty", Place(function.as_deref(), *offset))]
    Invalid {
        /// Which rule.
        message: String,
        /// The function whose body is at fault.
        function: Option<String>,
        /// Where, in bytes from the start of the module.
        offset: u64,
    },
    /// The module needs a feature that is not supported.
    #[error("unsupported feature: {feature}{}; rebuild the module without it", Place(function.as_deref(), *offset))]
    Unsupported {
        /// The feature.
        feature: String,
        /// The function that needs it.
        function: Option<String>,
        /// Where it is needed first, in bytes from the start of the module.
        offset: u64,
    },
    /// The module needs a feature that the configuration excludes.
    #[error("feature switched off: {feature}{}; allow `{name}` among the features", Place(function.as_deref(), *offset))]
    SwitchedOff {
        /// The feature.
        feature: String,
        /// What it is called in lists of features.
        name: &'static str,
        /// The function that needs it.
        function: Option<String>,
        /// Where it is needed first, in bytes from the start of the module.
        offset: u64,
    },
    /// The module is larger than what is supported.
    #[error("module too large: {limit}{}; split it", Place(function.as_deref(), *offset))]
    Limit {
        /// The limit that it exceeds.
        limit: String,
        /// The function that exceeds it.
        function: Option<String>,
        /// Where, in bytes from the start of the module.
        offset: u64,
    },
}

impl Error {
    /// Where the module is at fault, in bytes from its start.
    #[must_use]
    pub const fn offset(&self) -> u64 {
        match self {
            Self::Malformed { offset, .. }
            | Self::Invalid { offset, .. }
            | Self::Unsupported { offset, .. }
            | Self::SwitchedOff { offset, .. }
            | Self::Limit { offset, .. } => *offset,
        }
    }

    /// The function that is at fault, if a body is.
    #[must_use]
    pub fn function(&self) -> Option<&str> {
        match self {
            Self::Malformed { function, .. }
            | Self::Invalid { function, .. }
            | Self::Unsupported { function, .. }
            | Self::SwitchedOff { function, .. }
            | Self::Limit { function, .. } => function.as_deref(),
        }
    }
}

/// Where: a function, whose name may hold any character, and an offset.
struct Place<'a>(Option<&'a str>, u64);

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(function) = self.0 {
            write!(f, " in function {}", function.escape_debug())?;
        }
        write!(f, " (wasm offset {:#x})", self.1)
    }
}
