//! The end of a process reaches every thread: spinning, waiting, sleeping, blocked; promptly, and each with its place.

use std::io::Write;
use std::os::fd::AsFd;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags};
use spinwise_guard::Mode;
use spinwise_model::trap::TrapCode;
use spinwise_model::types::MemoryType;
use spinwise_runtime::{Caller, Error, Extern, Func, Instance, Memory, Process, Program, Store, Val, thread_spawn};

use crate::common::{func, named, process, program, program_with, within};

/// Ways to be busy for ever. `$sleep` and `$block` are the host's.
const KINDS: [(&str, &str); 8] = [
    ("load", "(loop (br_if 0 (i32.eqz (i32.atomic.load (i32.const 0)))))"),
    ("exchange", "(loop (br_if 0 (i32.eqz (i32.atomic.rmw.add (i32.const 4) (i32.const 0)))))"),
    ("cas", "(loop (drop (i32.atomic.rmw.cmpxchg (i32.const 4) (i32.const 1) (i32.const 2))) (br 0))"),
    ("call", "(loop (br_if 0 (i32.eqz (call $leaf))))"),
    ("wait", "(loop (drop (memory.atomic.wait32 (i32.const 0) (i32.const 0) (i64.const -1))) (br 0))"),
    ("nap", "(loop (drop (memory.atomic.wait32 (i32.const 0) (i32.const 0) (i64.const 1000))) (br 0))"),
    ("sleep", "(loop (call $sleep) (br 0))"),
    ("block", "(loop (call $block) (br 0))"),
];

fn module() -> String {
    let busy: String =
        KINDS.iter().map(|(name, body)| format!(r#"(func $be_{name} (export "{name}") {body}) "#)).collect();
    let pick: String = (0..)
        .zip(KINDS)
        .map(|(i, (name, _)): (u32, _)| format!("(if (i32.eq (local.get 1) (i32.const {i})) (then (call $be_{name})))"))
        .collect();
    format!(
        r#"(module
            (import "wasi" "thread-spawn" (func $spawn (param i32) (result i32)))
            (import "host" "sleep" (func $sleep)) (import "host" "block" (func $block))
            (import "env" "memory" (memory 1 1 shared))
            (func $leaf (result i32) (i32.atomic.load (i32.const 0)))
            {busy}
            (func (export "wasi_thread_start") (param i32 i32) {pick})
            (func $boom (export "boom") unreachable)
            (func (export "spawn") (param i32) (result i32) (call $spawn (local.get 0))))"#
    )
}

fn start(process: &Process, program: &Arc<Program>) -> (Store, Instance) {
    let mut store = Store::new(process).expect("a store");
    let ty = MemoryType::new(1, Some(1)).shared();
    let (reader, writer) = std::io::pipe().expect("a pipe");
    let block = Func::typed(move |caller: Caller<'_>| {
        // The other end stays open and silent.
        let _open = &writer;
        let mut descriptors = [PollFd::from_borrowed_fd(reader.as_fd(), PollFlags::IN)];
        match caller.wait(&mut descriptors, None) {
            Ok(_) => Ok(()),
            Err(error) => Err(Error::host(error)),
        }
    });
    let imports = named(&[
        ("wasi", "thread-spawn", func(thread_spawn())),
        ("host", "sleep", func(Func::typed(|caller: Caller<'_>| caller.sleep(Duration::MAX)))),
        ("host", "block", func(block)),
        ("env", "memory", Extern::Memory(Memory::new(ty).expect("a memory"))),
    ]);
    let imports = imports.resolve(&program.module).expect("all offered");
    let instance = Instance::new(&mut store, program, &imports).expect("an instance");
    (store, instance)
}

/// Generous for a loaded machine, a hundred times what it takes.
const SOON: Duration = Duration::from_secs(1);

#[test]
fn a_cancel_reaches_each_kind_of_busy_thread() {
    within(120, || {
        let program = program(&module());
        for (name, _) in KINDS {
            let process = process();
            let (mut store, instance) = start(&process, &program);
            let canceller = process.clone();
            let cancel = thread::spawn(move || {
                thread::sleep(Duration::from_millis(30));
                let start = Instant::now();
                assert!(canceller.cancel());
                assert!(canceller.settle(Duration::from_secs(20)), "nobody is left inside");
                start.elapsed()
            });
            let error = instance.call(&mut store, name, &[]).expect_err("cancelled");
            let took = cancel.join().expect("no panic");
            assert!(took < SOON, "{name}: {took:?}");
            let trap = error.trap().unwrap_or_else(|| panic!("{name}: {error:?}"));
            assert_eq!(trap.code, TrapCode::Interrupted);
            let function = trap.frames[0].function.trim_start_matches("be_");
            assert!(function == name || (name == "call" && function == "leaf"), "{name}: {trap}");
            assert_eq!(process.interruptions().len(), 1);
            process.join_all();
            let error = instance.call(&mut store, name, &[]).expect_err("no entry after the end");
            assert!(error.trap().is_some_and(|trap| trap.code == TrapCode::Interrupted));
        }
    });
}

#[test]
fn a_trap_in_the_first_thread_ends_all_others() {
    within(120, || {
        let program = program(&module());
        for _ in 0..5 {
            let process = process();
            let (mut store, instance) = start(&process, &program);
            for kind in 0..KINDS.len() {
                let kind = i32::try_from(kind).expect("few");
                instance.call(&mut store, "spawn", &[Val::I32(kind)]).expect("a thread");
            }
            thread::sleep(Duration::from_millis(20));
            let start = Instant::now();
            let error = process.run(&mut store, &instance, "boom").expect_err("its trap");
            assert!(start.elapsed() < SOON, "{:?}", start.elapsed());
            assert_eq!(error.to_string().split(' ').take(2).collect::<Vec<_>>(), ["unreachable:", "boom"]);
            assert_eq!(process.threads(), 1, "all joined");
            let mut places: Vec<String> =
                process.interruptions().iter().map(|trap| trap.frames[0].function.clone()).collect();
            places.sort_unstable();
            assert_eq!(places.len(), KINDS.len(), "{places:?}");
        }
    });
}

#[test]
fn the_first_reason_wins() {
    let process = process();
    assert!(process.end(Error::Exit(7)));
    assert!(!process.end(TrapCode::Unreachable.into()));
    assert!(!process.cancel());
    assert!(matches!(process.end_reason(), Some(Error::Exit(7))));
    assert!(matches!(Store::new(&process), Err(Error::Exit(7))));
}

#[test]
fn another_process_is_not_touched() {
    within(60, || {
        let program = program(&module());
        let (mut store, instance) = start(&process(), &program);
        instance.call(&mut store, "spawn", &[Val::I32(0)]).expect("a thread");
        let bystander = store.process().clone();
        let other = process();
        let (mut other_store, other_instance) = start(&other, &program);
        other.run(&mut other_store, &other_instance, "boom").expect_err("its trap");
        assert!(!bystander.has_ended());
        assert_eq!(bystander.threads(), 2);
        bystander.cancel();
        bystander.join_all();
        assert_eq!(bystander.threads(), 1);
    });
}

#[test]
fn a_compute_loop_stops_where_every_loop_polls() {
    within(60, || {
        let text = r#"(module (func $work (export "run") (loop (br 0)))
            (func $tree (export "tree") (param i32) (result i64)
                (if (result i64) (local.get 0)
                    (then (i64.add (call $tree (i32.sub (local.get 0) (i32.const 1)))
                                   (call $tree (i32.sub (local.get 0) (i32.const 1)))))
                    (else (i64.const 1)))))"#;
        let program = program_with(text, Mode::All);
        for (name, arguments) in [("run", vec![]), ("tree", vec![Val::I32(60)])] {
            let process = process();
            let mut store = Store::new(&process).expect("a store");
            let instance = Instance::new(&mut store, &program, &[]).expect("an instance");
            let canceller = process.clone();
            let cancel = thread::spawn(move || {
                thread::sleep(Duration::from_millis(20));
                canceller.cancel()
            });
            let error = instance.call(&mut store, name, &arguments).expect_err("cancelled");
            assert!(cancel.join().expect("no panic"));
            assert_eq!(error.trap().map(|trap| trap.code), Some(TrapCode::Interrupted));
            process.join_all();
        }
    });
}

/// Without polls a compute loop is not stopped, and the process says where it is.
#[test]
fn who_cannot_be_stopped_is_named() {
    within(60, || {
        let text = r#"(module (memory (export "memory") 1 1 shared)
            (func $work (loop (br_if 0 (i32.eqz (i32.load (i32.const 0))))))
            (func (export "run") (call $work)))"#;
        let program = program(text);
        let process = process();
        let mut store = Store::new(&process).expect("a store");
        let instance = Instance::new(&mut store, &program, &[]).expect("an instance");
        let memory = instance.memory().expect("a memory").clone();
        let call = thread::spawn(move || instance.call(&mut store, "run", &[]));
        while process.stragglers().is_empty() {
            thread::sleep(Duration::from_millis(1));
        }
        process.cancel();
        assert!(!process.settle(Duration::from_millis(50)));
        let stragglers = process.stragglers();
        assert_eq!(stragglers.len(), 1);
        let frame = stragglers[0].frame.as_ref().expect("in guest code");
        assert_eq!(frame.function, "work");
        memory.store(0, 1u32).expect("inside");
        assert!(process.settle(Duration::from_secs(20)));
        assert_eq!(process.stragglers(), []);
        call.join().expect("no panic").expect("the loop ended by itself");
        process.join_all();
    });
}

#[test]
fn a_descriptor_that_becomes_ready_ends_the_wait() {
    within(60, || {
        let (reader, mut writer) = std::io::pipe().expect("a pipe");
        let text = r#"(module (import "host" "wait" (func $wait (result i32))) (func (export "run") (result i32) (call $wait)))"#;
        let wait = Func::typed(move |caller: Caller<'_>| {
            let mut descriptors = [PollFd::from_borrowed_fd(reader.as_fd(), PollFlags::IN)];
            let ready = caller.wait(&mut descriptors, Some(Duration::from_secs(50))).map_err(Error::host)?;
            assert!(descriptors[0].revents().contains(PollFlags::IN));
            Ok(i32::try_from(ready).expect("few"))
        });
        let mut store = crate::common::store();
        let instance =
            crate::common::instantiate(&mut store, text, &[("host", "wait", func(wait))]).expect("an instance");
        let write = thread::spawn(move || {
            thread::sleep(Duration::from_millis(20));
            writer.write_all(b"x").expect("open");
        });
        assert_eq!(crate::common::i32_of(&instance.call(&mut store, "run", &[]).expect("ready")), 1);
        write.join().expect("no panic");
    });
}

/// More threads than CPUs hand a turn round in a bare spin: it must go forward at yields, not at time slices.
#[test]
fn spinning_in_a_crowd_goes_forward() {
    within(120, || {
        let text = r#"(module
            (import "wasi" "thread-spawn" (func $spawn (param i32) (result i32)))
            (memory (export "memory") 1 1 shared)
            (func (export "wasi_thread_start") (param i32 i32) (local $turn i32)
                (local.set $turn (local.get 1))
                (loop $round
                    (loop $spin (br_if $spin (i32.ne (i32.atomic.load (i32.const 0)) (local.get $turn))))
                    (i32.atomic.store (i32.const 0) (i32.add (local.get $turn) (i32.const 1)))
                    (local.set $turn (i32.add (local.get $turn) (i32.const 8)))
                    (br_if $round (i32.lt_u (local.get $turn) (i32.const 400)))))
            (func (export "spawn") (param i32) (result i32) (call $spawn (local.get 0))))"#;
        let process = process();
        let (mut store, instance) = start(&process, &program(text));
        let start = Instant::now();
        for i in 0..8 {
            instance.call(&mut store, "spawn", &[Val::I32(i)]).expect("a thread");
        }
        process.join_all();
        assert_eq!(instance.memory().expect("a memory").load::<u32>(0), Ok(400));
        assert!(start.elapsed() < Duration::from_secs(60), "400 turns took {:?}", start.elapsed());
    });
}
