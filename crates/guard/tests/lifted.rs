//! The text fixtures, lifted but not inlined: every plan holds, every guard left out is caught, and the answers that must
//! not change.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::path::PathBuf;

use cranelift_codegen::isa::CallConv;
use spinwise_guard::{Mode, check_boundary, explain_json, insert_boundary_poll};
use spinwise_lift::{Config, Lifted};
use spinwise_model::symbol::BORDER;
use support::{Program, isa, summary};

fn lift(wat: &str) -> Lifted {
    let isa = isa("x86_64");
    let config = Config {
        frontend: isa.frontend_config(),
        host_call_conv: isa.default_call_conv(),
        thunk_call_conv: CallConv::PreserveAll,
        features: spinwise_lift::Features::default(),
        relaxed: spinwise_lift::Relaxed::DETERMINISTIC,
    };
    let wasm = wat::parse_str(wat).unwrap_or_else(|e| panic!("{e}"));
    spinwise_lift::lift(&wasm, &config).unwrap_or_else(|e| panic!("{e}\n{wat}"))
}

fn program(wat: &str) -> Program {
    let Lifted { module, functions, .. } = lift(wat);
    Program { module, functions }
}

fn fixtures(folder: &str) -> Vec<(String, String)> {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(folder);
    let files = std::fs::read_dir(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let mut files: Vec<PathBuf> = files.map(|file| file.unwrap().path()).collect();
    files.retain(|file| file.extension().is_some_and(|ext| ext == "wat"));
    files.sort();
    files.into_iter().map(|file| (file.display().to_string(), std::fs::read_to_string(&file).unwrap())).collect()
}

#[test]
fn every_fixture_is_guarded_and_every_missing_guard_is_caught() {
    let mut caught = 0;
    for (name, wat) in ["guard", "loops", "run"].iter().flat_map(|folder| fixtures(folder)) {
        let program = program(&wat);
        for mode in [Mode::Spin, Mode::All] {
            let (plan, _) = program.accept(mode);
            program.guarded(&plan).compile(&isa("aarch64"));
            for (what, mutant) in Program::mutants(&plan) {
                let without = program.guarded(&mutant);
                if without.violations(mode).is_empty() {
                    // Then it must be one of two polls for one need: another one is there.
                    assert!(plan.functions.iter().any(|f| f.entry_poll.is_some()), "{name}: {what} does nothing");
                } else {
                    caught += 1;
                }
            }
        }
    }
    assert!(caught > 60, "{caught}");
}

#[test]
fn borders_charge() {
    for (_, wat) in fixtures("guard") {
        for mut glue in lift(&wat).glue {
            let cranelift_codegen::ir::UserFuncName::User(name) = &glue.name else { panic!("{}", glue.name) };
            if BORDER.contains(&name.namespace) {
                insert_boundary_poll(&mut glue, CallConv::PreserveAll);
                assert_eq!(check_boundary(&glue), Ok(()), "{glue}");
            }
        }
    }
}

/// The five loops that tell the verdicts apart.
const FIVE: &str = r#"
(module
  (memory 1 1 shared)
  (func $bare_i32 (export "bare_i32") (param $old i32)
    (loop (br_if 0 (i32.eq (i32.atomic.load offset=16 (i32.const 0)) (local.get $old)))))
  (func $bare_i64 (export "bare_i64") (param $old i64)
    (loop (br_if 0 (i64.eq (i64.atomic.load offset=24 (i32.const 0)) (local.get $old)))))
  (func $recursive (param i32) (result i32)
    (if (result i32) (local.get 0) (then (call $recursive (i32.sub (local.get 0) (i32.const 1)))) (else (i32.const 0))))
  (func $around (export "around")
    (loop (drop (call $recursive (i32.const 3))) (br_if 0 (i32.eqz (i32.atomic.load (i32.const 32))))))
  (func $big (export "big") (local $x i32)
    (loop (local.set $x (i32.atomic.load (i32.const 40))) CHAIN (br_if 0 (i32.eqz (local.get $x)))))
  (func $plain (export "plain") (param $old i32)
    (loop (br_if 0 (i32.eq (i32.load (i32.const 48)) (local.get $old))))))
"#;

#[test]
fn the_five_verdicts() {
    let chain = "(local.set $x (i32.add (i32.mul (local.get $x) (i32.const 3)) (i32.const 1)))".repeat(20);
    let program = program(&FIVE.replace("CHAIN", &chain));
    let (plan, _) = program.accept(Mode::Spin);
    let json = explain_json(&program.module, &plan, &[]);
    let loops: Vec<_> = plan.functions.iter().flat_map(|f| &f.loops).collect();
    let verdicts: Vec<_> = loops.iter().map(|l| (l.verdict.name(), l.guard.map(|g| g.interval))).collect();
    let big = loops[3].size;
    assert!((65..=128).contains(&big), "{big}");
    let expected = [
        ("guarded", Some(16384)),
        ("guarded", Some(16384)),
        ("calls", None),
        ("guarded", Some(2048)),
        ("no-atomic-read", None),
    ];
    assert_eq!(verdicts, expected, "{}", summary(&plan));
    let reasons: Vec<_> = json["functions"].as_array().unwrap().iter().map(|f| f["entry_poll"].as_str()).collect();
    assert_eq!(reasons, [None, None, Some("called-in-spin-loop"), None, None, None]);
    assert_eq!(json["totals"].to_string(), r#"{"loops":5,"guarded":3,"entry_polls":1}"#);
    let watches: Vec<_> = loops.iter().map(|l| l.watch.map(|w| (w.width, w.exit_when.name(), w.offset))).collect();
    assert_eq!(watches, [Some((32, "ne", 16)), Some((64, "ne", 24)), None, None, None]);
    assert_eq!((loops[4].plain_loads, loops[4].atomic_reads), (1, 0));
    assert_eq!((loops[2].calls, loops[0].depth), (1, 1));
    let wasm = wat::parse_str(FIVE.replace("CHAIN", &chain)).unwrap();
    assert!(loops.iter().all(|natural| wasm[natural.header_offset as usize] == 0x03), "offsets of `loop` operators");
}

#[test]
fn a_small_closed_table_is_a_known_call_and_a_large_one_is_not() {
    let module = |members: u32| {
        let names: String = (0..members).map(|i| format!(" $f{i}")).collect();
        let bodies: String = (0..members).map(|i| format!("(func $f{i} (type $t))")).collect();
        format!(
            "(module (memory 1 1 shared) (type $t (func)) (table {members} funcref) (elem (i32.const 0){names}) {bodies}
               (func (export \"spin\") (param i32)
                 (loop (call_indirect (type $t) (local.get 0)) (br_if 0 (i32.eqz (i32.atomic.load (i32.const 0)))))))"
        )
    };
    let (plan, _) = program(&module(8)).accept(Mode::Spin);
    assert_eq!((plan.totals().guarded, plan.totals().entry_polls), (0, 8));
    let (plan, _) = program(&module(9)).accept(Mode::Spin);
    assert_eq!((plan.totals().guarded, plan.totals().entry_polls), (1, 0));
    // Exported, anything may be in it.
    let exported = module(8).replace("(table 8", "(table (export \"t\") 8");
    let (plan, _) = program(&exported).accept(Mode::Spin);
    assert_eq!((plan.totals().guarded, plan.totals().entry_polls), (1, 0));
}
