//! Exit codes, and the one place where an error becomes a message and a code.

use std::process::ExitCode;

/// A check failed: an assertion of a spec script, or the guard check of `--verify`.
pub(crate) const FAILED_CHECK: u8 = 1;
/// The command line is wrong.
pub(crate) const USAGE: u8 = 2;
/// The module is malformed, invalid, unsupported, unlinkable, or lacks the export asked for.
pub(crate) const BAD_MODULE: u8 = 65;
/// The input does not exist or cannot be opened.
pub(crate) const NO_INPUT: u8 = 66;
/// Reading or writing failed.
pub(crate) const IO: u8 = 74;
/// `--timeout` passed.
pub(crate) const TIMEOUT: u8 = 124;
/// Ctrl-C.
pub(crate) const INTERRUPTED: u8 = 130;
/// The guest trapped.
pub(crate) const TRAP: u8 = 134;

/// Why the command ends, other than by success: a code and what to say on standard error.
#[derive(Debug)]
pub(crate) struct Failure {
    /// One of the codes above, or the guest's own.
    pub(crate) code: u8,
    /// Lines for standard error; empty to say nothing.
    pub(crate) message: String,
}

impl Failure {
    /// A failure with a message.
    pub(crate) fn new(code: u8, message: impl ToString) -> Self {
        Self { code, message: message.to_string() }
    }
}

impl From<spinwise::Error> for Failure {
    fn from(error: spinwise::Error) -> Self {
        let code = match &error {
            spinwise::Error::Guard(_) | spinwise::Error::Boundary(_) => FAILED_CHECK,
            spinwise::Error::Threads(_) => IO,
            spinwise::Error::Emit(error) if wrong_target(error) => USAGE,
            spinwise::Error::Text(_) | spinwise::Error::Lift(_) | spinwise::Error::Emit(_) => BAD_MODULE,
        };
        Self::new(code, error)
    }
}

/// Whether an error is about the target that the command line names, not about the module.
fn wrong_target(error: &spinwise::EmitError) -> bool {
    use spinwise::EmitError::{MalformedTriple, NativeElsewhere, Target, UnsupportedTarget};
    matches!(error, MalformedTriple { .. } | UnsupportedTarget { .. } | NativeElsewhere { .. } | Target { .. })
}

/// Ends the command.
pub(crate) fn finish(result: Result<(), Failure>) -> ExitCode {
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(Failure { code, message }) => {
            if !message.is_empty() {
                say(&format!("spinwise: {message}"));
            }
            ExitCode::from(code)
        }
    }
}

/// Writes a line to standard error. A closed standard error is no reason to die.
pub(crate) fn say(line: &str) {
    use std::io::Write;
    let _ = writeln!(std::io::stderr(), "{line}");
}
