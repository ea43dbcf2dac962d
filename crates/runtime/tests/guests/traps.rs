//! Each kind of trap: its code, the function it happened in, and where in the module.

use std::sync::{Arc, Mutex};

use spinwise_model::trap::TrapCode;
use spinwise_runtime::{Caller, Error, Func, Instance, Trap, Val};

use crate::common::{func, instantiate, place, program, store, within};

/// The offset of the only operator with these bytes, in the binary form of a text.
fn offset_of(text: &str, operator: &[u8]) -> u32 {
    let bytes = wat::parse_str(text).expect("text that parses");
    let found: Vec<usize> = (0..bytes.len()).filter(|at| bytes[*at..].starts_with(operator)).collect();
    assert_eq!(found.len(), 1, "one such operator in {text}");
    u32::try_from(found[0]).expect("a small module")
}

/// Calls `run` and expects this trap in function `f`, at the operator with these bytes.
fn traps(code: TrapCode, text: &str, operator: &[u8]) {
    let mut store = store();
    let instance = instantiate(&mut store, text, &[]).expect("an instance");
    for _ in 0..3 {
        let result = instance.call(&mut store, "run", &[]);
        let error = result.as_ref().expect_err("a trap").to_string();
        let offset = offset_of(text, operator);
        assert_eq!(place(result), (code, "f".into(), Some(offset)), "{text}");
        assert_eq!(error, format!("{}: f (wasm offset 0x{offset:x})", code.message()));
    }
}

/// A module whose exported `run` calls `$f`, which has this body.
fn body(fields: &str, body: &str) -> String {
    format!(
        r#"(module {fields}
            (func $f {body})
            (func $run (export "run") (call $f)))"#
    )
}

#[test]
fn each_kind() {
    traps(TrapCode::Unreachable, &body("", "unreachable"), &[0x00, 0x0b, 0x04]);
    let memory = "(memory 1)";
    traps(TrapCode::MemoryOutOfBounds, &body(memory, "(drop (i32.load (i32.const 65533)))"), &[0x28, 2, 0]);
    traps(TrapCode::MemoryOutOfBounds, &body(memory, "(i32.store8 (i32.const -1) (i32.const 1))"), &[0x3a, 0, 0]);
    let far = "(drop (i64.load offset=0xffffffff (i32.const -1)))";
    traps(TrapCode::MemoryOutOfBounds, &body(memory, far), &[0x29, 3, 0xff]);
    let table = "(table 2 funcref) (elem (i32.const 0) $other) (func $other (param i32)) (type $t (func))";
    let call = |index| format!("(call_indirect (type $t) (i32.const {index}))");
    traps(TrapCode::IndirectCallTypeMismatch, &body(table, &call(0)), &[0x11, 0, 0]);
    traps(TrapCode::UninitializedElement, &body(table, &call(1)), &[0x11, 0, 0]);
    traps(TrapCode::UndefinedElement, &body(table, &call(2)), &[0x11, 0, 0]);
    traps(TrapCode::TableOutOfBounds, &body(table, "(drop (table.get (i32.const 9)))"), &[0x25, 0]);
}

#[test]
fn arithmetic() {
    let by_local = |op: &str, a: &str, b: &str| {
        body(
            "",
            &format!("(local i32 i64 f64) (local.set 0 (i32.const {b})) (drop ({op} (i32.const {a}) (local.get 0)))"),
        )
    };
    traps(TrapCode::IntegerDivideByZero, &by_local("i32.div_s", "1", "0"), &[0x6d, 0x1a]);
    traps(TrapCode::IntegerDivideByZero, &by_local("i32.rem_u", "1", "0"), &[0x70, 0x1a]);
    traps(TrapCode::IntegerOverflow, &by_local("i32.div_s", "0x80000000", "-1"), &[0x6d, 0x1a]);
    traps(TrapCode::InvalidConversion, &body("", "(drop (i32.trunc_f64_s (f64.const nan)))"), &[0xaa, 0x1a]);
    traps(TrapCode::IntegerOverflow, &body("", "(drop (i32.trunc_f64_s (f64.const 1e300)))"), &[0xaa, 0x1a]);
}

#[test]
fn atomics() {
    let shared = "(memory 1 1 shared)";
    traps(TrapCode::UnalignedAtomic, &body(shared, "(drop (i32.atomic.load (i32.const 2)))"), &[0xfe, 0x10, 2]);
    let wait = "(drop (memory.atomic.wait32 (i32.const 0) (i32.const 0) (i64.const 0)))";
    traps(TrapCode::ExpectedSharedMemory, &body("(memory 1)", wait), &[0xfe, 0x01, 2]);
    let wait = "(drop (memory.atomic.wait64 (i32.const 65536) (i64.const 0) (i64.const 0)))";
    traps(TrapCode::MemoryOutOfBounds, &body(shared, wait), &[0xfe, 0x02, 3]);
    let wait = "(drop (memory.atomic.wait32 (i32.const 2) (i32.const 0) (i64.const 0)))";
    traps(TrapCode::UnalignedAtomic, &body(shared, wait), &[0xfe, 0x01, 2]);
    let notify = "(drop (memory.atomic.notify offset=2 (i32.const 65532) (i32.const 1)))";
    traps(TrapCode::UnalignedAtomic, &body(shared, notify), &[0xfe, 0x00, 2]);
    let notify = "(drop (memory.atomic.notify (i32.const 65536) (i32.const 1)))";
    traps(TrapCode::MemoryOutOfBounds, &body(shared, notify), &[0xfe, 0x00, 2]);
}

#[test]
fn bulk_operations() {
    let fields = r#"(memory 1) (data "abc") (table 2 funcref) (elem funcref (ref.null func))"#;
    let three = |operator: &str, a: u32, b: u32, c: u32| {
        body(fields, &format!("({operator} (i32.const {a}) (i32.const {b}) (i32.const {c}))"))
    };
    let oob = TrapCode::MemoryOutOfBounds;
    traps(oob, &three("memory.copy", 65535, 0, 2), &[0xfc, 0x0a]);
    traps(oob, &three("memory.copy", 0, 65535, 2), &[0xfc, 0x0a]);
    traps(oob, &three("memory.fill", u32::MAX, 0, 2), &[0xfc, 0x0b]);
    traps(oob, &three("memory.init 0", 0, 2, 2), &[0xfc, 0x08]);
    traps(TrapCode::TableOutOfBounds, &three("table.copy", 1, 0, 2), &[0xfc, 0x0e]);
    traps(TrapCode::TableOutOfBounds, &three("table.init 0", 0, 1, 1), &[0xfc, 0x0c]);
    let fill = "(table.fill (i32.const 1) (ref.null func) (i32.const 2))";
    traps(TrapCode::TableOutOfBounds, &body(fields, fill), &[0xfc, 0x11]);
}

/// Recursion without end, in frames small and large, with and without parameters.
const RECURSIONS: [&str; 3] = [
    "(func $f (call $f) (call $f))",
    "(func $f (param i64) (result i64) (i64.add (call $f (i64.add (local.get 0) (i64.const 1))) (local.get 0)))",
    // Many values alive across the call: a frame of more than a page.
    "",
];

/// A function whose frame is several pages large.
fn large_frame() -> String {
    let count = 1500;
    let loads: String = (0..count).map(|i| format!("(local.set {i} (i64.load (i32.const {})))", i * 8)).collect();
    let uses: String = (0..count).map(|i| format!("(i64.store (i32.const {}) (local.get {i}))", i * 8)).collect();
    format!("(memory 1) (func $f (local {}) {loads} (call $f) {uses})", "i64 ".repeat(count))
}

#[test]
fn stack_overflow_on_any_thread() {
    within(60, || {
        for recursion in RECURSIONS {
            let recursion = if recursion.is_empty() { large_frame() } else { recursion.to_owned() };
            let call = if recursion.contains("param") { "(drop (call $f (i64.const 0)))" } else { "(call $f)" };
            let text = format!(
                r#"(module {recursion} (func $run (export "run") {call})
                    (func (export "after") (result i32) (i32.const 7)))"#
            );
            let program = program(&text);
            let overflow = move || {
                let mut store = store();
                let instance = Instance::new(&mut store, &program, &[]).expect("an instance");
                for _ in 0..3 {
                    let (code, function, _) = place(instance.call(&mut store, "run", &[]));
                    assert_eq!((code, function.as_str()), (TrapCode::StackOverflow, "f"));
                    let after = instance.call(&mut store, "after", &[]).expect("the stack serves again");
                    assert!(matches!(after[..], [Val::I32(7)]));
                }
            };
            overflow();
            std::thread::Builder::new()
                .stack_size(64 << 10)
                .spawn(overflow)
                .expect("a thread")
                .join()
                .expect("a small host stack does not matter");
        }
    });
}

#[test]
fn builtins_and_imports_find_the_stack_exhausted() {
    within(60, || {
        // Each turn goes deeper and then leaves guest code: some turn is the last one with room for the host.
        let leaving = [
            "(drop (memory.grow (i32.const 0)))",
            "(memory.fill (i32.const 0) (i32.const 0) (i32.const 1))",
            "(drop (table.grow (ref.null func) (i32.const 0)))",
            "(drop (memory.atomic.notify (i32.const 0) (i32.const 0)))",
            "(call $import)",
        ];
        for leave in leaving {
            let text = format!(
                r#"(module (import "host" "import" (func $import)) (memory 1 1 shared) (table 1 funcref)
                    (func $f {leave} (call $f) {leave}) (func (export "run") (call $f)))"#
            );
            let import = Func::typed(|_: Caller<'_>| {
                // A host function that uses stack.
                std::hint::black_box([1u8; 16 << 10]);
                Ok(())
            });
            let mut store = store();
            let instance = instantiate(&mut store, &text, &[("host", "import", func(import))]).expect("an instance");
            for _ in 0..3 {
                let result = instance.call(&mut store, "run", &[]);
                let frames = result.as_ref().expect_err("a trap").trap().map_or(0, |trap| trap.frames.len());
                assert_eq!(frames, Trap::MAX_FRAMES);
                assert_eq!(place(result).0, TrapCode::StackOverflow, "{leave}");
            }
        }
    });
}

#[test]
fn frames_name_every_active_function() {
    let text = r#"(module
        (type $t (func)) (table funcref (elem $inner))
        (func $inner (call $leaf))
        (func $leaf (drop (i32.div_u (i32.const 1) (global.get $zero))))
        (global $zero (mut i32) (i32.const 0))
        (func $middle (call_indirect (type $t) (i32.const 0)))
        (func (export "outer") (call $middle)))"#;
    let mut store = store();
    let instance = instantiate(&mut store, text, &[]).expect("an instance");
    let error = instance.call(&mut store, "outer", &[]).expect_err("a trap");
    let frames = &error.trap().expect("a trap").frames;
    let names: Vec<&str> = frames.iter().map(|frame| frame.function.as_str()).collect();
    assert_eq!(names, ["leaf", "inner", "middle", "outer"]);
    assert_eq!(frames.iter().map(|frame| frame.index).collect::<Vec<_>>(), [1, 0, 2, 3]);
    assert!(frames.iter().all(|frame| frame.wasm_offset.is_some()), "{frames:?}");
}

#[test]
fn a_trap_in_a_nested_entry_returns_to_the_host_function() {
    let inner = r#"(module (func $deep (export "deep") unreachable))"#;
    let outer = r#"(module (import "host" "call" (func $call (result i32)))
        (func (export "run") (result i32) (i32.add (call $call) (i32.const 1))))"#;
    let mut store = store();
    let inner = instantiate(&mut store, inner, &[]).expect("an instance");
    let seen = Arc::new(Mutex::new(Vec::new()));
    let notes = Arc::clone(&seen);
    let call = Func::typed(move |mut caller: Caller<'_>| {
        // A lock held across the guest's trap is released by this function, as always.
        let mut notes = notes.lock().expect("not poisoned");
        let result = inner.call(&mut caller, "deep", &[]);
        notes.push(place(result));
        Ok(41)
    });
    let outer = instantiate(&mut store, outer, &[("host", "call", func(call))]).expect("an instance");
    for _ in 0..2 {
        let results = outer.call(&mut store, "run", &[]).expect("the trap stayed inside");
        assert!(matches!(results[..], [Val::I32(42)]), "{results:?}");
    }
    let seen = seen.lock().expect("not poisoned");
    assert_eq!(seen.len(), 2);
    assert_eq!((seen[0].0, seen[0].1.as_str()), (TrapCode::Unreachable, "deep"));
}

#[test]
fn recursion_through_the_host_ends() {
    within(60, || {
        let text = r#"(module (import "host" "again" (func $again))
            (func $f (export "run") (call $again)))"#;
        let again = Func::typed(|mut caller: Caller<'_>| {
            let instance = caller.instance().expect("called by an instance");
            instance.call(&mut caller, "run", &[]).map(|_| ())
        });
        let mut store = store();
        let instance = instantiate(&mut store, text, &[("host", "again", func(again))]).expect("an instance");
        let error = instance.call(&mut store, "run", &[]).expect_err("no endless stack");
        assert!(matches!(error, Error::Trap(trap) if trap.code == TrapCode::StackOverflow));
    });
}
