//! Measures Spinwise beside what it replaces: `cargo run --release -p spinwise-benches -- NAME [--json] [--quick]`.
//!
//! Arms are interleaved in one run and compared as paired ratios; medians are printed, since these machines are noisy.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a program whose output is its result")]

mod barrier;
mod child;
mod compile;
mod cost;
mod stats;

use std::process::ExitCode;

use clap::{Parser, ValueEnum};

/// A benchmark of Spinwise.
#[derive(Parser)]
struct Cli {
    /// Which one
    name: Name,
    /// Print one JSON object instead of a table
    #[arg(long)]
    json: bool,
    /// Fewer samples
    #[arg(long)]
    quick: bool,
}

#[derive(Clone, Copy, ValueEnum)]
enum Name {
    /// The team guest's regions, guarded against unguarded, threads beyond and within the cores
    Barrier,
    /// Translation time and peak memory of a large module, beside Wasmtime's where it can be had
    Compile,
    /// Seven computing kernels in each guard mode, beside Wasmtime with and without epoch checks
    Cost,
}

fn main() -> ExitCode {
    let cli = Cli::parse();
    let result = match cli.name {
        Name::Barrier => barrier::run(cli.quick),
        Name::Compile => compile::run(cli.quick),
        Name::Cost => cost::run(cli.quick),
    };
    match result {
        Ok(report) if cli.json => println!("{}", report.json()),
        Ok(report) => print!("{}", report.text()),
        Err(message) => {
            eprintln!("spinwise-benches: {message}");
            return ExitCode::FAILURE;
        }
    }
    ExitCode::SUCCESS
}
