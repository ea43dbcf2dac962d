//! Every kind of trap, from the first thread and from another, while siblings spin or wait for ever: the message, the
//! function, the offset, and everybody back promptly. Also exits.

use std::fs;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, Instant};

use spinwise::wasi::WasiCtx;
use spinwise::{Config, Instance, Options, Process, Program, RunError, Store, TrapCode};
use tests::within;

/// Kind, code, and the function that the report must name first.
const KINDS: &[(&str, TrapCode, &str)] = &[
    ("unreachable", TrapCode::Unreachable, "trap_unreachable"),
    ("load", TrapCode::MemoryOutOfBounds, "trap_load"),
    ("store", TrapCode::MemoryOutOfBounds, "trap_store"),
    ("divide", TrapCode::IntegerDivideByZero, "trap_divide"),
    ("remainder", TrapCode::IntegerDivideByZero, "trap_remainder"),
    ("overflow", TrapCode::IntegerOverflow, "trap_overflow"),
    ("nan", TrapCode::InvalidConversion, "trap_nan"),
    ("huge", TrapCode::IntegerOverflow, "trap_huge"),
    ("null", TrapCode::UninitializedElement, "trap_null"),
    ("undefined", TrapCode::UndefinedElement, "trap_undefined"),
    ("mismatch", TrapCode::IndirectCallTypeMismatch, "trap_mismatch"),
    ("stack", TrapCode::StackOverflow, "deeper"),
    ("unaligned", TrapCode::UnalignedAtomic, "trap_unaligned"),
    ("unaligned_wait", TrapCode::UnalignedAtomic, "trap_unaligned_wait"),
];

/// No run takes longer than this, on the busiest machine: the trap comes at once.
const PROMPT: Duration = Duration::from_secs(5);

fn program() -> Arc<Program> {
    static PROGRAM: OnceLock<Arc<Program>> = OnceLock::new();
    let load = || {
        let wasm = fs::read(tests::root().join("fixtures/guests/traps.wasm")).expect("readable");
        spinwise::program(&wasm, &Config::default()).expect("valid")
    };
    Arc::clone(PROGRAM.get_or_init(load))
}

/// Runs the guest with these arguments to the end of all its threads.
fn run(args: &[&str]) -> Result<i32, RunError> {
    let program = program();
    let wasi = WasiCtx::builder().arg("traps").args(args.iter().copied()).build().expect("a context");
    let imports = spinwise::wasi_imports(&Arc::new(wasi), &program.module)?;
    let imports = imports.resolve(&program.module)?;
    let process = Process::new(&Options::default())?;
    let mut store = Store::new(&process)?;
    let instance = Instance::new(&mut store, &program, &imports)?;
    let result = process.run(&mut store, &instance, "_start");
    drop((instance, store));
    assert_eq!(process.threads(), 0, "every guest thread is gone");
    result
}

fn timed(args: &[&str]) -> Result<i32, RunError> {
    let owned: Vec<String> = args.iter().map(|a| (*a).to_owned()).collect();
    within(Duration::from_secs(60), &args.join(" "), move || {
        let args: Vec<&str> = owned.iter().map(String::as_str).collect();
        let start = Instant::now();
        let result = run(&args);
        let time = start.elapsed();
        assert!(time < PROMPT, "{args:?} took {time:?}");
        result
    })
}

#[test]
fn traps_tell_what_and_where_and_end_all_threads() {
    let program = program();
    for (kind, code, function) in KINDS {
        for place in ["main", "thread"] {
            for others in ["spin", "wait", "both"] {
                let what = format!("{kind} {place} {others}");
                let error = timed(&[kind, place, "4", others]).expect_err("it traps");
                let trap = error.trap().unwrap_or_else(|| panic!("{what}: {error}"));
                assert_eq!(trap.code, *code, "{what}: {error}");
                let frame = trap.frames.first().unwrap_or_else(|| panic!("{what}: no place"));
                assert_eq!(frame.function, *function, "{what}");
                let offset = frame.wasm_offset.unwrap_or_else(|| panic!("{what}: no offset"));
                let body = &program.module.functions[frame.index as usize].body;
                assert!(body.contains(&offset), "{what}: 0x{offset:x} is not in {function}");
                assert_eq!(trap.thread == 0, place == "main", "{what}: thread {}", trap.thread);
                let shown = error.to_string();
                assert_eq!(shown, format!("{}: {function} (wasm offset 0x{offset:x})", code.message()), "{what}");
            }
        }
    }
}

#[test]
fn exits_end_all_threads() {
    for (args, code) in [
        (&["exit-7", "main", "4", "both"][..], 7),
        (&["exit-7", "thread", "4", "both"], 7),
        (&["exit-0", "thread", "4", "spin"], 0),
        (&["return-3", "main", "4", "both"], 3),
    ] {
        assert_eq!(timed(args).expect("an exit"), code, "{args:?}");
    }
}

#[test]
fn ends_repeat_without_leaks() {
    let descriptors = || fs::read_dir("/proc/self/fd").expect("descriptors").count();
    let maps = || fs::read_to_string("/proc/self/maps").expect("maps").lines().count();
    run(&["unreachable", "thread", "8", "both"]).expect_err("it traps");
    let before = (descriptors(), maps());
    for _ in 0..50 {
        run(&["unreachable", "thread", "8", "both"]).expect_err("it traps");
    }
    let after = (descriptors(), maps());
    // Other tests of this binary run beside this one: some slack for theirs.
    assert!(after.0 <= before.0 + 20, "descriptors: {before:?} before, {after:?} after");
    assert!(after.1 <= before.1 + 200, "mappings: {before:?} before, {after:?} after");
}
