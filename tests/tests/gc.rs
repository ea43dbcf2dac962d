//! Programs that make garbage: their results, with the collector at its usual pace and with a collection before every
//! allocation; what they take; how they end.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use spinwise::config::{GuardMode, OptLevel};
use spinwise::types::{FuncType, GlobalType, HeapType, RefType, TableType, ValType};
use spinwise::{
    AnyRef, Caller, Config, Extern, Func, Global, Imports, Instance, Options, Process, Program, RunError, Store, Table,
    TrapCode, Val,
};
use tests::within;

/// The argument and the result that a program's header gives under a name.
fn expectation(path: &Path, name: &str) -> (i32, i32) {
    let text = fs::read_to_string(path).expect("readable");
    let prefix = format!(";; {name}: ");
    let line = text.lines().find_map(|line| line.strip_prefix(&prefix));
    let line = line.unwrap_or_else(|| panic!("{} needs a line `{prefix}ARGUMENT -> RESULT`", path.display()));
    let number = |text: &str| text.trim().parse::<i64>().expect("a number");
    let (argument, result) = line.split_once("->").expect("an arrow");
    let wrap = |value: i64| i32::from_le_bytes(value.to_le_bytes()[..4].try_into().expect("four bytes"));
    (wrap(number(argument)), wrap(number(result)))
}

fn program(text: &str, config: &Config) -> Arc<Program> {
    let wasm = spinwise::binary_form(text.as_bytes().to_vec()).expect("well-formed");
    spinwise::program(&wasm, config).unwrap_or_else(|error| panic!("{error}"))
}

/// A host function that calls the calling instance's export of the same name, and hands on its answer.
fn again() -> Extern {
    let ty = FuncType { params: vec![ValType::EXTERNREF, ValType::I32], results: vec![ValType::EXTERNREF] };
    Extern::Func(Func::host(ty, |mut caller: Caller<'_>, arguments| {
        let instance = caller.instance().expect("a guest calls it");
        let Some(Extern::Func(again)) = instance.export("again") else { panic!("an export `again`") };
        caller.call(&again, arguments)
    }))
}

fn instance(store: &mut Store, program: &Arc<Program>) -> Result<Instance, RunError> {
    let mut imports = Imports::new();
    imports.define("env", "again", again());
    let imports = imports.resolve(&program.module)?;
    Instance::new(store, program, &imports)
}

fn run(store: &mut Store, instance: &Instance, argument: i32) -> Result<i32, RunError> {
    match instance.call(store, "run", &[Val::I32(argument)])?[..] {
        [Val::I32(result)] => Ok(result),
        ref other => panic!("`run` answers {other:?}"),
    }
}

fn store(options: &Options) -> Store {
    Store::new(&Process::new(options).expect("a process")).expect("a store")
}

fn always() -> Options {
    Options { collect_always: Some(true), ..Options::default() }
}

fn configs() -> impl Iterator<Item = Config> {
    let guards = [GuardMode::Spin, GuardMode::All, GuardMode::Off];
    let levels = [OptLevel::None, OptLevel::Speed, OptLevel::Size];
    let of = move |guard| levels.map(|opt| Config { guard, opt, verify: true, ..Config::default() });
    guards.into_iter().flat_map(of)
}

fn programs() -> Vec<PathBuf> {
    let files = tests::files("fixtures/gc", "wat");
    assert!(files.len() >= 6, "only {} programs", files.len());
    files
}

#[test]
fn nothing_that_is_used_is_ever_freed() {
    for path in programs() {
        let (argument, expected) = expectation(&path, "small");
        let text = fs::read_to_string(&path).expect("readable");
        for config in configs() {
            let what = format!("{} {:?} {:?}", tests::relative(&path), config.guard, config.opt);
            let text = text.clone();
            let (result, collections) = within(Duration::from_secs(60), &what.clone(), move || {
                let program = program(&text, &config);
                let mut store = store(&always());
                let instance = instance(&mut store, &program).expect("an instance");
                (run(&mut store, &instance, argument), store.collections())
            });
            assert_eq!(result.unwrap_or_else(|error| panic!("{what}: {error}")), expected, "{what}");
            assert!(collections > 20, "{what}: only {collections} collections");
        }
    }
}

#[test]
fn programs_give_their_results() {
    for path in programs() {
        let (argument, expected) = expectation(&path, "large");
        let text = fs::read_to_string(&path).expect("readable");
        for config in [Config::default(), Config { opt: OptLevel::None, guard: GuardMode::All, ..Config::default() }] {
            let what = format!("{} {:?} {:?}", tests::relative(&path), config.guard, config.opt);
            let text = text.clone();
            let result = within(Duration::from_secs(120), &what.clone(), move || {
                let program = program(&text, &config);
                let mut store = store(&Options::default());
                let instance = instance(&mut store, &program).expect("an instance");
                run(&mut store, &instance, argument)
            });
            assert_eq!(result.unwrap_or_else(|error| panic!("{what}: {error}")), expected, "{what}");
        }
    }
}

/// What only the host refers to: by handles, in tables and globals of its own, and in what guests export.
#[test]
fn what_the_host_holds_stays() {
    let text = r#"(module
        (type $box (struct (field i32) (field (mut i32))))
        (type $bytes (array (mut i8)))
        (func (export "new") (param i32) (result (ref $box)) (struct.new $box (local.get 0) (i32.const 7)))
        (func (export "bytes") (result anyref) (array.new_fixed $bytes 3 (i32.const 1) (i32.const 2) (i32.const 255)))
        (func (export "as_extern") (param anyref) (result externref) (extern.convert_any (local.get 0)))
        (func (export "value") (param (ref $box)) (result i32) (struct.get $box 0 (local.get 0)))
        (func (export "churn") (local $i i32)
            (local.set $i (i32.const 50))
            (loop $again
                (drop (struct.new $box (i32.const -1) (i32.const -1)))
                (br_if $again (local.tee $i (i32.sub (local.get $i) (i32.const 1)))))))"#;
    let program = program(text, &Config::default());
    let mut store = store(&always());
    let instance = instance(&mut store, &program).expect("an instance");
    let call = |store: &mut Store, name: &str, arguments: &[Val]| {
        let mut results = instance.call(store, name, arguments).unwrap_or_else(|error| panic!("{name}: {error}"));
        results.pop().unwrap_or(Val::I32(0))
    };
    let handle = call(&mut store, "new", &[Val::I32(1)]);
    let bytes = call(&mut store, "bytes", &[]);
    let Val::AnyRef(Some(AnyRef::Object(bytes))) = bytes else { panic!("{bytes:?}") };
    let any = RefType { nullable: true, heap: HeapType::Any };
    let table = Table::new(TableType { element: any, min: 2, max: None, table64: false }).expect("a table");
    let in_table = call(&mut store, "new", &[Val::I32(2)]);
    table.set(&mut store, 1, &in_table).expect("room");
    let in_global = call(&mut store, "new", &[Val::I32(3)]);
    let global = GlobalType { content: ValType::Ref(any), mutable: true };
    let global = Global::new(global, &in_global).expect("of its type");
    global.get(&mut store).expect("claimed now");
    let given = call(&mut store, "new", &[Val::I32(4)]);
    let given = call(&mut store, "as_extern", &[given]);
    drop((in_table, in_global));
    for _ in 0..3 {
        call(&mut store, "churn", &[]);
    }
    let value = |store: &mut Store, of: &Val| match call(store, "value", std::slice::from_ref(of)) {
        Val::I32(value) => value,
        other => panic!("{other:?}"),
    };
    assert_eq!(value(&mut store, &handle), 1);
    let in_table = table.get(&mut store, 1).expect("its own").expect("an element");
    assert_eq!(value(&mut store, &in_table), 2);
    let in_global = global.get(&mut store).expect("its own");
    assert_eq!(value(&mut store, &in_global), 3);
    let Val::Externalized(given) = given else { panic!("{given:?}") };
    assert_eq!(value(&mut store, &Val::AnyRef(Some(given.clone()))), 4);
    assert!(!bytes.is_struct() && bytes.len(&mut store).expect("its own") == 3);
    assert!(matches!(bytes.get(&mut store, 2), Ok(Some(Val::I32(255)))));
    assert!(matches!(bytes.get(&mut store, 3), Ok(None)));
    let Val::AnyRef(Some(AnyRef::Object(handle))) = handle else { panic!("{handle:?}") };
    assert!(handle.is_struct() && matches!(handle.get(&mut store, 1), Ok(Some(Val::I32(7)))));
    // Neither a handle nor what holds one is of use in another store.
    let mut other = self::store(&Options::default());
    assert!(matches!(handle.len(&mut other), Err(RunError::Usage(_))));
    assert!(matches!(global.get(&mut other), Err(RunError::Usage(_))));
    // Nor does one outlive what it is to in any way that matters.
    drop((table, global, given));
    let before = store.heap_bytes();
    drop(store);
    assert!(before > 0 && matches!(handle.len(&mut other), Err(RunError::Usage(_))));
}

/// More references in locals, across more calls, than a set for each call could hold: they lie in memory.
#[test]
fn very_many_locals_are_found_too() {
    let (locals, turns) = (3_000, 1_500);
    let mut body = String::new();
    for local in 0..locals {
        write!(body, "(local.set {} (call $new (i32.const {local})))", local + 1).expect("a string");
    }
    for turn in 0..turns {
        write!(
            body,
            "(drop (call $new (i32.const -1))) (if (local.get 0) (then (local.set {} (local.get {}))))",
            turn + 1,
            turn + 2
        )
        .expect("a string");
    }
    // What a local held before it was set again.
    body.push_str("(local.get 1) (local.set 1 (call $new (i32.const 1))) (drop (call $new (i32.const -1)))");
    body.push_str("(if (i32.ne (call $value) (i32.const 1)) (then (unreachable)))");
    let sum = (0..locals).fold(String::from("(i32.const 0)"), |sum, local| {
        format!("{sum} (call $value (local.get {})) i32.add", local + 1)
    });
    let refs = "(ref null $box)".repeat(locals);
    let text = format!(
        r#"(module (type $box (struct (field i32)))
        (func $new (param i32) (result (ref $box)) (struct.new $box (local.get 0)))
        (func $value (param (ref null $box)) (result i32) (struct.get $box 0 (local.get 0)))
        (func (export "run") (param i32) (result i32) (local {refs}) {body} {sum}))"#
    );
    let locals = i32::try_from(locals).expect("few");
    let expected = locals * (locals - 1) / 2 + turns;
    for opt in [OptLevel::None, OptLevel::Speed] {
        let text = text.clone();
        let begin = Instant::now();
        let result = within(Duration::from_secs(120), "many locals", move || {
            let program = program(&text, &Config { opt, ..Config::default() });
            let mut store = store(&always());
            let instance = instance(&mut store, &program).expect("an instance");
            run(&mut store, &instance, 1).expect("a result")
        });
        assert_eq!(result, expected, "{opt:?}");
        assert!(begin.elapsed() < Duration::from_secs(60), "{opt:?}: {:?}", begin.elapsed());
    }
}

/// Makes as many arrays as it is asked for, of that many bytes; keeps the last 100.
const LITTER: &str = r#"(module
    (type $bytes (array (mut i8)))
    (type $kept (array (mut (ref null $bytes))))
    (func (export "run") (param $turns i32) (param $bytes i32) (result i32) (local $kept (ref null $kept))
        (local.set $kept (array.new_default $kept (i32.const 100)))
        (loop $again
            (array.set $kept (local.get $kept) (i32.rem_u (local.get $turns) (i32.const 100))
                (array.new $bytes (i32.const 1) (local.get $bytes)))
            (br_if $again (local.tee $turns (i32.sub (local.get $turns) (i32.const 1)))))
        (array.len (array.get $kept (local.get $kept) (i32.const 7)))))"#;

#[test]
fn garbage_takes_no_more_than_a_small_multiple_of_what_lives() {
    let program = program(LITTER, &Config::default());
    for (bytes, turns) in [(1, 3_000_000), (100, 1_000_000), (30_000, 20_000), (40_000, 20_000), (1_000_000, 2_000)] {
        let (program, what) = (Arc::clone(&program), format!("{turns} arrays of {bytes} bytes"));
        let (taken, collections) = within(Duration::from_secs(120), &what.clone(), move || {
            let mut store = store(&Options::default());
            let instance = instance(&mut store, &program).expect("an instance");
            instance.call(&mut store, "run", &[Val::I32(turns), Val::I32(bytes)]).expect("room");
            (store.heap_bytes(), store.collections())
        });
        let live = 100 * (usize::try_from(bytes).expect("few") + 8) + 1000;
        assert!(taken <= 3 * live + (12 << 20), "{what}: {taken} bytes for {live}");
        assert!(collections > 5, "{what}: only {collections} collections");
    }
}

#[test]
fn a_heap_that_is_full_is_a_trap_and_no_more() {
    let list = fs::read_to_string(tests::root().join("fixtures/gc/list.wat")).expect("readable");
    let program = program(&list, &Config::default());
    let limited = Options { max_heap: Some(4 << 20), ..Options::default() };
    within(Duration::from_secs(60), "a full heap", move || {
        let mut store = store(&limited);
        let instance = instance(&mut store, &program).expect("an instance");
        for _ in 0..5 {
            let error = run(&mut store, &instance, 1_000_000).expect_err("a list of 24 MB");
            let trap = error.trap().expect("a trap");
            assert_eq!((trap.code, trap.frames[0].function.as_str()), (TrapCode::OutOfMemory, "run"));
            assert!(store.heap_bytes() <= 4 << 20);
            // What filled it is garbage now.
            assert_eq!(run(&mut store, &instance, 10_000).expect("room"), 50_005_000);
        }
    });
}

#[test]
fn arrays_that_are_too_large_are_refused_at_once() {
    let text = r#"(module
        (type $wide (array (mut v128))) (type $refs (array (mut anyref)))
        (func (export "wide") (param i32) (result i32) (array.len (array.new_default $wide (local.get 0))))
        (func (export "refs") (param i32) (result i32)
            (array.len (array.new $refs (ref.i31 (i32.const 1)) (local.get 0)))))"#;
    let program = program(text, &Config::default());
    let mut store = store(&Options { max_heap: Some(64 << 20), ..Options::default() });
    let instance = instance(&mut store, &program).expect("an instance");
    for name in ["wide", "refs"] {
        for length in [-1, i32::MIN, i32::MAX, 1 << 28, 8 << 20] {
            let begin = Instant::now();
            let error = instance.call(&mut store, name, &[Val::I32(length)]).expect_err("too large");
            assert_eq!(error.trap().map(|trap| trap.code), Some(TrapCode::OutOfMemory), "{name} {length}");
            assert!(begin.elapsed() < Duration::from_secs(5));
        }
        let result = instance.call(&mut store, name, &[Val::I32(100_000)]).expect("room");
        assert!(matches!(result[..], [Val::I32(100_000)]));
    }
}

/// The end of a process reaches threads that do nothing but allocate and collect, even one in the middle of a collection.
#[test]
fn a_collection_does_not_keep_the_end_waiting() {
    // Holds a list of that many nodes, and then makes garbage for ever.
    let text = r#"(module
        (type $node (struct (field (ref null $node)) (field i64 i64)))
        (import "env" "ready" (func $ready))
        (func (export "run") (param $n i32) (result i32) (local $list (ref null $node))
            (loop $make
                (local.set $list (struct.new $node (local.get $list) (i64.const 1) (i64.const 2)))
                (br_if $make (local.tee $n (i32.sub (local.get $n) (i32.const 1)))))
            (call $ready)
            (loop $litter (drop (struct.new_default $node)) (br $litter))
            (i32.add (i32.const 0) (ref.is_null (local.get $list)))))"#;
    let program = program(text, &Config { guard: GuardMode::All, ..Config::default() });
    within(Duration::from_secs(120), "an end among collections", move || {
        // One collects at its usual pace, the other all the time: a look at a million objects each.
        for (always, nodes) in [(false, 2_000_000), (true, 1_500)] {
            let process =
                Process::new(&Options { collect_always: Some(always), ..Options::default() }).expect("a process");
            let ready = Arc::new(AtomicU32::new(0));
            let (flag, canceller) = (Arc::clone(&ready), process.clone());
            let cancel = thread::spawn(move || {
                while flag.load(Ordering::Acquire) == 0 {
                    thread::sleep(Duration::from_millis(1));
                }
                thread::sleep(Duration::from_millis(50));
                let begin = Instant::now();
                assert!(canceller.cancel() && canceller.settle(Duration::from_secs(30)));
                begin.elapsed()
            });
            let mut store = Store::new(&process).expect("a store");
            let mut imports = Imports::new();
            let ready = Func::typed(move |_: Caller<'_>| {
                ready.store(1, Ordering::Release);
                Ok(())
            });
            imports.define("env", "ready", Extern::Func(ready));
            let imports = imports.resolve(&program.module).expect("offered");
            let instance = Instance::new(&mut store, &program, &imports).expect("an instance");
            let error = run(&mut store, &instance, nodes).expect_err("cancelled");
            assert_eq!(error.trap().map(|trap| trap.code), Some(TrapCode::Interrupted), "{error}");
            let elapsed = cancel.join().expect("no panic");
            assert!(elapsed < Duration::from_secs(2), "{elapsed:?}");
        }
    });
}

/// Each thread has a heap of its own beside the memory that they share.
#[test]
fn threads_collect_each_on_their_own() {
    let text = fs::read_to_string(tests::root().join("fixtures/gc/binary_trees.wat")).expect("readable");
    let program = program(&text.replacen("(module", "(module (memory 1 1 shared)", 1), &Config::default());
    within(Duration::from_secs(120), "four heaps", move || {
        let process = Process::new(&Options::default()).expect("a process");
        let threads: Vec<_> = (0..4)
            .map(|_| {
                let (process, program) = (process.clone(), Arc::clone(&program));
                thread::spawn(move || {
                    let mut store = Store::new(&process).expect("a store");
                    let instance = instance(&mut store, &program).expect("an instance");
                    (run(&mut store, &instance, 14).expect("a result"), store.collections())
                })
            })
            .collect();
        for thread in threads {
            let (result, collections) = thread.join().expect("no panic");
            assert_eq!(result, 15 << 15);
            assert!(collections > 0);
        }
    });
}
