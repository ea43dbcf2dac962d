//! How running a guest fails: one error type, with a trap as a value.
//!
//! Errors clone cheaply, since one thread's failure becomes the answer of every thread that it ends.

use std::fmt;
use std::sync::Arc;

use spinwise_model::module::printable;
use spinwise_model::trap::TrapCode;

use crate::exception::Exception;

/// What ended a call.
#[derive(Clone, Debug, thiserror::Error)]
pub enum Error {
    /// Guest code trapped.
    #[error(transparent)]
    Trap(Arc<Trap>),
    /// Guest code threw an exception and did not catch it, or a host function throws one.
    #[error(transparent)]
    Exception(Exception),
    /// Imports do not fit the module.
    #[error(transparent)]
    Link(#[from] LinkError),
    /// The guest asked to exit with this code.
    #[error("exit with code {0}")]
    Exit(i32),
    /// A host function failed.
    #[error("host function failed: {0}")]
    Host(Arc<dyn std::error::Error + Send + Sync>),
    /// The machine or a limit does not allow it.
    #[error("{0}")]
    Resource(String),
    /// The call itself is wrong: no such export, other parameters, another store's object.
    #[error("{0}")]
    Usage(String),
}

impl Error {
    /// A host function's own error.
    pub fn host(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Host(Arc::from(error.into()))
    }

    /// The trap, if it is one.
    #[must_use]
    pub fn trap(&self) -> Option<&Trap> {
        match self {
            Self::Trap(trap) => Some(trap),
            _ => None,
        }
    }

    /// The exception, if it is one.
    #[must_use]
    pub fn exception(&self) -> Option<&Exception> {
        match self {
            Self::Exception(exception) => Some(exception),
            _ => None,
        }
    }
}

impl From<Exception> for Error {
    fn from(exception: Exception) -> Self {
        Self::Exception(exception)
    }
}

impl From<TrapCode> for Error {
    fn from(code: TrapCode) -> Self {
        Self::Trap(Arc::new(Trap { code, thread: 0, frames: Vec::new() }))
    }
}

impl From<Trap> for Error {
    fn from(trap: Trap) -> Self {
        Self::Trap(Arc::new(trap))
    }
}

impl From<OutOfBounds> for Error {
    fn from(_: OutOfBounds) -> Self {
        TrapCode::MemoryOutOfBounds.into()
    }
}

/// A host's access to guest memory was out of bounds.
#[derive(Clone, Copy, PartialEq, Eq, Debug, thiserror::Error)]
#[error("out of bounds memory access")]
pub struct OutOfBounds;

/// An import that cannot be linked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LinkError {
    /// First name of the import.
    pub module: String,
    /// Second name of the import.
    pub field: String,
    /// What is wrong with it.
    pub kind: LinkErrorKind,
}

/// What is wrong with an import.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum LinkErrorKind {
    /// Nothing of that name was offered.
    Unknown,
    /// What was offered has another type: what was expected and what was found.
    Incompatible(String),
}

impl fmt::Display for LinkError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { module, field, kind } = self;
        let (module, field) = (printable(module), printable(field));
        match kind {
            LinkErrorKind::Unknown => write!(f, "unknown import: {module}.{field}"),
            LinkErrorKind::Incompatible(why) => write!(f, "incompatible import type: {module}.{field}: {why}"),
        }
    }
}

impl std::error::Error for LinkError {}

/// Why and where guest code stopped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Trap {
    /// Why.
    pub code: TrapCode,
    /// The guest thread: 0 for the first one, else its identifier.
    pub thread: u32,
    /// The guest functions that were active, innermost first. Empty where no guest code ran (an active segment out of
    /// bounds). At most [`Trap::MAX_FRAMES`].
    pub frames: Vec<Frame>,
}

/// One active guest function.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Frame {
    /// Its name: the name section's, else its export name, else `func[N]`.
    pub function: String,
    /// Its index in the module's function index space.
    pub index: u32,
    /// Byte offset of the operator in the module; `None` where it is not known.
    pub wasm_offset: Option<u32>,
}

impl Trap {
    /// Frames kept of a deeper stack.
    pub const MAX_FRAMES: usize = 64;
}

impl fmt::Display for Trap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.code)?;
        if let Some(frame) = self.frames.first() {
            write!(f, ": {frame}")?;
        }
        Ok(())
    }
}

impl fmt::Display for Frame {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&printable(&self.function))?;
        match self.wasm_offset {
            Some(offset) => write!(f, " (wasm offset 0x{offset:x})"),
            None => Ok(()),
        }
    }
}

impl std::error::Error for Trap {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trap_names_reason_function_and_offset() {
        let frame = Frame { function: "spin".into(), index: 3, wasm_offset: Some(0x2b) };
        let trap = Trap { code: TrapCode::Unreachable, thread: 0, frames: vec![frame] };
        assert_eq!(Error::from(trap).to_string(), "unreachable: spin (wasm offset 0x2b)");
        assert_eq!(Error::from(TrapCode::MemoryOutOfBounds).to_string(), "out of bounds memory access");
    }

    #[test]
    fn link_errors_begin_with_the_specification_s_words() {
        let error = |kind| Error::from(LinkError { module: "env".into(), field: "f".into(), kind }).to_string();
        assert!(error(LinkErrorKind::Unknown).starts_with("unknown import"));
        assert!(error(LinkErrorKind::Incompatible("…".into())).starts_with("incompatible import type"));
    }
}
