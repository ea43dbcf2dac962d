//! Spec scripts that are too regular to be written out: one assertion for each access, width, kind of memory and place.
//!
//! They are text like any other script; `SPINWISE_SCRIPTS=FOLDER` makes the test that runs them write them there first.

/// Appends a line to a text.
macro_rules! line {
    ($out:expr, $($text:tt)*) => { writeln!($out, $($text)*).expect("a string") };
}

mod copies;
mod ends;
mod kinds;
mod narrow;
mod offsets;

/// All of them: name and text.
#[must_use]
pub fn all() -> Vec<(String, String)> {
    let all = [
        ("memory_ends", ends::script()),
        ("memory_offsets", offsets::script()),
        ("memory_copies", copies::script()),
        ("narrow_atomics", narrow::script()),
    ];
    all.into_iter().map(|(name, text)| (format!("{name}.wast"), text)).collect()
}
