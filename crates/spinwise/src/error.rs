//! What can go wrong between bytes and running code: one type, each variant one line for people.

use spinwise_guard::{Problem, Violation};

/// Why a module could not be translated.
#[derive(thiserror::Error, Debug)]
pub enum Error {
    /// The text format could not be parsed.
    #[error("malformed text: {0}")]
    Text(String),
    /// The module is malformed, invalid, unsupported, or beyond a limit.
    #[error(transparent)]
    Lift(#[from] spinwise_lift::Error),
    /// No code could be generated.
    #[error(transparent)]
    Emit(#[from] spinwise_emit::Error),
    /// The checker found a cycle that reads atomically and does not poll: always a bug of Spinwise.
    #[error("the guard check failed: {}", first(.0))]
    Guard(Vec<Violation>),
    /// The checker found a border of guest code that does not poll: always a bug of Spinwise.
    #[error("the guard check failed: an import stub or host entry does not poll: {0:?}")]
    Boundary(Problem),
    /// The compiler's thread pool could not be started.
    #[error("cannot start the compiler's threads: {0}")]
    Threads(#[from] rayon::ThreadPoolBuildError),
}

/// The first violation, and how many there are.
fn first(violations: &[Violation]) -> String {
    match violations {
        [] => String::from("no details"),
        [only] => only.to_string(),
        [first, rest @ ..] => format!("{first} (and {} more)", rest.len()),
    }
}
