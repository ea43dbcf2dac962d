//! No guest thread spins out of reach: every spin shape on one core, its releasing thread started last or never.
//!
//! A fixture of `fixtures/guard` says by its `Liveness` line how it is to be run; `fixtures/README.wat` has the convention.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use spinwise::config::GuardMode;
use spinwise::module::{Entity, Import};
use spinwise::types::FuncType;
use spinwise::{Config, Extern, Func, Instance, Memory, Options, Process, Program, RunError, Store, TrapCode, Val};
use tests::{Ended, run_within, use_one_core, within};

/// Where a child finds which fixture it is to run with guards off.
const CHILD: &str = "SPINWISE_UNGUARDED_FIXTURE";
/// What the child exits with when the spinning thread did not come back.
const STUCK: i32 = 3;

/// Fixtures whose `Liveness` line names one of these modes.
fn fixtures(modes: &[&str]) -> Vec<PathBuf> {
    let chosen = |path: &PathBuf| {
        let text = fs::read_to_string(path).expect("readable");
        let line = text.lines().find_map(|l| l.strip_prefix(";; Liveness: ").map(str::to_owned));
        let mode = line.unwrap_or_else(|| panic!("{} has no Liveness line", path.display()));
        modes.contains(&mode.trim())
    };
    let files: Vec<_> = tests::files("fixtures/guard", "wat").into_iter().filter(chosen).collect();
    assert!(!files.is_empty(), "no fixture is run as {modes:?}");
    files
}

fn program(path: &Path, guard: GuardMode) -> Arc<Program> {
    let wasm = spinwise::binary_form(fs::read(path).expect("readable")).expect("well-formed");
    let config = Config { guard, ..Config::default() };
    spinwise::program(&wasm, &config).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}

/// What a fixture may import: one shared memory for all its instances, and a host function that does nothing.
fn imports(program: &Program, memory: &Memory) -> Vec<Extern> {
    let resolve = |import: &Import| match import.entity {
        Entity::Memory(_) => Extern::Memory(memory.clone()),
        _ => Extern::Func(Func::host(FuncType::default(), |_, _| Ok(Vec::new()))),
    };
    program.module.imports.iter().map(resolve).collect()
}

fn memory(program: &Program) -> Memory {
    Memory::new(program.module.memories[0]).expect("a memory")
}

fn process() -> Process {
    Process::new(&Options::default()).expect("a process")
}

fn instantiate(process: &Process, program: &Arc<Program>, memory: &Memory) -> (Store, Instance) {
    let mut store = Store::new(process).expect("a store");
    let instance = Instance::new(&mut store, program, &imports(program, memory)).expect("an instance");
    (store, instance)
}

/// A module whose only function traps.
fn trapper() -> Arc<Program> {
    let wasm = spinwise::binary_form(br#"(module (func $boom (export "trap") unreachable))"#.to_vec());
    spinwise::program(&wasm.expect("well-formed"), &Config::default()).expect("valid")
}

/// Starts `count` spinning threads, and a thread that traps after 50 ms. Gives what each spin came back with, and how
/// long after the trap.
fn spin_until_trap(program: &Arc<Program>, count: usize) -> Vec<(RunError, Duration)> {
    let process = process();
    let memory = memory(program);
    let spinners: Vec<_> = (0..count)
        .map(|_| {
            let (process, program, memory) = (process.clone(), Arc::clone(program), memory.clone());
            thread::spawn(move || {
                let (mut store, instance) = instantiate(&process, &program, &memory);
                let error = instance.call(&mut store, "spin", &[]).expect_err("it spins until it is ended");
                (error, Instant::now())
            })
        })
        .collect();
    thread::sleep(Duration::from_millis(50));
    let trapper = trapper();
    let (mut store, instance) = instantiate_bare(&process, &trapper);
    let start = Instant::now();
    let trap = process.run(&mut store, &instance, "trap").expect_err("it traps");
    assert_eq!(trap.trap().map(|t| t.code), Some(TrapCode::Unreachable));
    spinners
        .into_iter()
        .map(|spinner| {
            let (error, end) = spinner.join().expect("a spinner");
            (error, end.saturating_duration_since(start))
        })
        .collect()
}

fn instantiate_bare(process: &Process, program: &Arc<Program>) -> (Store, Instance) {
    let mut store = Store::new(process).expect("a store");
    let instance = Instance::new(&mut store, program, &[]).expect("an instance");
    (store, instance)
}

/// The trap of one thread ends every other one, whatever it spins on.
fn ended_by_another_s_trap(path: &Path, guard: GuardMode) {
    let program = program(path, guard);
    for (error, time) in spin_until_trap(&program, 2) {
        let trap = error.trap().unwrap_or_else(|| panic!("not a trap: {error}"));
        assert_eq!(trap.code, TrapCode::Unreachable, "the first trap is everyone's answer");
        assert!(time < Duration::from_secs(1), "came back after {time:?}");
    }
    // The same process can run another guest afterwards.
    let wasm = spinwise::binary_form(br#"(module (func (export "f") (result i32) (i32.const 7)))"#.to_vec());
    let next = spinwise::program(&wasm.expect("well-formed"), &Config::default()).expect("valid");
    let (mut store, instance) = instantiate_bare(&process(), &next);
    assert!(matches!(instance.call(&mut store, "f", &[]).expect("runs")[..], [Val::I32(7)]));
}

/// Three threads spin on one core; the thread that releases them starts last.
fn released_last(path: &Path, guard: GuardMode) {
    let program = program(path, guard);
    let process = process();
    let memory = memory(&program);
    let call = |export: &'static str| {
        let (process, program, memory) = (process.clone(), Arc::clone(&program), memory.clone());
        thread::spawn(move || {
            let (mut store, instance) = instantiate(&process, &program, &memory);
            instance.call(&mut store, export, &[]).unwrap_or_else(|e| panic!("{export}: {e}"));
        })
    };
    let spinners: Vec<_> = (0..3).map(|_| call("spin")).collect();
    thread::sleep(Duration::from_millis(20));
    assert!(!spinners.iter().any(thread::JoinHandle::is_finished), "it spins until it is released");
    call("release").join().expect("release returns");
    for spinner in spinners {
        spinner.join().expect("spin returns");
    }
}

/// Runs a check for each fixture on one core, each within its time.
fn each(modes: &[&str], guard: GuardMode, limit: Duration, check: fn(&Path, GuardMode)) {
    for path in fixtures(modes) {
        let name = tests::relative(&path);
        within(limit, &name, move || {
            use_one_core();
            check(&path, guard);
        });
    }
}

#[test]
fn a_trap_elsewhere_ends_every_spin() {
    each(&["spin"], GuardMode::Spin, Duration::from_secs(30), ended_by_another_s_trap);
}

#[test]
fn a_trap_elsewhere_ends_every_loop_when_all_are_guarded() {
    each(&["spin", "all"], GuardMode::All, Duration::from_secs(30), ended_by_another_s_trap);
}

#[test]
fn a_thread_started_last_releases_every_spin() {
    each(&["spin"], GuardMode::Spin, Duration::from_secs(30), released_last);
}

#[test]
fn a_thread_started_last_releases_every_loop_when_all_are_guarded() {
    each(&["spin", "all"], GuardMode::All, Duration::from_secs(30), released_last);
}

/// Shapes that are reached without a guard, because every turn leaves guest code: who comes back from a host function or a
/// wait looks whether the process has ended.
const REACHED_UNGUARDED: &[&str] = &[
    "09_spin_then_wait",
    "09_wait_each_turn",
    "11_import_each_turn",
    "34_wait_in_callee",
    "53_lock_memory64",
    "39_tail_call_of_an_import",
    "44_host_called_each_turn_of_a_try",
];

#[test]
fn without_guards_the_watchdog_finds_every_spin_stuck() {
    let this = std::env::current_exe().expect("this test");
    let mut wrong = Vec::new();
    for path in fixtures(&["spin"]) {
        let name = path.file_stem().and_then(|s| s.to_str()).expect("a name");
        let mut child = Command::new(&this);
        child.args(["--exact", "unguarded_child", "--nocapture"]).env(CHILD, &path);
        let Ended::Itself(output, _) = run_within(Duration::from_secs(30), &mut child) else {
            panic!("{name}: the child's own watchdog did not end it");
        };
        let expected = if REACHED_UNGUARDED.contains(&name) { 0 } else { STUCK };
        if output.status.code() != Some(expected) {
            let text = String::from_utf8_lossy(&output.stderr);
            wrong.push(format!("{name}: {} where {expected} was expected; {text}", output.status));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

/// Not a test by itself: the child process of the one above. A thread that spins unguarded can never be joined, so the
/// process ends around it.
#[test]
fn unguarded_child() {
    let Some(path) = std::env::var_os(CHILD).map(PathBuf::from) else { return };
    use_one_core();
    let program = program(&path, GuardMode::Off);
    let (done, result) = std::sync::mpsc::channel();
    thread::spawn(move || done.send(spin_until_trap(&program, 1).len()));
    if result.recv_timeout(Duration::from_secs(1)).is_err() {
        println!("watchdog: {} did not come back after another thread's trap", path.display());
        std::process::exit(STUCK);
    }
}
