//! What a translation looks like to people and programs: its plan as text and JSON, its CLIF as text.

use std::fmt::Write as _;

use crate::pipeline::{Stage, Translation};

/// The plan as versioned JSON; `docs/REFERENCE.md` has the format.
#[must_use]
pub fn json(translation: &Translation<'_>) -> serde_json::Value {
    spinwise_guard::explain_json(translation.module(), translation.plan(), translation.inlined())
}

/// The plan for people.
#[must_use]
pub fn text(translation: &Translation<'_>) -> String {
    spinwise_guard::explain_text(translation.module(), translation.plan(), translation.inlined())
}

/// All functions as CLIF text, each under a comment with its name: defined functions, then glue.
#[must_use]
pub fn clif(translation: &Translation<'_>) -> String {
    let module = translation.module();
    let names = module.func_names();
    let mut out = String::new();
    for (func, name) in translation.functions(Stage::Guarded).iter().zip(&names[module.imported_functions as usize..]) {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "; {}\n{func}", name.escape_debug());
    }
    for func in translation.glue() {
        let _ = writeln!(out, "; glue\n{func}");
    }
    out
}
