//! The `spinwise` command.
fn main() {}
