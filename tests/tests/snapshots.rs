//! For every fixture: its CLIF, loop forest, plan and guarded CLIF, as snapshots beside it.
//!
//! Drop in a `.wat`, run with `INSTA_UPDATE=always`, review.

use std::fmt::Write as _;
use std::fs;

use cranelift_codegen::ir;
use spinwise::Config;
use spinwise::pipeline::{self, Stage};

/// The fixtures that have snapshots; those in `reject` and `guests` are not text modules that translate.
const FOLDERS: &[&str] = &["fixtures/lift", "fixtures/loops", "fixtures/guard", "fixtures/run"];

/// Snapshots are the same on every machine: a fixed target, no host features, the same number of everything.
fn config() -> Config {
    Config {
        target: Some("x86_64-unknown-linux-gnu".to_owned()),
        cpu: spinwise::config::Cpu::Baseline,
        verify: true,
        ..Config::default()
    }
}

fn clif(functions: &[ir::Function]) -> String {
    functions.iter().fold(String::new(), |mut out, func| {
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{func}");
        out
    })
}

/// The loops of each function's final code: header, depth, latches, size.
fn forest(plan: &spinwise_guard::Plan) -> String {
    let mut out = String::new();
    for function in &plan.functions {
        let _ = writeln!(out, "function {}", function.function);
        for natural in &function.loops {
            let latches: Vec<_> = natural.latches.iter().map(|latch| format!("block{latch}")).collect();
            let indent = "  ".repeat(natural.depth as usize);
            let kind = if natural.irreducible { "cycle cut at" } else { "loop" };
            let _ = writeln!(
                out,
                "{indent}{kind} block{} at 0x{:x}: back from {}; {} values",
                natural.header,
                natural.header_offset,
                latches.join(", "),
                natural.size
            );
        }
    }
    out
}

#[test]
fn fixtures_are_as_they_were() {
    let mut settings = insta::Settings::clone_current();
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    let mut seen = 0;
    for path in FOLDERS.iter().flat_map(|folder| tests::files(folder, "wat")) {
        let name = path.file_stem().and_then(|s| s.to_str()).expect("a UTF-8 name").to_owned();
        settings.set_snapshot_path(path.parent().expect("a folder").join("snapshots"));
        settings.set_input_file(&path);
        let wasm = spinwise::binary_form(fs::read(&path).expect("readable")).expect("well-formed text");
        let translation = pipeline::translate(&wasm, &config()).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
        let plan = spinwise::explain_json(&translation);
        let plan = serde_json::to_string_pretty(&plan).expect("JSON");
        settings.bind(|| {
            insta::assert_snapshot!(format!("{name}.lifted"), clif(&translation.functions(Stage::Lifted)));
            insta::assert_snapshot!(format!("{name}.loops"), forest(translation.plan()));
            insta::assert_snapshot!(format!("{name}.plan"), plan);
            insta::assert_snapshot!(format!("{name}.guarded"), clif(&translation.functions(Stage::Guarded)));
        });
        seen += 1;
    }
    assert!(seen >= 25, "only {seen} fixtures");
}
