//! Guests of 64-bit addresses as WASI commands: each ABI that toolchains have for them, and their threads.

use std::sync::Arc;

use spinwise::wasi::{Capture, Stream, WasiCtx};
use spinwise::{Config, Instance, Options, Process, RunError, Store};

/// Runs a command; answers its exit code and what it wrote to standard output.
fn run(text: &str) -> Result<(i32, String), RunError> {
    let wasm = spinwise::binary_form(text.as_bytes().to_vec()).expect("well-formed");
    let program = spinwise::program(&wasm, &Config::default()).expect("valid");
    let capture = Capture::new();
    let context = WasiCtx::builder().args(["prog", "argument"]).stdout(Stream::Capture(capture.clone())).build();
    let imports = spinwise::wasi_imports(&Arc::new(context.expect("a context")), &program.module)?;
    let process = Process::new(&Options::default())?;
    let mut store = Store::new(&process)?;
    let instance = Instance::new(&mut store, &program, &imports.resolve(&program.module)?)?;
    let code = process.run(&mut store, &instance, "_start")?;
    Ok((code, String::from_utf8(capture.contents()).expect("text")))
}

/// Writes its last argument, from beyond 4 GiB. `NUMBER` is what numbers are passed as, `SUFFIX` is part of the names.
const COMMAND: &str = r#"(module
    (import "wasi_snapshot_preview1" "args_sizes_getSUFFIX" (func $sizes (param i64 i64) (result i32)))
    (import "wasi_snapshot_preview1" "args_getSUFFIX" (func $args (param i64 i64) (result i32)))
    (import "wasi_snapshot_preview1" "fd_writeSUFFIX" (func $write (param NUMBER i64 i64 i64) (result i32)))
    (import "wasi_snapshot_preview1" "fd_closeSUFFIX" (func $close (param NUMBER) (result i32)))
    (import "wasi_snapshot_preview1" "proc_exitSUFFIX" (func $exit (param NUMBER)))
    (memory (export "memory") i64 0x10001)
    (func $check (param i32) (if (local.get 0) (then unreachable)))
    (func (export "_start")
        (call $check (call $sizes (i64.const 0x100000000) (i64.const 0x100000008)))
        (if (i64.ne (i64.load (i64.const 0x100000000)) (i64.const 2)) (then unreachable))
        (call $check (call $args (i64.const 0x100000100) (i64.const 0x100000200)))
        ;; The second string without its NUL.
        (i64.store (i64.const 0x100000010) (i64.load (i64.const 0x100000108)))
        (i64.store (i64.const 0x100000018) (i64.const 8))
        (call $check (call $write (NUMBER.const 1) (i64.const 0x100000010) (i64.const 1) (i64.const 0x100000020)))
        (if (i64.ne (i64.load (i64.const 0x100000020)) (i64.const 8)) (then unreachable))
        ;; An address that would wrap is the guest's fault, and no reason to trap.
        (if (i32.ne (call $write (NUMBER.const 1) (i64.const -8) (i64.const 1) (i64.const 0)) (i32.const 21))
            (then unreachable))
        (call $check (call $close (NUMBER.const 2)))
        (call $exit (NUMBER.const 7))))"#;

#[test]
fn each_abi_is_told_by_its_types() {
    for suffix in ["", "_wasm64"] {
        for number in ["i32", "i64"] {
            let text = COMMAND.replace("SUFFIX", suffix).replace("NUMBER", number);
            let (code, output) = run(&text).unwrap_or_else(|error| panic!("{number}{suffix}: {error}"));
            assert_eq!((code, output.as_str()), (7, "argument"), "{number}{suffix}");
        }
    }
}

#[test]
fn a_type_of_no_abi_is_compared_with_the_written_one() {
    let text = r#"(module
        (import "wasi_snapshot_preview1" "fd_write" (func (param i64 i32 i32 i32) (result i32)))
        (memory (export "memory") 1) (func (export "_start")))"#;
    let message = run(text).expect_err("no such function").to_string();
    let expected = "expected (i64 i32 i32 i32) -> (i32), found (i32 i32 i32 i32) -> (i32)";
    assert!(message.contains("fd_write") && message.contains(expected), "{message}");
    let text = r#"(module
        (import "wasi" "thread-spawn" (func (param f64) (result i32)))
        (memory (export "memory") 1) (func (export "_start")))"#;
    let message = run(text).expect_err("no such function").to_string();
    assert!(message.contains("thread-spawn") && message.contains("found (i32) -> (i32)"), "{message}");
}

#[test]
fn threads_share_a_memory_beyond_4_gib() {
    // Each of four threads adds its argument, an address, to what lies there, and the last one is waited for.
    let text = r#"(module
        (import "wasi" "thread-spawn" (func $spawn (param i64) (result i32)))
        (import "wasi_snapshot_preview1" "proc_exit" (func $exit (param i32)))
        (import "env" "memory" (memory i64 0x10001 0x10001 shared))
        (export "memory" (memory 0))
        (func (export "wasi_thread_start") (param $tid i32) (param $at i64)
            (drop (i64.atomic.rmw.add (local.get $at) (local.get $at)))
            (drop (i32.atomic.rmw.add (i64.const 8) (i32.const 1)))
            (drop (memory.atomic.notify (i64.const 8) (i32.const -1))))
        (func (export "_start") (local $done i32)
            (local.set $done (i32.const 4))
            (loop $more
                (if (i32.lt_s (call $spawn (i64.const 0x100000040)) (i32.const 1)) (then unreachable))
                (br_if $more (local.tee $done (i32.sub (local.get $done) (i32.const 1)))))
            (loop $wait
                (local.set $done (i32.atomic.load (i64.const 8)))
                (if (i32.ne (local.get $done) (i32.const 4)) (then
                    (drop (memory.atomic.wait32 (i64.const 8) (local.get $done) (i64.const -1)))
                    (br $wait))))
            (if (i64.ne (i64.load (i64.const 0x100000040)) (i64.const 0x400000100)) (then unreachable))
            (call $exit (i32.const 3))))"#;
    assert_eq!(run(text).expect("an exit").0, 3);
}
