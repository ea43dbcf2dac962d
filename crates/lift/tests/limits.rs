//! Bodies made to hurt: all lift on a 512 KiB stack, in time and memory linear in what they hold, or are refused.

mod common;

use std::fmt::Write;
use std::time::{Duration, Instant};

use common::{config, verify};
use spinwise_lift::{Error, Lifted, lift};

/// Lifts, and verifies what came out, on threads of 512 KiB; fails if it takes long.
fn small_stack(text: &str) -> Result<Lifted, Error> {
    let bytes = wat::parse_str(text).expect("the test's own text parses");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).stack_size(512 << 10).build();
    let pool = pool.expect("one thread more");
    let start = Instant::now();
    let result = pool.install(|| lift(&bytes, &config()).inspect(verify));
    let took = start.elapsed();
    assert!(took < Duration::from_secs(60), "took {took:?}");
    result
}

fn body(parts: &[(&str, usize)]) -> String {
    parts.iter().fold(String::new(), |text, (part, times)| text + &format!("{part} ").repeat(*times))
}

#[test]
fn deep_nesting() {
    for (open, close) in [("block", "end"), ("loop", "end"), ("local.get 0 if", "end"), ("local.get 0 if else", "end")]
    {
        let body = body(&[(open, 100_000), (close, 100_000)]);
        small_stack(&format!("(module (func (param i32) {body}))")).unwrap();
    }
}

#[test]
fn deep_nesting_in_dead_code() {
    let body = body(&[("unreachable", 1), ("block", 50_000), ("i32.const 0 if", 50_000), ("end", 100_000)]);
    small_stack(&format!("(module (func {body}))")).unwrap();
}

#[test]
fn deep_nesting_with_branches_to_every_label() {
    let mut inner = String::new();
    for depth in 0..20_000 {
        write!(inner, "local.get 0 br_if {depth} ").unwrap();
    }
    let body = body(&[("block", 20_000), (&inner, 1), ("end", 20_000)]);
    small_stack(&format!("(module (func (param i32) {body}))")).unwrap();
}

#[test]
fn many_locals() {
    let mut body = String::new();
    for local in 0..49_999 {
        write!(body, "local.get {local} local.set {} ", local + 1).unwrap();
    }
    let locals = "i32 ".repeat(50_000);
    small_stack(&format!("(module (func (local {locals}) {body}))")).unwrap();
}

/// 50,000 locals times 20,000 loops: too many for SSA construction, so these live in memory.
#[test]
fn many_locals_through_many_loops() {
    let mut uses = String::new();
    for local in 0..50_000 {
        write!(uses, "local.get {local} drop ").unwrap();
    }
    let body = body(&[("loop", 20_000), (&uses, 1), ("local.get 0 br_if 0 end", 20_000)]);
    let locals = "i32 ".repeat(50_000);
    let lifted = small_stack(&format!("(module (func (local {locals}) {body}))")).unwrap();
    assert_eq!(lifted.functions[0].sized_stack_slots.len(), 50_000);
}

#[test]
fn a_huge_branch_table() {
    let rows = body(&[("0 1", 32_500)]);
    small_stack(&format!("(module (func (param i32) (block (block (br_table {rows} 0 (local.get 0))))))")).unwrap();
}

#[test]
fn a_huge_branch_table_with_distinct_labels_and_operands() {
    let mut rows = String::new();
    for row in 0..5_000 {
        write!(rows, "{row} ").unwrap();
    }
    let body = body(&[
        ("block (result i64 f64)", 5_001),
        ("i64.const 1 f64.const 2 local.get 0 br_table", 1),
        (&rows, 1),
        ("0 end", 1),
        ("end", 5_000),
    ]);
    small_stack(&format!("(module (func (param i32) (result i64 f64) {body}))")).unwrap();
}

/// Each row would carry each of the locals that the loop changes.
#[test]
fn a_huge_branch_table_back_to_a_loop_with_many_locals() {
    let rows = body(&[("0", 65_000)]);
    let mut changes = String::new();
    for local in 1..1_000 {
        write!(changes, "local.get {local} i32.const {local} i32.add local.set {local} ").unwrap();
    }
    let locals = "i32 ".repeat(1_000);
    small_stack(&format!(
        "(module (func (param i32) (local {locals}) (loop {changes} local.get 0 br_table {rows} 1)))"
    ))
    .unwrap();
}

#[test]
fn many_blocks_that_read_a_local() {
    for block in ["block local.get 0 drop end", "loop local.get 0 drop end", "loop end"] {
        let body = body(&[(block, 15_000)]);
        small_stack(&format!("(module (func (param i32) {body}))")).unwrap();
    }
    let nested = body(&[("block local.get 0 br_if 0", 15_000), ("end", 15_000)]);
    small_stack(&format!("(module (func (param i32) {nested}))")).unwrap();
}

#[test]
fn operands_repeated_for_their_own_sake_are_refused() {
    let types = "i32 ".repeat(1_000);
    let values = "i32.const 0 ".repeat(1_000);
    let branches = "local.get 0 br_if 0 ".repeat(20_000);
    let text = format!("(module (func $greedy (param i32) (result {types}) {values} {branches}))");
    let error = small_stack(&text).unwrap_err();
    assert!(matches!(error, Error::Limit { .. }), "{error}");
    assert_eq!(error.function(), Some("greedy"));

    let calls = "call $same ".repeat(20_000);
    let text = format!("(module (func $same (param {types}) (result {types}) {values} {calls}))");
    assert!(matches!(small_stack(&text), Err(Error::Limit { .. })));
}

#[test]
fn operands_of_dead_code_are_bounded_too() {
    let types = "i32 ".repeat(1_000);
    let calls = "call $source ".repeat(20_000);
    let source = format!("(func $source (result {types}) unreachable)");
    let dead = format!("(module {source} (func unreachable {calls} unreachable))");
    assert!(matches!(small_stack(&dead), Err(Error::Limit { .. })));
    // The second look that names the missing feature is bounded as well.
    let with_feature =
        format!("(module {source} (type $t (func)) (type (cont $t)) (func unreachable {calls} unreachable))");
    assert!(matches!(small_stack(&with_feature), Err(Error::Unsupported { .. })));
    let invalid = format!("(module {source} (func drop) (func unreachable {calls} unreachable))");
    assert!(matches!(small_stack(&invalid), Err(Error::Invalid { .. })));
}

/// Each row of each table would carry each local.
#[test]
fn many_branch_tables_with_many_locals() {
    let rows: String = (0..1_000).map(|row| format!("{row} ")).collect();
    let table = format!("block local.get 0 br_if 0 local.get 0 br_table {rows} 0 end");
    let mut uses = String::new();
    for local in 0..2_000 {
        write!(uses, "local.get {local} i32.const 1 i32.add local.set {local} ").unwrap();
    }
    let body = body(&[("loop", 1_000), (&uses, 1), (&table, 100), ("end", 1_000)]);
    let locals = "i32 ".repeat(2_000);
    small_stack(&format!("(module (func (local {locals}) {body}))")).unwrap();
}

#[test]
fn deep_nesting_of_handlers() {
    // Each passes on to the one around it what the call in the middle throws.
    let modern = body(&[("try_table", 50_000), ("call 0", 1), ("end", 50_000)]);
    let legacy = body(&[("try", 50_000), ("call 0", 1), ("catch 0 end", 50_000)]);
    let bare = body(&[("try", 50_000), ("call 0", 1), ("end", 50_000)]);
    let dead = body(&[("unreachable", 1), ("try", 50_000), ("call 0", 1), ("catch_all end", 50_000)]);
    // Each of these delegates past all others.
    let delegates: String = (0..30_000).map(|depth| format!("call 0 delegate {} ", 29_999 - depth)).collect();
    let delegates = body(&[("try", 30_000), (&delegates, 1)]);
    for body in [modern, legacy, bare, dead, delegates] {
        small_stack(&format!("(module (tag) (func {body}))")).unwrap();
    }
}

#[test]
fn many_clauses_and_many_calls_for_one_handler() {
    let tags = "(tag $e (param i64 f32))".repeat(100);
    let clauses: String = (0..10_000).map(|clause| format!("(catch {} $caught)", clause % 100)).collect();
    let calls = "call $f ".repeat(20_000);
    small_stack(&format!(
        "(module {} (func $f)
           (func (result i64 f32) (local i32)
             (block $caught (result i64 f32) (try_table {clauses} {calls}) (unreachable))))",
        tags.replace("$e", "")
    ))
    .unwrap();
}

#[test]
fn many_calls_for_one_handler_with_many_locals() {
    // Each call would pass each local to the handler.
    let mut calls = String::new();
    for local in 0..20_000 {
        write!(calls, "local.get {local} call $f local.set {} ", (local * 7 + 1) % 20_000).unwrap();
    }
    let uses: String = (0..20_000).map(|local| format!("local.get {local} call $f drop ")).collect();
    let locals = "i32 ".repeat(20_000);
    small_stack(&format!(
        "(module (func $f (param i32) (result i32) (local.get 0))
           (func (local {locals}) (block $caught (try_table (catch_all $caught) {calls})) {uses}))"
    ))
    .unwrap();
}
