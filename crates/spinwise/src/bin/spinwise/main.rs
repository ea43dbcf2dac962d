//! The `spinwise` command: data on standard output, messages on standard error, an exit code for each kind of end.

mod args;
mod compile;
mod exit;
mod explain;
mod files;
mod progress;
mod run;
mod settings;
mod values;
mod wast;

use std::process::ExitCode;

use clap::Parser;

use crate::args::{Cli, Command};

fn main() -> ExitCode {
    exit::finish(match Cli::parse().command {
        Command::Compile(args) => compile::compile(&args),
        Command::Run(args) => run::run(&args),
        Command::Explain(args) => explain::explain(&args),
        Command::Wast(args) => wast::wast(&args),
    })
}
