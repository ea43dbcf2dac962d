//! The team guest's regions with guards and without: what a barrier costs when threads outnumber cores, and whether a
//! guard costs anything when they do not.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use crate::child;
use crate::stats::{Arm, Report, paired};

/// Longest a single run may take.
const LIMIT: Duration = Duration::from_secs(120);

/// Nanoseconds a region, as the guest prints them, and its checksum.
fn sample(spinwise: &Path, guard: &str, threads: u32, regions: u32) -> Result<(f64, String), String> {
    let mut command = Command::new(spinwise);
    command.args(["run", "--guard", guard]).arg(child::root().join("fixtures/guests/team.wasm"));
    command.args(["--", &threads.to_string(), &regions.to_string()]);
    let out = child::output(&mut command, LIMIT)?;
    let field = |name: &str| {
        let line = out.lines().find_map(|l| l.strip_prefix(name)).map(str::trim);
        line.map(str::to_owned).ok_or_else(|| format!("the guest printed no {name}"))
    };
    let ns = field("ns/region")?.parse().map_err(|e| format!("ns/region: {e}"))?;
    Ok((ns, field("checksum")?))
}

/// One pair of arms.
struct Pair {
    threads: u32,
    guarded_regions: u32,
    unguarded_regions: u32,
    samples: usize,
}

/// Runs the benchmark.
pub(crate) fn run(quick: bool) -> Result<Report, String> {
    let spinwise = child::spinwise()?;
    let cpus = spinwise_team::cpus::AllowedCpus::read().count();
    let mut report = Report {
        title: format!("team guest, ns a region (a region holds one round of work and its barriers), {cpus} CPUs"),
        ..Report::default()
    };
    let pairs = [
        // An unguarded barrier costs tens of milliseconds here: few regions are enough to see it.
        Pair { threads: 8, guarded_regions: 5000, unguarded_regions: 20, samples: if quick { 3 } else { 9 } },
        Pair { threads: 2, guarded_regions: 20000, unguarded_regions: 20000, samples: if quick { 5 } else { 31 } },
    ];
    for Pair { threads, guarded_regions, unguarded_regions, samples } in pairs {
        let (mut guarded, mut unguarded) = (Vec::new(), Vec::new());
        for turn in 0..samples {
            // A B B A: neither arm always goes first.
            let spin = |out: &mut Vec<f64>| sample(&spinwise, "spin", threads, guarded_regions).map(|s| out.push(s.0));
            let off = |out: &mut Vec<f64>| sample(&spinwise, "off", threads, unguarded_regions).map(|s| out.push(s.0));
            if turn % 2 == 0 {
                spin(&mut guarded)?;
                off(&mut unguarded)?;
            } else {
                off(&mut unguarded)?;
                spin(&mut guarded)?;
            }
        }
        report.ratios.push(paired(format!("unguarded / guarded, {threads} threads"), &unguarded, &guarded));
        let arm = |name: &str, samples| Arm { name: format!("{name}, {threads} threads"), unit: "ns", samples };
        report.arms.push(arm("guarded", guarded));
        report.arms.push(arm("unguarded", unguarded));
    }
    Ok(report)
}
