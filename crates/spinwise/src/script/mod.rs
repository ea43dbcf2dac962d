//! WebAssembly spec scripts (`.wast`): modules, invocations and assertions, run through the whole pipeline.
//!
//! `assert_trap` compares trap codes, not text. Every assertion that is not run is listed in [`Report::skipped`] with its reason.

mod expect;
mod runner;
mod spectest;
mod values;

use std::fmt;

use wast::Wast;
use wast::parser::{self, ParseBuffer};

use crate::config::Config;

/// What a script came to.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Assertions that held.
    pub passed: usize,
    /// Assertions and other directives that did not do what the script says.
    pub failed: Vec<Finding>,
    /// Assertions that were not tried.
    pub skipped: Vec<Finding>,
}

/// One directive worth a line.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Finding {
    /// Line in the script, from 1.
    pub line: usize,
    /// What went wrong, or why it was skipped.
    pub message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "line {}: {}", self.line, self.message)
    }
}

impl Report {
    /// Adds another script's counts.
    pub fn add(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed.extend(other.failed);
        self.skipped.extend(other.skipped);
    }
}

/// Runs a script.
///
/// # Errors
/// If its text cannot be parsed: the message has line and column.
pub fn run(text: &str, config: &Config) -> Result<Report, String> {
    let message = |mut error: wast::Error| {
        error.set_text(text);
        crate::input::one_line(&error.to_string())
    };
    let mut lexer = wast::lexer::Lexer::new(text);
    // Scripts about names hold characters that look alike on purpose.
    lexer.allow_confusing_unicode(true);
    let buffer = ParseBuffer::new_with_lexer(lexer).map_err(message)?;
    let script: Wast<'_> = parser::parse(&buffer).map_err(message)?;
    Ok(runner::run(script, text, config))
}
