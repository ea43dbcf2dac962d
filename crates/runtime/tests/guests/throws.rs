//! Exceptions at the borders: through imports, tables and the host, out of start functions and threads, and what the host
//! can make of them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::Duration;

use spinwise_model::trap::TrapCode;
use spinwise_model::types::{FuncType, HeapType, MemoryType, RefType, ValType};
use spinwise_runtime::{
    Caller, Error, Exception, Extern, Func, Instance, Memory, Process, Store, Tag, Val, thread_spawn,
};

use crate::common::{func, i32_of, instantiate, named, process, program, store, within};

/// Exports a tag, functions that throw and one that catches it, and a table of them.
const THROWER: &str = r#"(module
    (tag $e (export "e") (param i32 f64))
    (tag $own)
    (func $throw (export "throw") (param i32) (throw $e (local.get 0) (f64.const 2.5)))
    (func $throw_own (export "throw_own") (param i32) (throw $own))
    (table (export "table") funcref (elem $throw $throw_own)))"#;

/// Catches what the other one throws, by each way that leads there.
const CATCHER: &str = r#"(module
    (import "other" "e" (tag $e (param i32 f64)))
    (import "other" "throw" (func $throw (param i32)))
    (import "other" "table" (table 2 funcref))
    (tag $same_type (param i32 f64))
    (type $t (func (param i32)))
    (func (export "direct") (param i32) (result i32)
        (block $wrong (result i32 f64)
            (block $caught (result i32 f64)
                (try_table (catch $same_type $wrong) (catch $e $caught) (call $throw (local.get 0)))
                (unreachable))
            (drop) (return))
        (unreachable))
    (func (export "indirect") (param i32 i32) (result i32)
        (block $all
            (block $caught (result i32 f64)
                (try_table (catch $e $caught) (catch_all $all)
                    (call_indirect (type $t) (local.get 0) (local.get 1)))
                (unreachable))
            (drop) (return))
        (i32.const -1))
    (func (export "not_caught") (param i32) (result i32)
        (block $caught (result i32 f64)
            (try_table (catch $same_type $caught) (call $throw (local.get 0)))
            (unreachable))
        (drop)))"#;

fn export(instance: &Instance, name: &str) -> Extern {
    instance.export(name).unwrap_or_else(|| panic!("an export {name}"))
}

fn tag(instance: &Instance, name: &str) -> Tag {
    match export(instance, name) {
        Extern::Tag(tag) => tag,
        other => panic!("{other:?}"),
    }
}

fn exception(error: Error) -> Exception {
    match error {
        Error::Exception(exception) => exception,
        other => panic!("expected an exception, not {other:?}"),
    }
}

#[test]
fn exceptions_cross_instances() {
    let mut store = store();
    let thrower = instantiate(&mut store, THROWER, &[]).expect("an instance");
    let names = ["e", "throw", "table"];
    let imports = names.map(|name| ("other", name, export(&thrower, name)));
    let catcher = instantiate(&mut store, CATCHER, &imports).expect("an instance");
    let mut call = |name: &str, arguments: &[i32]| {
        let arguments: Vec<Val> = arguments.iter().map(|argument| Val::I32(*argument)).collect();
        catcher.call(&mut store, name, &arguments)
    };
    assert_eq!(i32_of(&call("direct", &[17]).expect("caught")), 17);
    assert_eq!(i32_of(&call("indirect", &[18, 0]).expect("caught")), 18);
    assert_eq!(i32_of(&call("indirect", &[18, 1]).expect("caught by all")), -1);
    let uncaught = exception(call("not_caught", &[19]).expect_err("another tag"));
    assert!(uncaught.tag().same(&tag(&thrower, "e")));
    let values = uncaught.values(&mut store).expect("its store");
    assert!(matches!(values[..], [Val::I32(19), Val::F64(bits)] if f64::from_bits(bits) == 2.5), "{values:?}");
    // The place is the throwing function's, in the throwing module.
    let place = uncaught.frame().expect("a place");
    assert_eq!(place.function, "throw");
    let offset = place.wasm_offset.expect("an offset");
    assert_eq!(uncaught.to_string(), format!("uncaught exception e: throw (wasm offset 0x{offset:x})"));
    let bytes = wat::parse_str(THROWER).expect("text that parses");
    assert_eq!(bytes[offset as usize], 0x08, "the opcode of throw");
    let error = catcher.call(&mut store, "not_caught", &[Val::I32(1)]).expect_err("as before");
    assert!(!exception(error).same(&uncaught));
    let error = thrower.call(&mut store, "throw_own", &[Val::I32(0)]).expect_err("uncaught");
    assert!(error.to_string().starts_with("uncaught exception: throw_own (wasm offset 0x"), "{error}");
}

#[test]
fn tags_fit_by_type_alone() {
    let mut store = store();
    let thrower = instantiate(&mut store, THROWER, &[]).expect("an instance");
    let wanted = r#"(module (import "m" "x" (tag (param i32))))"#;
    let error = instantiate(&mut store, wanted, &[("m", "x", export(&thrower, "e"))]).expect_err("another type");
    assert_eq!(error.to_string(), "incompatible import type: m.x: expected (i32) -> (), found (i32 f64) -> ()");
    let error = instantiate(&mut store, wanted, &[("m", "x", export(&thrower, "throw"))]).expect_err("no tag");
    assert_eq!(error.to_string(), "incompatible import type: m.x: expected a tag, found a function");
    let ours = Tag::new(vec![ValType::I32]);
    instantiate(&mut store, wanted, &[("m", "x", Extern::Tag(ours.clone()))]).expect("it fits");
    assert!(ours.same(&ours.clone()) && !ours.same(&Tag::new(vec![ValType::I32])));
}

/// Calls the host, which calls back; around both, handlers.
const AROUND: &str = r#"(module
    (import "host" "e" (tag $e (param i32)))
    (import "host" "f" (func $f (param i32) (result i32)))
    (func $inner (export "inner") (param i32) (result i32)
        (if (i32.gt_s (local.get 0) (i32.const 100)) (then (unreachable)))
        (throw $e (local.get 0)))
    (func (export "outer") (param i32) (result i32)
        (block $caught (result i32)
            (try_table (catch $e $caught) (return (call $f (local.get 0))))
            (unreachable))
        (i32.add (i32.const 1000)))
    (func (export "all") (param i32) (result i32)
        (block $caught
            (try_table (catch_all $caught) (return (call $f (local.get 0)))))
        (i32.const -1)))"#;

#[test]
fn exceptions_cross_the_host_by_returns() {
    /// Counts that host frames end.
    struct Dropped(Arc<AtomicU32>);
    impl Drop for Dropped {
        fn drop(&mut self) {
            self.0.fetch_add(1, Ordering::Relaxed);
        }
    }
    let mut store = store();
    let e = Tag::new(vec![ValType::I32]);
    let dropped = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&dropped);
    let f = Func::typed(move |mut caller: Caller<'_>, x: i32| {
        let _ends = Dropped(Arc::clone(&count));
        let instance = caller.instance().expect("a guest calls");
        let results = instance.call(&mut caller, "inner", &[Val::I32(x)])?;
        Ok(i32_of(&results))
    });
    let imports = [("host", "e", Extern::Tag(e.clone())), ("host", "f", func(f))];
    let instance = instantiate(&mut store, AROUND, &imports).expect("an instance");
    let mut call = |name: &str, x| instance.call(&mut store, name, &[Val::I32(x)]);
    assert_eq!(i32_of(&call("outer", 7).expect("caught")), 1007);
    assert_eq!(i32_of(&call("all", 7).expect("caught")), -1);
    assert_eq!(dropped.load(Ordering::Relaxed), 2);
    // A trap is the host function's error too, but nothing catches it.
    let error = call("all", 101).expect_err("a trap");
    assert_eq!(error.trap().map(|trap| trap.code), Some(TrapCode::Unreachable), "{error}");
    assert_eq!(dropped.load(Ordering::Relaxed), 3);
    // Many times, and deep: each entry is left properly.
    for x in 0..1000 {
        assert_eq!(i32_of(&call("outer", x % 100).expect("caught")), 1000 + x % 100);
    }
}

#[test]
fn the_host_throws_and_catches() {
    let mut store = store();
    let e = Tag::new(vec![ValType::I32]);
    let thrown = e.clone();
    let f = Func::typed(move |mut caller: Caller<'_>, x: i32| -> Result<i32, Error> {
        match x {
            0 => Err(Error::host("no exception")),
            1 => Err(Error::Exit(3)),
            2 => {
                let wrong = Exception::new(&mut caller, &thrown, &[]).expect_err("a value is missing");
                assert!(matches!(wrong, Error::Usage(_)), "{wrong}");
                Ok(5)
            }
            _ => Err(Exception::new(&mut caller, &thrown, &[Val::I32(x)])?.into()),
        }
    });
    let imports = [("host", "e", Extern::Tag(e.clone())), ("host", "f", func(f))];
    let instance = instantiate(&mut store, AROUND, &imports).expect("an instance");
    let mut call = |name: &str, x| instance.call(&mut store, name, &[Val::I32(x)]);
    assert_eq!(i32_of(&call("outer", 40).expect("caught")), 1040);
    assert_eq!(i32_of(&call("all", 40).expect("caught")), -1);
    assert_eq!(i32_of(&call("all", 2).expect("a result")), 5);
    assert_eq!(call("all", 0).expect_err("no exception").to_string(), "host function failed: no exception");
    assert!(matches!(call("all", 1), Err(Error::Exit(3))), "exits are not caught");
    let error = instance.call(&mut store, "inner", &[Val::I32(6)]).expect_err("uncaught");
    let uncaught = exception(error);
    assert!(uncaught.tag().same(&e));
    assert_eq!(i32_of(&uncaught.values(&mut store).expect("its store")), 6);
}

#[test]
fn an_exception_is_its_thread_s() {
    let text = r#"(module
        (import "host" "f" (func $f))
        (func (export "all") (result i32)
            (block $caught (try_table (catch_all $caught) (call $f)) (return (i32.const 0)))
            (i32.const 1)))"#;
    let mut other = store();
    let tag = Tag::new(vec![]);
    let foreign = Exception::new(&mut other, &tag, &[]).expect("an exception");
    let thrown = foreign.clone();
    let f = Func::typed(move |_: Caller<'_>| Err::<(), Error>(thrown.clone().into()));
    let mut store = store();
    let instance = instantiate(&mut store, text, &[("host", "f", func(f))]).expect("an instance");
    let error = instance.call(&mut store, "all", &[]).expect_err("it is not thrown here");
    assert!(exception(error).same(&foreign));
    assert!(matches!(foreign.values(&mut store), Err(Error::Usage(_))));
    // It outlives its store.
    drop(other);
    assert_eq!(foreign.to_string(), "uncaught exception of the host");
}

#[test]
fn references_to_exceptions_are_values() {
    let text = r#"(module (tag $e (export "e") (param i64))
        (import "host" "keep" (func $keep (param exnref i64) (result i64 exnref)))
        (global $g (export "g") (mut exnref) (ref.null exn))
        (table $t (export "t") 2 exnref)
        (func $boom (param i64) (throw $e (local.get 0)))
        (func $make (export "make") (param i64) (result exnref)
            (block $caught (result exnref)
                (try_table (catch_all_ref $caught) (call $boom (local.get 0)))
                (unreachable)))
        (func (export "store") (param i64)
            (global.set $g (call $make (local.get 0)))
            (table.set $t (i32.const 1) (global.get $g)))
        (func (export "through") (param i64) (result exnref) (local $e exnref)
            (call $keep (call $make (local.get 0)) (i64.const 5))
            (local.set $e)
            (if (i64.ne (i64.const 6)) (then (unreachable)))
            (local.get $e))
        (func $throw (param exnref) (throw_ref (local.get 0)))
        (func (export "value") (param exnref) (result i64)
            (block $caught (result i64)
                (try_table (catch $e $caught) (call $throw (local.get 0)))
                (unreachable))))"#;
    let exn = ValType::Ref(RefType { nullable: true, heap: HeapType::Exn });
    let ty = FuncType { params: vec![exn, ValType::I64], results: vec![ValType::I64, exn] };
    let keep = Func::host(ty, |_, values| match values {
        [exception @ Val::ExnRef(Some(_)), Val::I64(5)] => Ok(vec![Val::I64(6), exception.clone()]),
        other => Err(Error::host(format!("{other:?}"))),
    });
    let mut store = store();
    let instance = instantiate(&mut store, text, &[("host", "keep", func(keep))]).expect("an instance");
    let mut call = |name: &str, argument: Val| instance.call(&mut store, name, &[argument]);
    let made = call("make", Val::I64(41)).expect("a reference").remove(0);
    let through = call("through", Val::I64(42)).expect("a reference").remove(0);
    let value = |results: Vec<Val>| match results[..] {
        [Val::I64(value)] => value,
        ref other => panic!("{other:?}"),
    };
    assert_eq!(value(call("value", made.clone()).expect("thrown and caught")), 41);
    assert_eq!(value(call("value", through).expect("thrown and caught")), 42);
    assert_eq!(value(call("value", made.clone()).expect("as often as one likes")), 41);
    let error = call("value", Val::ExnRef(None)).expect_err("null");
    assert_eq!(error.trap().map(|trap| trap.code), Some(TrapCode::NullReference));
    call("store", Val::I64(43)).expect("stored");
    let (Extern::Global(global), Extern::Table(table)) = (export(&instance, "g"), export(&instance, "t")) else {
        panic!("a global and a table")
    };
    let of = |value: Val| match value {
        Val::ExnRef(Some(exception)) => exception,
        other => panic!("{other:?}"),
    };
    let stored = of(global.get(&mut store).expect("its value"));
    assert!(stored.same(&of(table.get(&mut store, 1).expect("its store").expect("inside"))));
    assert!(matches!(stored.values(&mut store).expect("its store")[..], [Val::I64(43)]));
    assert!(matches!(table.get(&mut store, 0), Ok(Some(Val::ExnRef(None)))));
    global.set(&mut store, &made).expect("its type");
    assert!(of(made.clone()).same(&of(global.get(&mut store).expect("its value"))));
    assert!(matches!(global.set(&mut store, &Val::FuncRef(None)), Err(Error::Usage(_))));
    // Another store's thread cannot take it.
    let mut other = crate::common::store();
    let keep = Func::host(FuncType { params: vec![exn, ValType::I64], results: vec![ValType::I64, exn] }, |_, _| {
        Err(Error::host("never called"))
    });
    let elsewhere = instantiate(&mut other, text, &[("host", "keep", func(keep))]).expect("an instance");
    assert!(matches!(elsewhere.call(&mut other, "value", &[made]), Err(Error::Usage(_))));
}

#[test]
fn a_start_function_may_throw_and_catch() {
    let mut store = store();
    let throws = r#"(module (tag $e (export "oops")) (func $boom (throw $e)) (start $boom))"#;
    let error = instantiate(&mut store, throws, &[]).expect_err("it throws");
    assert!(error.to_string().starts_with("uncaught exception oops: boom (wasm offset 0x"), "{error}");
    let catches = r#"(module (tag $e) (global (export "g") (mut i32) (i32.const 0)) (func $boom (throw $e))
        (func $start (block $caught (try_table (catch $e $caught) (call $boom)) (return)) (global.set 0 (i32.const 9)))
        (start $start))"#;
    let instance = instantiate(&mut store, catches, &[]).expect("caught");
    let Extern::Global(global) = export(&instance, "g") else { panic!("a global") };
    assert!(matches!(global.get(&mut store).expect("its value"), Val::I32(9)));
}

/// Threads: `spin` waits for ever, `boom` throws, `fine` throws and catches, again and again.
const THREADS: &str = r#"(module
    (import "wasi" "thread-spawn" (func $spawn (param i32) (result i32)))
    (import "env" "memory" (memory 1 1 shared))
    (tag $e (export "bad_thing") (param i32))
    (func $spin (loop (br_if 0 (i32.eqz (i32.atomic.load (i32.const 0))))))
    (func $boom (param i32) (throw $e (local.get 0)))
    (func $fine (local $turns i32)
        (loop $again
            (block $caught (result i32)
                (try_table (catch $e $caught) (call $boom (local.get $turns)))
                (unreachable))
            (if (i32.ne (local.get $turns)) (then (unreachable)))
            (br_if $again (i32.lt_u (local.tee $turns (i32.add (local.get $turns) (i32.const 1))) (i32.const 20000))))
        (drop (i32.atomic.rmw.add (i32.const 8) (i32.const 1))))
    (func (export "wasi_thread_start") (param i32 i32)
        (if (i32.eq (local.get 1) (i32.const 0)) (then (block $c (try_table (catch_all $c) (call $spin)))))
        (if (i32.eq (local.get 1) (i32.const 1)) (then (call $boom (local.get 0))))
        (if (i32.eq (local.get 1) (i32.const 2)) (then (call $fine))))
    (func (export "bad") (local $i i32)
        (drop (call $spawn (i32.const 0))) (drop (call $spawn (i32.const 0))) (drop (call $spawn (i32.const 1)))
        (block $caught (try_table (catch_all $caught) (call $spin))))
    (func (export "good")
        (drop (call $spawn (i32.const 2))) (drop (call $spawn (i32.const 2))) (drop (call $spawn (i32.const 2)))
        (call $fine)
        (loop $wait (br_if $wait (i32.lt_u (i32.atomic.load (i32.const 8)) (i32.const 4))))))"#;

fn start(process: &Process) -> (Store, Instance) {
    let mut store = Store::new(process).expect("a store");
    let ty = MemoryType::new(1, Some(1)).shared();
    let memory = Memory::new(ty).expect("a memory");
    let program = program(THREADS);
    let imports = named(&[("wasi", "thread-spawn", func(thread_spawn())), ("env", "memory", Extern::Memory(memory))]);
    let imports = imports.resolve(&program.module).expect("all offered");
    let instance = Instance::new(&mut store, &program, &imports).expect("an instance");
    (store, instance)
}

#[test]
fn an_exception_that_no_thread_catches_ends_all() {
    within(60, || {
        let process = process();
        let (mut store, instance) = start(&process);
        // Nobody catches another thread's exception, nor the end that it brings.
        let error = process.run(&mut store, &instance, "bad").expect_err("a thread threw");
        assert!(error.to_string().starts_with("uncaught exception bad_thing: boom (wasm offset 0x"), "{error}");
        // The first thread, and two that spin unless they were too late to begin.
        let interrupted = process.interruptions().len();
        assert!((1..=3).contains(&interrupted), "{interrupted}");
    });
}

#[test]
fn threads_throw_and_catch_beside_each_other() {
    within(60, || {
        let process = process();
        let (mut store, instance) = start(&process);
        assert_eq!(process.run(&mut store, &instance, "good").expect("no error"), 0);
    });
}

#[test]
fn nothing_catches_a_cancel() {
    within(60, || {
        let text = r#"(module
            (import "host" "sleep" (func $sleep))
            (func (export "f") (result i32)
                (loop $again
                    (block $caught (try_table (catch_all $caught) (call $sleep)))
                    (br $again))
                (unreachable)))"#;
        let process = process();
        let mut store = Store::new(&process).expect("a store");
        let sleep = Func::typed(|caller: Caller<'_>| caller.sleep(Duration::MAX));
        let instance = instantiate(&mut store, text, &[("host", "sleep", func(sleep))]).expect("an instance");
        let canceller = process.clone();
        let cancel = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            canceller.cancel() && canceller.settle(Duration::from_secs(20))
        });
        let error = instance.call(&mut store, "f", &[]).expect_err("cancelled");
        assert!(cancel.join().expect("no panic"));
        assert_eq!(error.trap().map(|trap| trap.code), Some(TrapCode::Interrupted), "{error}");
    });
}

#[test]
fn an_end_comes_before_a_throw() {
    let mut store = store();
    let e = Tag::new(vec![ValType::I32]);
    let thrown = e.clone();
    let f = Func::typed(move |mut caller: Caller<'_>, x: i32| -> Result<i32, Error> {
        let exception = Exception::new(&mut caller, &thrown, &[Val::I32(x)])?;
        caller.process().cancel();
        Err(exception.into())
    });
    let imports = [("host", "e", Extern::Tag(e)), ("host", "f", func(f))];
    let instance = instantiate(&mut store, AROUND, &imports).expect("an instance");
    let error = instance.call(&mut store, "outer", &[Val::I32(1)]).expect_err("the process has ended");
    assert!(
        error.exception().is_some() || error.trap().is_some_and(|trap| trap.code == TrapCode::Interrupted),
        "{error}"
    );
}

#[test]
fn a_throw_without_stack_is_a_trap() {
    // At each depth the function may throw; near the end of the stack there is no room to look for a handler.
    let text = r#"(module (tag $e) (global $depth (mut i32) (i32.const 0))
        (func $down (param i32)
            (global.set $depth (i32.add (global.get $depth) (i32.const 1)))
            (if (i32.eqz (local.get 0)) (then (throw $e)))
            (call $down (i32.sub (local.get 0) (i32.const 1))) (global.set $depth (i32.const 0)))
        (func (export "run") (param i32) (result i32)
            (block $caught (try_table (catch $e $caught) (call $down (local.get 0))) (unreachable))
            (i32.const 1)))"#;
    let mut store = store();
    let instance = instantiate(&mut store, text, &[]).expect("an instance");
    let (mut good, mut bad) = (1, 100_000_000);
    while bad - good > 1 {
        let depth = good + (bad - good) / 2;
        match instance.call(&mut store, "run", &[Val::I32(depth)]) {
            Ok(results) => {
                assert_eq!(i32_of(&results), 1);
                good = depth;
            }
            Err(error) => {
                assert_eq!(error.trap().map(|trap| trap.code), Some(TrapCode::StackOverflow), "{error}");
                bad = depth;
            }
        }
    }
    assert!(good > 10_000, "{good}");
}
