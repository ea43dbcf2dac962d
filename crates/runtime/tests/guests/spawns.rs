//! `wasi.thread-spawn`: identifiers, shared and own state, failures, and nothing left behind.

use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::thread;
use std::time::{Duration, Instant};

use spinwise_model::trap::TrapCode;
use spinwise_model::types::MemoryType;
use spinwise_runtime::{
    Caller, Error, Extern, Func, Instance, Memory, Options, Process, Program, Store, Val, thread_spawn, thread_spawn64,
};

use crate::common::{func, i32_of, named, process, program, within};

/// An instance with `wasi.thread-spawn`, a shared memory where it imports one, and `host.note`.
fn start(process: &Process, program: &Arc<Program>, note: &Func) -> (Store, Instance) {
    let mut store = Store::new(process).expect("a store");
    let ty = MemoryType::new(1, Some(2)).shared();
    let imports = named(&[
        ("wasi", "thread-spawn", func(thread_spawn())),
        ("host", "note", func(note.clone())),
        ("env", "memory", Extern::Memory(Memory::new(ty).expect("a memory"))),
    ]);
    let imports = imports.resolve(&program.module).expect("all offered");
    let instance = Instance::new(&mut store, program, &imports).expect("an instance");
    (store, instance)
}

fn no_note() -> Func {
    Func::typed(|_: Caller<'_>, _: i32| Ok(()))
}

/// Adds its argument to word 0 and wakes who waits there.
const ADDS: &str = r#"(module
    (import "wasi" "thread-spawn" (func $spawn (param i32) (result i32)))
    (import "env" "memory" (memory 1 2 shared))
    (data (i32.const 100) "live")
    (global $own (mut i32) (i32.const 0))
    (func (export "wasi_thread_start") (param $tid i32) (param $argument i32)
        ;; An own global starts at 0 in each thread.
        (if (global.get $own) (then unreachable))
        (global.set $own (i32.const 1))
        (drop (i32.atomic.rmw.add (i32.const 4) (local.get $tid)))
        (drop (i32.atomic.rmw.add (i32.const 0) (local.get $argument)))
        (drop (memory.atomic.notify (i32.const 0) (i32.const -1))))
    (func (export "spawn") (param i32) (result i32)
        (global.set $own (i32.const 1))
        (i32.store8 (i32.const 100) (i32.const 0x4c))
        (call $spawn (local.get 0))))"#;

#[test]
fn children_share_the_memory_and_nothing_else() {
    within(60, || {
        let process = process();
        let (mut store, instance) = start(&process, &program(ADDS), &no_note());
        let tids: Vec<i32> = (1..=5)
            .map(|argument| i32_of(&instance.call(&mut store, "spawn", &[Val::I32(argument)]).expect("a thread")))
            .collect();
        process.join_all();
        assert_eq!(tids, [1, 2, 3, 4, 5]);
        let memory = instance.memory().expect("a memory");
        assert_eq!((memory.load::<u32>(0), memory.load::<u32>(4)), (Ok(15), Ok(15)));
        let mut text = [0; 4];
        memory.read(100, &mut text).expect("inside");
        assert_eq!(&text, b"Live", "a child must not write the segment again");
        assert_eq!(process.threads(), 1);
        assert!(!process.has_ended());
    });
}

#[test]
fn a_defined_and_exported_memory_is_shared_too_and_start_functions_run() {
    within(60, || {
        let text = r#"(module
            (import "wasi" "thread-spawn" (func $spawn (param i32) (result i32)))
            (memory (export "memory") 1 2 shared) (data (i32.const 100) "live")
            (func $init (drop (i32.atomic.rmw.add (i32.const 8) (i32.const 1))))
            (start $init)
            (func (export "wasi_thread_start") (param i32 i32)
                (i32.atomic.store (i32.const 0) (i32.const 7)))
            (func (export "spawn") (result i32)
                (i32.store8 (i32.const 100) (i32.const 0x4c))
                (call $spawn (i32.const 0))))"#;
        let process = process();
        let (mut store, instance) = start(&process, &program(text), &no_note());
        assert_eq!(i32_of(&instance.call(&mut store, "spawn", &[]).expect("a thread")), 1);
        process.join_all();
        let memory = instance.memory().expect("a memory");
        assert_eq!((memory.load::<u32>(0), memory.load::<u32>(8)), (Ok(7), Ok(2)));
        assert_eq!(memory.load::<u8>(100), Ok(b'L'));
    });
}

#[test]
fn a_guest_of_64_bit_addresses_passes_one_on() {
    within(60, || {
        let program_of = |argument: &str| {
            program(&format!(
                r#"(module
                (import "wasi" "thread-spawn" (func $spawn (param i64) (result i32)))
                (memory (export "memory") i64 1 2 shared)
                (func (export "wasi_thread_start") (param $tid i32) (param $argument {argument})
                    (i64.atomic.store (i64.const 8) (i64.extend_i32_u (local.get $tid)))
                    (i64.atomic.store (i64.const 0) {value}))
                (func (export "spawn") (param i64) (result i32) (call $spawn (local.get 0))))"#,
                value = if argument == "i64" { "(local.get $argument)" } else { "(i64.const 0)" },
            ))
        };
        for (argument, answer, stored) in [("i64", 1, 0x5_0000_0007), ("i32", -58, 0)] {
            let process = process();
            let mut store = Store::new(&process).expect("a store");
            let spawn = named(&[("wasi", "thread-spawn", func(thread_spawn64()))]);
            let program = program_of(argument);
            let imports = spawn.resolve(&program.module).expect("all offered");
            let instance = Instance::new(&mut store, &program, &imports).expect("an instance");
            let result = instance.call(&mut store, "spawn", &[Val::I64(0x5_0000_0007)]).expect("an answer");
            assert_eq!(i32_of(&result), answer, "{argument}");
            process.join_all();
            let memory = instance.memory().expect("a memory");
            assert_eq!((memory.load::<u64>(0), memory.load::<u64>(8)), (Ok(stored), Ok(stored & 1)));
        }
    });
}

#[test]
fn what_cannot_start_is_a_negative_error_number() {
    within(60, || {
        let program_of = |start: &str| {
            program(&format!(
                r#"(module (import "wasi" "thread-spawn" (func $spawn (param i32) (result i32)))
                    (memory 1 1 shared) {start}
                    (func (export "spawn") (result i32) (call $spawn (i32.const 0))))"#
            ))
        };
        for (start_function, errno) in [
            ("", -58),
            (r#"(func (export "wasi_thread_start") (param i32))"#, -58),
            // A table that another thread uses cannot be imported.
            (r#"(func (export "wasi_thread_start") (param i32 i32))"#, 1),
        ] {
            let (mut store, instance) = start(&process(), &program_of(start_function), &no_note());
            assert_eq!(i32_of(&instance.call(&mut store, "spawn", &[]).expect("an answer")), errno);
            store.process().join_all();
        }
        let few = Process::new(&Options { max_threads: Some(1), ..Options::default() }).expect("a process");
        let full = program_of(r#"(func (export "wasi_thread_start") (param i32 i32))"#);
        let (mut store, instance) = start(&few, &full, &no_note());
        assert_eq!(i32_of(&instance.call(&mut store, "spawn", &[]).expect("an answer")), -6);
    });
}

#[test]
fn a_child_knows_its_number_and_its_trap_ends_all() {
    within(60, || {
        let text = r#"(module
            (import "wasi" "thread-spawn" (func $spawn (param i32) (result i32)))
            (import "host" "note" (func $note (param i32)))
            (import "env" "memory" (memory 1 2 shared))
            (func $deep unreachable)
            (func (export "wasi_thread_start") (param i32 i32) (call $note (local.get 0)) (call $deep))
            (func (export "_start")
                (drop (call $spawn (i32.const 0)))
                (drop (memory.atomic.wait32 (i32.const 0) (i32.const 0) (i64.const -1)))))"#;
        let noted = Arc::new(AtomicU32::new(0));
        let seen = Arc::clone(&noted);
        let note = Func::typed(move |caller: Caller<'_>, tid: i32| {
            assert_eq!(caller.thread_id().cast_signed(), tid);
            seen.store(caller.thread_id(), Ordering::Relaxed);
            Ok(())
        });
        let process = process();
        let (mut store, instance) = start(&process, &program(text), &note);
        let error = process.run(&mut store, &instance, "_start").expect_err("the child's trap");
        let Error::Trap(trap) = error else { panic!("{error:?}") };
        assert_eq!((trap.code, trap.thread, trap.frames[0].function.as_str()), (TrapCode::Unreachable, 1, "deep"));
        assert_eq!(noted.load(Ordering::Relaxed), 1);
        assert_eq!(process.interruptions().len(), 1, "the first thread was interrupted in its wait");
    });
}

/// OS threads of this process by name, and mappings of it.
fn census() -> (usize, usize) {
    let tasks = fs::read_dir("/proc/self/task").expect("a process");
    let guest = |name: &String| name.starts_with("guest-") || name.starts_with("spinwise-");
    let names = tasks.flatten().filter_map(|task| fs::read_to_string(task.path().join("comm")).ok());
    let threads = names.filter(guest).count();
    let mappings = fs::read_to_string("/proc/self/maps").expect("a process").lines().count();
    (threads, mappings)
}

#[test]
fn a_hundred_processes_leave_nothing_behind() {
    within(120, || {
        let program = program(ADDS);
        let cycle = || {
            let process = process();
            let (mut store, instance) = start(&process, &program, &no_note());
            for argument in 1..=3 {
                instance.call(&mut store, "spawn", &[Val::I32(argument)]).expect("a thread");
            }
            process.join_all();
            assert_eq!(instance.memory().expect("a memory").load::<u32>(0), Ok(6));
        };
        cycle();
        let (_, before) = census();
        for _ in 0..100 {
            cycle();
        }
        // Other tests run in this process: they come and go, a leak of a hundred does not.
        let deadline = Instant::now() + Duration::from_secs(30);
        loop {
            let (_, after) = census();
            if after < before + 60 {
                break;
            }
            assert!(Instant::now() < deadline, "{before} mappings before, {after} after");
            thread::sleep(Duration::from_millis(100));
        }
    });
}

#[test]
fn identifiers_of_finished_threads_come_again_only_after_all_others() {
    within(60, || {
        let process = process();
        let (mut store, instance) = start(&process, &program(ADDS), &no_note());
        let mut last = 0;
        for _ in 0..50 {
            let tid = i32_of(&instance.call(&mut store, "spawn", &[Val::I32(1)]).expect("a thread"));
            assert_eq!(tid, last + 1);
            last = tid;
            process.join_all();
        }
    });
}

/// Growth from several guest threads: distinct old sizes, and the new pages are there for everyone.
#[test]
fn growth_races() {
    within(60, || {
        let text = r#"(module
            (import "wasi" "thread-spawn" (func $spawn (param i32) (result i32)))
            (memory (export "memory") 1 201 shared)
            (func (export "wasi_thread_start") (param i32 i32) (local $n i32) (local $old i32)
                (loop $again
                    (local.set $old (memory.grow (i32.const 1)))
                    (if (i32.eq (local.get $old) (i32.const -1)) (then unreachable))
                    ;; The page that was just added counts up: a page given twice would count to 2.
                    (drop (i32.atomic.rmw.add (i32.mul (local.get $old) (i32.const 65536)) (i32.const 1)))
                    (if (i32.le_u (memory.size) (local.get $old)) (then unreachable))
                    (local.set $n (i32.add (local.get $n) (i32.const 1)))
                    (br_if $again (i32.lt_u (local.get $n) (i32.const 50)))))
            (func (export "spawn") (result i32) (call $spawn (i32.const 0))))"#;
        let process = process();
        let (mut store, instance) = start(&process, &program(text), &no_note());
        for _ in 0..4 {
            instance.call(&mut store, "spawn", &[]).expect("a thread");
        }
        process.join_all();
        assert!(process.end_reason().is_none(), "{:?}", process.end_reason());
        let memory = instance.memory().expect("a memory");
        assert_eq!(memory.pages(), 201);
        for page in 1..201 {
            assert_eq!(memory.load::<u32>(page * MemoryType::PAGE), Ok(1), "page {page}");
        }
    });
}
