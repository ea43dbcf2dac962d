//! Translation of a large published module: time and peak memory of `spinwise compile`, beside `wasmtime compile`.
//!
//! Both are fetched by `fixtures/guests/published.sh` into `target/`; what is not there is not measured, and said so.

use std::path::{Path, PathBuf};
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
    let module = child::root().join("target/published/ort-wasm-simd-threaded.wasm");
    let mut report = Report { title: format!("compile {}", module.display()), ..Report::default() };
    if !module.exists() {
        report.missing.push(String::from("the module: run fixtures/guests/published.sh first"));
        return Ok(report);
    }
    let wasmtime: PathBuf = child::root().join("target/peers/wasmtime-48/wasmtime");
    let have_peer = wasmtime.exists();
    if !have_peer {
        report.missing.push(format!("wasmtime: no {}", wasmtime.display()));
    }
    let input = module.to_str().ok_or("a path that is not UTF-8")?;
    let (mut ours, mut theirs) = ((Vec::new(), Vec::new()), (Vec::new(), Vec::new()));
    for _ in 0..if quick { 1 } else { 3 } {
        let (seconds, mib) = sample(&spinwise, &["compile", input, "-o", "/dev/null"])?;
        ours.0.push(seconds);
        ours.1.push(mib);
        if have_peer {
            let (seconds, mib) =
                sample(&wasmtime, &["compile", "-W", "threads=y,shared-memory=y", input, "-o", "/dev/null"])?;
            theirs.0.push(seconds);
            theirs.1.push(mib);
        }
    }
    if have_peer {
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
