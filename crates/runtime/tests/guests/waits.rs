//! `memory.atomic.wait` and `notify`: order, counts, timeouts, races between them.

use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use spinwise_model::types::MemoryType;
use spinwise_runtime::{Extern, Instance, Memory, Process, Program, Store, Val};

use crate::common::{i32_of, named, process, program, within};

const WAITS: &str = r#"(module (import "m" "memory" (memory 1 1 shared))
    (func (export "wait32") (param i32 i32 i64) (result i32)
        (memory.atomic.wait32 (local.get 0) (local.get 1) (local.get 2)))
    (func (export "wait64") (param i32 i64 i64) (result i32)
        (memory.atomic.wait64 offset=8 (local.get 0) (local.get 1) (local.get 2)))
    (func (export "notify") (param i32 i32) (result i32)
        (memory.atomic.notify (local.get 0) (local.get 1))))"#;

/// A memory, and threads that work on it.
#[derive(Clone)]
struct Shared {
    process: Process,
    program: Arc<Program>,
    memory: Memory,
}

impl Shared {
    fn new() -> Self {
        let ty = MemoryType::new(1, Some(1)).shared();
        Self { process: process(), program: program(WAITS), memory: Memory::new(ty).expect("a memory") }
    }

    fn thread(&self) -> (Store, Instance) {
        let mut store = Store::new(&self.process).expect("a store");
        let imports = named(&[("m", "memory", Extern::Memory(self.memory.clone()))]);
        let imports = imports.resolve(&self.program.module).expect("its memory");
        let instance = Instance::new(&mut store, &self.program, &imports).expect("an instance");
        (store, instance)
    }

    fn wait32(&self, address: i32, expected: i32, timeout: i64) -> i32 {
        let (mut store, instance) = self.thread();
        let arguments = [Val::I32(address), Val::I32(expected), Val::I64(timeout)];
        i32_of(&instance.call(&mut store, "wait32", &arguments).expect("an answer"))
    }

    /// Waits in the background; the wait has begun when this returns.
    fn waiter(&self, address: i32, done: impl FnOnce(i32) + Send + 'static) -> thread::JoinHandle<()> {
        let before = self.waiting(address);
        let shared = self.clone();
        let handle = thread::spawn(move || done(shared.wait32(address, 0, -1)));
        while self.waiting(address) == before {
            thread::sleep(Duration::from_millis(1));
        }
        handle
    }

    fn waiting(&self, address: i32) -> usize {
        self.memory.waiting(u64::from(address.cast_unsigned()))
    }
}

#[test]
fn answers_and_timeouts() {
    within(60, || {
        let shared = Shared::new();
        assert_eq!(shared.wait32(0, 1, -1), 1, "not equal");
        for timeout in [0, 1, 999, 5_000_000] {
            let start = Instant::now();
            assert_eq!(shared.wait32(0, 0, timeout), 2, "timed out");
            assert!(start.elapsed() >= Duration::from_nanos(timeout.cast_unsigned()));
        }
        let (mut store, instance) = shared.thread();
        shared.memory.store(8, 0x1_0000_0000u64).expect("inside");
        let mut wait64 = |expected| {
            let arguments = [Val::I32(0), Val::I64(expected), Val::I64(1)];
            i32_of(&instance.call(&mut store, "wait64", &arguments).expect("an answer"))
        };
        assert_eq!((wait64(0), wait64(0x1_0000_0000)), (1, 2), "all 64 bits count");
        assert_eq!(shared.waiting(0), 0);
    });
}

#[test]
fn huge_and_negative_timeouts_are_for_ever() {
    within(60, || {
        let shared = Shared::new();
        for timeout in [i64::MAX, i64::MIN, -1] {
            let one = shared.clone();
            let waiter = thread::spawn(move || one.wait32(4, 0, timeout));
            while shared.waiting(4) == 0 {
                thread::sleep(Duration::from_millis(1));
            }
            thread::sleep(Duration::from_millis(30));
            assert!(!waiter.is_finished());
            assert_eq!(shared.memory.notify(4, 1), Ok(1));
            assert_eq!(waiter.join().expect("no panic"), 0);
        }
    });
}

#[test]
fn first_come_first_woken_and_counts_are_exact() {
    within(60, || {
        let shared = Shared::new();
        let order = Arc::new(Mutex::new(Vec::new()));
        let waiters: Vec<_> = (0..6)
            .map(|i| {
                let order = Arc::clone(&order);
                shared.waiter(16, move |answer| order.lock().expect("no panic").push((i, answer)))
            })
            .collect();
        let other = shared.waiter(20, |answer| assert_eq!(answer, 0));
        assert_eq!(shared.memory.notify(16, 0), Ok(0));
        for woken in 1..=3 {
            assert_eq!(shared.memory.notify(16, 1), Ok(1));
            while order.lock().expect("no panic").len() < woken {
                thread::sleep(Duration::from_millis(1));
            }
        }
        let (mut store, instance) = shared.thread();
        let all = [Val::I32(16), Val::I32(-1)];
        assert_eq!(i32_of(&instance.call(&mut store, "notify", &all).expect("a count")), 3);
        assert_eq!(i32_of(&instance.call(&mut store, "notify", &all).expect("a count")), 0);
        for waiter in waiters {
            waiter.join().expect("no panic");
        }
        let order = order.lock().expect("no panic").clone();
        assert_eq!(order[..3], [(0, 0), (1, 0), (2, 0)]);
        assert!(order.iter().all(|(_, answer)| *answer == 0));
        assert_eq!(shared.waiting(20), 1, "another address");
        assert_eq!(shared.memory.notify(20, u32::MAX), Ok(1));
        other.join().expect("no panic");
    });
}

/// Timeouts race notifiers: each wait has one answer, and what notifiers count is what waiters saw.
#[test]
fn every_wake_is_counted_once_when_timeouts_race_it() {
    within(120, || {
        let shared = Shared::new();
        let woken = Arc::new(AtomicU32::new(0));
        let waiters: Vec<_> = (0..3)
            .map(|i| {
                let (shared, woken) = (shared.clone(), Arc::clone(&woken));
                thread::spawn(move || {
                    let (mut store, instance) = shared.thread();
                    for turn in 0..2_000 {
                        let arguments = [Val::I32(32), Val::I32(0), Val::I64(turn * 37 % 20_000 + i)];
                        match i32_of(&instance.call(&mut store, "wait32", &arguments).expect("an answer")) {
                            0 => woken.fetch_add(1, Ordering::Relaxed),
                            2 => 0,
                            other => panic!("answer {other}"),
                        };
                    }
                })
            })
            .collect();
        let mut counted = 0;
        while !waiters.iter().all(thread::JoinHandle::is_finished) {
            counted += shared.memory.notify(32, 2).expect("inside");
            thread::sleep(Duration::from_micros(10));
        }
        for waiter in waiters {
            waiter.join().expect("no panic");
        }
        assert_eq!(counted, woken.load(Ordering::Relaxed));
        assert!(counted > 0, "some wake-ups must have happened");
        assert_eq!(shared.waiting(32), 0, "no waiter is left behind");
    });
}

/// The smallest lost-wake-up detector: two threads hand a token back and forth.
#[test]
fn ping_pong_loses_no_wake_up() {
    within(120, || {
        let text = r#"(module (import "m" "memory" (memory 1 1 shared))
            (func (export "play") (param $me i32) (param $turns i32)
                (loop $turn
                    (block $mine
                        (loop $wait
                            (br_if $mine (i32.eq (i32.atomic.load (i32.const 0)) (local.get $me)))
                            (drop (memory.atomic.wait32 (i32.const 0) (i32.sub (i32.const 1) (local.get $me)) (i64.const -1)))
                            (br $wait)))
                    (i32.atomic.store (i32.const 0) (i32.sub (i32.const 1) (local.get $me)))
                    (drop (memory.atomic.notify (i32.const 0) (i32.const 1)))
                    (local.set $turns (i32.sub (local.get $turns) (i32.const 1)))
                    (br_if $turn (local.get $turns)))))"#;
        let shared = Shared { program: program(text), ..Shared::new() };
        let players: Vec<_> = (0..2)
            .map(|me| {
                let shared = shared.clone();
                thread::spawn(move || {
                    let (mut store, instance) = shared.thread();
                    instance.call(&mut store, "play", &[Val::I32(me), Val::I32(3_000)]).expect("no trap");
                })
            })
            .collect();
        for player in players {
            player.join().expect("no panic");
        }
    });
}
