//! Tail calls that leave the instance: into another one, into the host, and back, without end and without stack.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use spinwise_guard::Mode;
use spinwise_model::trap::TrapCode;
use spinwise_runtime::{Caller, Error, Extern, Func, Imports, Instance, Store, Val};

use crate::common::{func, i32_of, instantiate, place, process, program_with, store, within};

/// Two instances that become each other: the first by an import, the second through a table that it imports.
const FIRST: &str = r#"(module
    (import "second" "pong" (func $pong (param i64 f64 i32) (result i32 i64)))
    (table $t (export "table") 1 funcref)
    (type $ping (func (param i32) (result i32 i64)))
    (global $turns (export "turns") (mut i64) (i64.const 0))
    (elem (table $t) (i32.const 0) func $ping)
    (func $ping (export "ping") (type $ping)
        (global.set $turns (i64.add (global.get $turns) (i64.const 1)))
        (if (i32.eqz (local.get 0)) (then (return (i32.const 7) (global.get $turns))))
        (return_call $pong (i64.const 5) (f64.const 0.5) (local.get 0))))"#;
const SECOND: &str = r#"(module
    (import "first" "table" (table 1 funcref))
    (memory 1 1 shared)
    (type $ping (func (param i32) (result i32 i64)))
    (func (export "pong") (param i64 f64 i32) (result i32 i64)
        (if (i64.ne (local.get 0) (i64.const 5)) (then (unreachable)))
        (if (i32.atomic.load (i32.const 0)) (then (unreachable)))
        (return_call_indirect (type $ping) (i32.sub (local.get 2) (i32.const 1)) (i32.const 0))))"#;

/// The first one's import is a host function that stands in until the second one exists: nothing can import in a circle.
/// So the ring is closed by a table: the first instance's table comes first, and then its own second instance.
fn ring(store: &mut Store) -> Instance {
    let nothing = Func::host(ty(), |_, _| Err(Error::host("never called")));
    let seed = instantiate(store, FIRST, &[("second", "pong", func(nothing))]).expect("an instance");
    let table = seed.export("table").expect("a table");
    let second = instantiate(store, SECOND, &[("first", "table", table.clone())]).expect("an instance");
    let pong = second.export("pong").expect("a function");
    let first = instantiate(store, FIRST, &[("second", "pong", pong)]).expect("an instance");
    let (Extern::Table(table), Some(Extern::Func(ping))) = (table, first.export("ping")) else { panic!("exports") };
    table.set(store, 0, &Val::FuncRef(Some(ping))).expect("room");
    first
}

fn ty() -> spinwise_model::types::FuncType {
    use spinwise_model::types::{FuncType, ValType};
    FuncType { params: vec![ValType::I64, ValType::F64, ValType::I32], results: vec![ValType::I32, ValType::I64] }
}

#[test]
fn instances_become_each_other_in_constant_stack() {
    let mut store = store();
    let first = ring(&mut store);
    // A frame of 16 bytes a turn would take twice the stack there is.
    let results = first.call(&mut store, "ping", &[Val::I32(1_000_000)]).expect("room");
    assert!(matches!(results[..], [Val::I32(7), Val::I64(1_000_001)]), "{results:?}");
}

#[test]
fn a_cancel_reaches_instances_that_become_each_other() {
    within(60, || {
        let process = process();
        let mut store = Store::new(&process).expect("a store");
        let first = ring(&mut store);
        let canceller = process.clone();
        let cancel = thread::spawn(move || {
            thread::sleep(Duration::from_millis(30));
            canceller.cancel() && canceller.settle(Duration::from_secs(20))
        });
        // Four thousand million turns.
        let error = first.call(&mut store, "ping", &[Val::I32(-1)]).expect_err("cancelled");
        assert!(cancel.join().expect("no panic"), "nobody is left inside");
        assert_eq!(error.trap().map(|trap| trap.code), Some(TrapCode::Interrupted), "{error}");
    });
}

const TO_HOST: &str = r#"(module
    (import "host" "f" (func $import (param i32) (result i32)))
    (memory (export "memory") 1)
    (data (i32.const 0) "mine")
    (type $t (func (param i32) (result i32))) (table 1 funcref) (elem (i32.const 0) $import)
    (func $direct (param i32) (result i32) (return_call $import (local.get 0)))
    (func $indirect (param i32) (result i32) (return_call_indirect (type $t) (local.get 0) (i32.const 0)))
    (func $run (export "run") (param i32 i32) (result i32)
        (if (result i32) (local.get 1)
            (then (i32.add (call $direct (local.get 0)) (i32.const 1)))
            (else (i32.add (call $indirect (local.get 0)) (i32.const 1)))))
    (func (export "last") (param i32 i32) (result i32) (return_call $import (local.get 0))))"#;

#[test]
fn a_host_function_called_last_knows_its_caller_and_answers_for_it() {
    let mut store = store();
    let f = Func::typed(|caller: Caller<'_>, x: i32| {
        let text = caller.memory().expect("the caller's memory").load::<u32>(0)?;
        assert_eq!(text.to_le_bytes(), *b"mine");
        if x < 0 { Err(TrapCode::Unreachable.into()) } else { Ok(x * 2) }
    });
    let instance = instantiate(&mut store, TO_HOST, &[("host", "f", func(f))]).expect("an instance");
    for way in [0, 1] {
        let result = instance.call(&mut store, "run", &[Val::I32(20), Val::I32(way)]);
        assert_eq!(i32_of(&result.expect("a result")), 41);
        // The function that ended by calling is gone: the trap is its caller's.
        let result = instance.call(&mut store, "run", &[Val::I32(-1), Val::I32(way)]);
        let (code, function, offset) = place(result);
        assert_eq!((code, function.as_str(), offset.is_some()), (TrapCode::Unreachable, "run", true));
    }
    let result = instance.call(&mut store, "last", &[Val::I32(20), Val::I32(0)]);
    assert_eq!(i32_of(&result.expect("a result")), 40);
    let result = instance.call(&mut store, "last", &[Val::I32(-1), Val::I32(0)]);
    let error = result.expect_err("a trap").to_string();
    assert_eq!(error, "unreachable", "no guest function is left");
}

#[test]
fn a_host_function_that_ends_the_process_is_not_come_back_from() {
    within(60, || {
        // Without guards, so that nothing else can notice.
        let program = program_with(TO_HOST, Mode::Off);
        let process = process();
        let mut store = Store::new(&process).expect("a store");
        let seen = Arc::new(Mutex::new(0));
        let calls = Arc::clone(&seen);
        let f = Func::typed(move |caller: Caller<'_>, x: i32| {
            *calls.lock().expect("no panic") += 1;
            caller.process().cancel();
            Ok(x)
        });
        let mut imports = Imports::new();
        imports.define("host", "f", func(f));
        let imports = imports.resolve(&program.module).expect("offered");
        let instance = Instance::new(&mut store, &program, &imports).expect("an instance");
        let (code, function, _) = place(instance.call(&mut store, "run", &[Val::I32(1), Val::I32(1)]));
        assert_eq!((code, function.as_str()), (TrapCode::Interrupted, "run"));
        assert_eq!(*seen.lock().expect("no panic"), 1);
    });
}
