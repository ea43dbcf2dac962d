//! Function references that a host hands in: to its own functions, and to functions that their module only exports.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::Duration;

use spinwise_model::trap::TrapCode;
use spinwise_model::types::{FuncType, GlobalType, RefType, TableType, ValType};
use spinwise_runtime::{Caller, Error, Extern, Func, Global, Instance, Store, Table, Val};

use crate::common::{i32_of, instantiate, process, store, within};

fn table_of(size: u64) -> Table {
    Table::new(TableType { element: RefType::FUNC, min: size, max: None, table64: false }).expect("a table")
}

fn exported(instance: &Instance, name: &str) -> Func {
    match instance.export(name) {
        Some(Extern::Func(func)) => func,
        other => panic!("{name} is {other:?}"),
    }
}

/// Calls what is in the table until it answers 0: as often as it likes, in a loop that reads nothing itself.
const LOOPS: &str = r#"(module
    (import "host" "table" (table 1 funcref))
    (type $t (func (result i32)))
    (func (export "indirect") (loop $again (br_if $again (call_indirect (type $t) (i32.const 0)))))
    (func (export "by_reference") (param $f (ref $t)) (loop $again (br_if $again (call_ref $t (local.get $f)))))
    (func (export "own") (result (ref null $t)) (ref.null $t)))"#;

/// Reads atomically, and its own module neither calls it nor refers to it: it does not poll.
const READS: &str = r#"(module
    (memory (export "memory") 1 1 shared)
    (func (export "flag") (result i32) (i32.eqz (i32.atomic.load (i32.const 0)))))"#;

#[test]
fn a_reference_that_a_host_hands_in_is_no_way_around_the_guard() {
    for name in ["indirect", "by_reference"] {
        within(60, move || {
            let process = process();
            let mut store = Store::new(&process).expect("a store");
            let flag = exported(&instantiate(&mut store, READS, &[]).expect("an instance"), "flag");
            let table = table_of(1);
            table.set(&mut store, 0, &Val::FuncRef(Some(flag.clone()))).expect("room");
            let imports = [("host", "table", Extern::Table(table))];
            let loops = instantiate(&mut store, LOOPS, &imports).expect("an instance");
            let canceller = process.clone();
            let cancel = thread::spawn(move || {
                thread::sleep(Duration::from_millis(30));
                canceller.cancel() && canceller.settle(Duration::from_secs(20))
            });
            let arguments = if name == "indirect" { vec![] } else { vec![Val::FuncRef(Some(flag))] };
            let error = loops.call(&mut store, name, &arguments).expect_err("cancelled");
            assert!(cancel.join().expect("no panic"), "nobody is left inside");
            assert_eq!(error.trap().map(|trap| trap.code), Some(TrapCode::Interrupted), "{error}");
        });
    }
}

/// Counts calls and answers what is left of three.
fn countdown() -> (Func, Arc<Mutex<Vec<bool>>>) {
    let calls = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&calls);
    let func = Func::typed(move |caller: Caller<'_>| {
        let mut calls = seen.lock().expect("no panic");
        calls.push(caller.instance().is_some());
        Ok(3 - i32::try_from(calls.len()).expect("few"))
    });
    (func, calls)
}

#[test]
fn guests_call_host_functions_by_references_that_no_module_imported() {
    for name in ["indirect", "by_reference"] {
        let mut store = store();
        let (func, calls) = countdown();
        let table = table_of(1);
        // Before any module is there that could call it.
        table.set(&mut store, 0, &Val::FuncRef(Some(func.clone()))).expect("room");
        let loops = instantiate(&mut store, LOOPS, &[("host", "table", Extern::Table(table.clone()))]);
        let loops = loops.expect("an instance");
        let arguments = if name == "indirect" { vec![] } else { vec![Val::FuncRef(Some(func.clone()))] };
        loops.call(&mut store, name, &arguments).expect("it ends");
        assert_eq!(*calls.lock().expect("no panic"), [false; 3], "no instance calls it");
        let Ok(Some(Val::FuncRef(Some(back)))) = table.get(&mut store, 0) else { panic!("a function") };
        assert!(back.same(&func) && back.index().is_none());
    }
}

#[test]
fn a_host_function_s_failure_is_its_caller_s_trap() {
    let mut store = store();
    let func = Func::typed(|_: Caller<'_>| Err::<i32, _>(TrapCode::IntegerOverflow.into()));
    let loops = instantiate(&mut store, LOOPS, &[("host", "table", Extern::Table(table_of(1)))]).expect("an instance");
    let error = loops.call(&mut store, "by_reference", &[Val::FuncRef(Some(func))]).expect_err("it fails");
    let trap = error.trap().expect("a trap");
    assert_eq!((trap.code, trap.frames[0].function.as_str()), (TrapCode::IntegerOverflow, "by_reference"));
}

#[test]
fn exports_come_back_as_the_functions_they_are() {
    let mut store = store();
    let reads = instantiate(&mut store, READS, &[]).expect("an instance");
    let flag = exported(&reads, "flag");
    let table = table_of(2);
    for index in [0, 1] {
        table.set(&mut store, index, &Val::FuncRef(Some(flag.clone()))).expect("room");
    }
    let Ok(Some(Val::FuncRef(Some(back)))) = table.get(&mut store, 1) else { panic!("a function") };
    assert!(back.same(&flag) && back.index() == flag.index());
    assert_eq!(i32_of(&back.call(&mut store, &[]).expect("a result")), 1);
    let pass = r#"(module
        (func (export "pass") (param funcref) (result funcref) (local.get 0))
        (global (export "global") (mut funcref) (ref.null func)))"#;
    let pass = instantiate(&mut store, pass, &[]).expect("an instance");
    let results = pass.call(&mut store, "pass", &[Val::FuncRef(Some(back))]).expect("a result");
    let [Val::FuncRef(Some(back))] = &results[..] else { panic!("a function") };
    assert!(back.same(&flag));
    let Some(Extern::Global(global)) = pass.export("global") else { panic!("a global") };
    global.set(&mut store, &Val::FuncRef(Some(flag.clone()))).expect("mutable");
    assert!(matches!(global.get(&mut store), Ok(Val::FuncRef(Some(found))) if found.same(&flag)));
}

#[test]
fn a_host_s_global_holds_functions_for_the_store_that_takes_it() {
    let uses = r#"(module
        (type $t (func (result i32)))
        (import "host" "f" (global $f (ref func)))
        (table 1 funcref)
        (elem (i32.const 0) funcref (global.get $f))
        (func (export "run") (result i32) (call_indirect (type $t) (i32.const 0))))"#;
    let ty = GlobalType { content: ValType::Ref(RefType { nullable: false, ..RefType::FUNC }), mutable: false };
    let (func, _) = countdown();
    let mut first = store();
    let global = Global::new(ty, &Val::FuncRef(Some(func))).expect("of its type");
    let imports = [("host", "f", Extern::Global(global.clone()))];
    let instance = instantiate(&mut first, uses, &imports).expect("an instance");
    assert_eq!(i32_of(&instance.call(&mut first, "run", &[]).expect("a result")), 2);
    let mut second = store();
    assert!(matches!(instantiate(&mut second, uses, &imports), Err(Error::Usage(_))), "the first has it");
}

#[test]
fn another_store_s_functions_are_refused() {
    let mut theirs = store();
    let flag = exported(&instantiate(&mut theirs, READS, &[]).expect("an instance"), "flag");
    let flag = Val::FuncRef(Some(flag));
    let mut store = store();
    let table = table_of(1);
    assert!(matches!(table.set(&mut store, 0, &flag), Err(Error::Usage(_))));
    let loops = instantiate(&mut store, LOOPS, &[("host", "table", Extern::Table(table))]).expect("an instance");
    assert!(matches!(loops.call(&mut store, "by_reference", std::slice::from_ref(&flag)), Err(Error::Usage(_))));
    let global = Global::new(GlobalType { content: ValType::FUNCREF, mutable: true }, &flag).expect("of its type");
    assert!(matches!(global.get(&mut store), Err(Error::Usage(_))));
    let answer = flag.clone();
    let ty = FuncType { params: vec![], results: vec![ValType::FUNCREF] };
    let func = Func::host(ty, move |_, _| Ok(vec![answer.clone()]));
    let text = r#"(module (import "host" "f" (func $f (result funcref))) (func (export "run") (drop (call $f))))"#;
    let instance = instantiate(&mut store, text, &[("host", "f", Extern::Func(func))]).expect("an instance");
    assert!(matches!(instance.call(&mut store, "run", &[]), Err(Error::Usage(_))));
}

#[test]
fn functions_must_be_of_the_type_asked_for() {
    let mut store = store();
    let loops = instantiate(&mut store, LOOPS, &[("host", "table", Extern::Table(table_of(1)))]).expect("an instance");
    let wrong = Func::typed(|_: Caller<'_>, x: i32| Ok(x));
    assert!(matches!(loops.call(&mut store, "by_reference", &[Val::FuncRef(Some(wrong))]), Err(Error::Usage(_))));
    assert!(matches!(loops.call(&mut store, "by_reference", &[Val::FuncRef(None)]), Err(Error::Usage(_))));
    let results = loops.call(&mut store, "own", &[]).expect("null");
    assert!(matches!(results[..], [Val::FuncRef(None)]));
}
