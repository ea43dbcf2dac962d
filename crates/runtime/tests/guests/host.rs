//! Host functions: parameters, results, failures, panics, and faults that are the host's own.

use std::process::Command;
use std::sync::Arc;
use std::time::{Duration, Instant};

use spinwise_model::trap::TrapCode;
use spinwise_model::types::{FuncType, ValType};
use spinwise_runtime::{Caller, Error, Extern, Func, OutOfBounds, Val};

use crate::common::{func, i32_of, instantiate, place, store};

#[test]
fn every_type_travels_both_ways() {
    let text = r#"(module
        (import "host" "mix" (func $mix (param i32 i64 f32 f64 v128 externref) (result externref v128 f64 f32 i64 i32)))
        (func (export "run") (param i32 i64 f32 f64 v128 externref) (result externref v128 f64 f32 i64 i32)
            (call $mix (local.get 0) (local.get 1) (local.get 2) (local.get 3) (local.get 4) (local.get 5))))"#;
    let params = vec![ValType::I32, ValType::I64, ValType::F32, ValType::F64, ValType::V128, ValType::EXTERNREF];
    let results = params.iter().rev().copied().collect();
    let reverse = Func::host(FuncType { params, results }, |_, values| Ok(values.iter().rev().cloned().collect()));
    let mut store = store();
    let instance = instantiate(&mut store, text, &[("host", "mix", func(reverse))]).expect("an instance");
    let arguments = [
        Val::I32(-5),
        Val::I64(i64::MIN + 1),
        Val::F32(0x7fa0_0001),
        Val::F64(0xfff4_0000_0000_0001),
        Val::V128(0x0f0e_0d0c_0b0a_0908_0706_0504_0302_0100),
        Val::ExternRef(Some(0)),
    ];
    let results = instance.call(&mut store, "run", &arguments).expect("results");
    let expected: Vec<&Val> = arguments.iter().rev().collect();
    assert_eq!(format!("{results:?}"), format!("{expected:?}"));
}

#[test]
fn typed_closures_have_their_rust_types() {
    let text = r#"(module
        (import "host" "add" (func $add (param i32 i64 f32 f64) (result f64)))
        (import "host" "two" (func $two (result i32 i64)))
        (func (export "run") (result f64) (local i64)
            (call $two) (local.set 0)
            (call $add (local.get 0) (f32.const 0.5) (f64.const 0.25))))"#;
    let add = Func::typed(|_: Caller<'_>, a: i32, b: i64, c: f32, d: f64| {
        Ok(f64::from(a) + f64::from(i32::try_from(b).map_err(Error::host)?) + f64::from(c) + d)
    });
    let two = Func::typed(|_: Caller<'_>| Ok((1i32, 2i64)));
    let mut store = store();
    let imports = [("host", "add", func(add)), ("host", "two", func(two))];
    let instance = instantiate(&mut store, text, &imports).expect("an instance");
    let results = instance.call(&mut store, "run", &[]).expect("a result");
    assert!(matches!(results[..], [Val::F64(bits)] if f64::from_bits(bits) == 3.75), "{results:?}");
}

const CALLS: &str = r#"(module
    (import "host" "f" (func $import))
    (memory (export "memory") 1)
    (func $g (export "run") (call $import)))"#;

#[test]
fn errors_exits_and_panics_end_the_call() {
    let mut store = store();
    let mut run = |f: Func| {
        let instance = instantiate(&mut store, CALLS, &[("host", "f", func(f))]).expect("an instance");
        let first = instance.call(&mut store, "run", &[]).expect_err("it fails");
        let second = instance.call(&mut store, "run", &[]).expect_err("it fails again");
        assert_eq!(first.to_string(), second.to_string());
        first
    };
    let failed = run(Func::typed(|_: Caller<'_>| Err::<(), _>(Error::host("no such thing"))));
    assert_eq!(failed.to_string(), "host function failed: no such thing");
    let exited = run(Func::typed(|_: Caller<'_>| Err::<(), _>(Error::Exit(3))));
    assert!(matches!(exited, Error::Exit(3)));
    let panicked = run(Func::typed(|_: Caller<'_>| -> Result<(), Error> { panic!("a bug in {}", "the host") }));
    assert_eq!(panicked.to_string(), "host function failed: panicked: a bug in the host");
    let trapped = run(Func::typed(|_: Caller<'_>| Err::<(), Error>(TrapCode::Unreachable.into())));
    assert_eq!(place::<()>(Err(trapped)).1, "g", "a host's trap is where the guest called it");
    let misfit = run(Func::host(FuncType::default(), |_, _| Ok(vec![Val::I32(1)])));
    assert!(misfit.to_string().contains("do not fit its type"), "{misfit}");
}

#[test]
fn the_caller_s_memory_is_copied_in_and_out() {
    let f = Func::typed(|caller: Caller<'_>| {
        let memory = caller.memory().expect("the caller exports one");
        memory.write(65530, b"abcdef")?;
        let mut back = [0; 3];
        memory.read(65532, &mut back)?;
        assert_eq!(&back, b"cde");
        assert_eq!(memory.write(65531, b"abcdef"), Err(OutOfBounds));
        memory.write(65531, b"abcdef")?;
        Ok(())
    });
    let mut store = store();
    let instance = instantiate(&mut store, CALLS, &[("host", "f", func(f))]).expect("an instance");
    let (code, function, _) = place(instance.call(&mut store, "run", &[]));
    assert_eq!((code, function.as_str()), (TrapCode::MemoryOutOfBounds, "g"));
}

#[test]
fn wrong_calls_are_errors_that_say_why() {
    let text = r#"(module (memory (export "m") 1) (func (export "f") (param i32 f64)))"#;
    let mut store = store();
    let instance = instantiate(&mut store, text, &[]).expect("an instance");
    let mut message = |name: &str, arguments: &[Val]| {
        instance.call(&mut store, name, arguments).expect_err("a wrong call").to_string()
    };
    assert_eq!(message("f", &[Val::I64(1)]), "the function takes (i32 f64), not (i64)");
    assert_eq!(message("g", &[]), "no export named g");
    assert_eq!(message("m", &[]), "export m is no function");

    let mut other = crate::common::store();
    let error = instance.call(&mut other, "f", &[Val::I32(1), Val::F64(0)]).expect_err("another thread's");
    assert_eq!(error.to_string(), "the instance belongs to another store");
}

#[test]
fn sleeping_and_blocking_take_their_time() {
    let f = Func::typed(|caller: Caller<'_>| {
        caller.sleep(Duration::from_millis(20))?;
        let ready = caller.wait(&mut [], Some(Duration::from_millis(20))).map_err(Error::host)?;
        assert_eq!(ready, 0);
        assert_eq!(caller.blocking(|| 5), 5);
        Ok(())
    });
    let mut store = store();
    let instance = instantiate(&mut store, CALLS, &[("host", "f", func(f))]).expect("an instance");
    let start = Instant::now();
    instance.call(&mut store, "run", &[]).expect("no error");
    assert!(start.elapsed() >= Duration::from_millis(40));
}

/// Set in the child process of the next test.
const CRASH: &str = "SPINWISE_TEST_CRASH";

/// A fault in a host function is the host's: it must kill the process, not become the guest's trap.
#[test]
#[expect(unsafe_code, reason = "faults on purpose")]
fn a_fault_of_the_host_is_no_trap() {
    if std::env::var_os(CRASH).is_some() {
        let f = Func::typed(|_: Caller<'_>| {
            let nowhere = std::hint::black_box(std::ptr::null_mut::<u32>()).wrapping_add(4);
            // SAFETY: none; this is to fault.
            unsafe { nowhere.write_volatile(1) };
            Ok(())
        });
        let mut store = store();
        let instance = instantiate(&mut store, CALLS, &[("host", "f", func(f))]).expect("an instance");
        let result = instance.call(&mut store, "run", &[]);
        println!("survived: {result:?}");
        return;
    }
    let this = std::env::current_exe().expect("a path");
    let test = "host::a_fault_of_the_host_is_no_trap";
    let output = Command::new(this).args(["--exact", test, "--nocapture"]).env(CRASH, "1").output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(!text.contains("survived"), "{text}");
    assert_eq!(std::os::unix::process::ExitStatusExt::signal(&output.status), Some(libc::SIGSEGV), "{output:?}");
}

#[test]
fn a_host_function_is_exported_again_and_called_by_the_host() {
    let text = r#"(module (import "host" "f" (func $import (param i32) (result i32))) (export "f" (func $import)))"#;
    let f = Func::typed(|caller: Caller<'_>, x: i32| {
        assert!(caller.instance().is_none(), "no guest called");
        Ok(x + 1)
    });
    let mut store = store();
    let instance = instantiate(&mut store, text, &[("host", "f", func(f.clone()))]).expect("an instance");
    let Some(Extern::Func(exported)) = instance.export("f") else { panic!("a function") };
    assert!(exported.same(&f));
    assert_eq!(i32_of(&exported.call(&mut store, &[Val::I32(1)]).expect("a result")), 2);
}

#[test]
fn host_functions_are_dropped_with_their_instances() {
    let alive = Arc::new(());
    let held = Arc::clone(&alive);
    let f = Func::typed(move |_: Caller<'_>| {
        let _held = &held;
        Ok(())
    });
    let mut store = store();
    drop(instantiate(&mut store, CALLS, &[("host", "f", func(f))]).expect("an instance"));
    assert_eq!(Arc::strong_count(&alive), 2, "as long as the store");
    drop(store);
    assert_eq!(Arc::strong_count(&alive), 1);
}
