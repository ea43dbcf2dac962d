//! The command as users meet it: streams, exit codes, one helpful line, whole outputs or none.

use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use std::time::Duration;

use tests::{Ended, root, run_within};

/// The command, built for this test run.
fn spinwise() -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spinwise"));
    command.current_dir(root()).env_remove("SPINWISE_WAIT_POLICY");
    command
}

fn run(args: &[&str]) -> Output {
    finish(spinwise().args(args))
}

fn finish(command: &mut Command) -> Output {
    match run_within(Duration::from_secs(120), command) {
        Ended::Itself(output, _) => output,
        Ended::Killed => panic!("{command:?} did not end"),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The command ends with this code; what it prints on standard error holds these words; standard output is empty.
fn fails(args: &[&str], code: i32, words: &[&str]) {
    let output = run(args);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{args:?}: {message}");
    for word in words {
        assert!(message.contains(word), "{args:?}: `{message}` lacks `{word}`");
    }
    assert!(output.stdout.is_empty(), "{args:?}: {}", text(&output.stdout));
    assert!(!message.contains("panicked") && !message.contains("RUST_BACKTRACE"), "{message}");
}

fn succeeds(args: &[&str]) -> String {
    let output = run(args);
    assert_eq!(output.status.code(), Some(0), "{args:?}: {}", text(&output.stderr));
    text(&output.stdout)
}

const TRAPS: &str = "fixtures/guests/traps.wasm";
const WASI: &str = "fixtures/guests/wasi.wasm";

#[test]
fn traps_exit_134_with_their_place() {
    for (kind, message, function) in [
        ("unreachable", "unreachable", "trap_unreachable"),
        ("load", "out of bounds memory access", "trap_load"),
        ("divide", "integer divide by zero", "trap_divide"),
        ("stack", "call stack exhausted", "deeper"),
        ("unaligned", "unaligned atomic", "trap_unaligned"),
    ] {
        for place in ["main", "thread"] {
            fails(&["run", TRAPS, "--", kind, place, "4", "both"], 134, &[message, function, "wasm offset 0x"]);
        }
    }
}

#[test]
fn the_guest_s_exit_code_is_the_command_s() {
    fails(&["run", TRAPS, "--", "exit-7", "thread", "4", "both"], 7, &[]);
    fails(&["run", TRAPS, "--", "return-3"], 3, &[]);
    assert_eq!(succeeds(&["run", TRAPS, "--", "exit-0"]), "");
}

#[test]
fn bad_modules_exit_65() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, bytes: &[u8]| {
        let path = folder.path().join(name);
        fs::write(&path, bytes).expect("written");
        path.to_str().expect("UTF-8").to_owned()
    };
    let team = fs::read(root().join("fixtures/guests/team.wasm")).expect("readable");
    let truncated = file("truncated.wasm", &team[..team.len() / 2]);
    let garbage = file("garbage.wasm", b"\0asm\x01\0\0\0\xff\xff\xff");
    let text_error = file("text.wat", b"(module (func i32.nonsense))");
    let binary = file("binary", &[0xff; 40]);
    let empty = file("empty.wasm", b"");
    let invalid = file("invalid.wat", b"(module (func $f (result i32)))");
    let unsupported = file("cont.wat", b"(module (type $f (func)) (type $k (cont $f)))");
    for command in ["run", "explain"] {
        fails(&[command, &truncated], 65, &["offset 0x"]);
        fails(&[command, &garbage], 65, &["offset 0x"]);
        fails(&[command, &text_error], 65, &["line:column 1:"]);
        fails(&[command, &binary], 65, &["neither"]);
        fails(&[command, &empty], 65, &[]);
        fails(&[command, &invalid], 65, &["f", "offset 0x"]);
        fails(&[command, &unsupported], 65, &["stack switching", "offset 0x"]);
        fails(&[command, "fixtures/guests/team.wasm", "--features", "-threads"], 65, &["threads", "switched off"]);
        fails(&[command, "fixtures/guests/team.wasm", "--features", "thread"], 2, &["`thread`", "threads", "simd"]);
    }
    let unlinkable = file("import.wat", br#"(module (import "env" "missing" (func)) (func (export "_start")))"#);
    fails(&["run", &unlinkable], 65, &["unknown import", "env.missing"]);
    let no_start = file("plain.wat", b"(module)");
    fails(&["run", &no_start], 65, &["_start", "--invoke"]);
    fails(&["run", &no_start, "--invoke", "nothing"], 65, &["nothing"]);
}

#[test]
fn hostile_names_do_not_reach_the_terminal() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("names.wat");
    let module = r#"(module (memory 1 1 shared) (func $f (@name "a\n\1b[2J") (export "f")
        (loop (br_if 0 (i32.eqz (i32.atomic.load (i32.const 0)))) unreachable)))"#;
    fs::write(&path, module).expect("written");
    let path = path.to_str().expect("UTF-8");
    let shown = succeeds(&["explain", path]);
    assert!(shown.starts_with(r"a\n\u{1b}[2J (function 0)"), "{shown}");
    fails(&["run", "--timeout", "50ms", path, "--invoke", "f"], 124, &[r"interrupted: a\n\u{1b}[2J (wasm"]);
}

#[test]
fn errors_are_one_line() {
    let output = run(&["explain", "fixtures/reject/malformed_text.wat"]);
    assert_eq!(text(&output.stderr).lines().count(), 1, "{}", text(&output.stderr));
}

#[test]
fn missing_inputs_exit_66_and_wrong_flags_2() {
    fails(&["run", "no/such/file.wasm"], 66, &["no/such/file.wasm"]);
    fails(&["run", "--dir", "no/such/folder", TRAPS], 66, &["--dir no/such/folder"]);
    fails(&["run", "--dir-ro", "no/such/folder", TRAPS], 66, &["--dir-ro no/such/folder"]);
    for args in [
        &["run", "--no-such-flag", TRAPS][..],
        &["run", "--guard", "sometimes", TRAPS],
        &["run", "--threads", "workers=2", TRAPS],
        &["run", "--stats", TRAPS],
        &["run", "--timeout", "5", TRAPS],
        &["run", "--env", "NOVALUE", TRAPS],
        &["compile", TRAPS],
        &["compile", TRAPS, "-o", "x.o", "--emit", "exe"],
        &["compile", TRAPS, "-o", "x.o", "--header", "x.h"],
        &["compile", TRAPS, "-o", "/dev/null", "--target", "pdp11-dec-unix"],
        &["explain", TRAPS, "--format", "html"],
        &["frobnicate"],
        &[],
    ] {
        let output = run(args);
        assert_eq!(output.status.code(), Some(2), "{args:?}: {}", text(&output.stderr));
    }
    let output = finish(spinwise().args(["run", TRAPS]).env("SPINWISE_PERF_MAP", "maybe"));
    assert_eq!(output.status.code(), Some(2));
    let output = finish(spinwise().args(["run", TRAPS]).env("SPINWISE_WAIT_POLICY", "nonsense"));
    assert_eq!(output.status.code(), Some(2));
    let message = text(&output.stderr);
    assert!(["passive", "active", "hybrid"].iter().all(|p| message.contains(p)), "{message}");
}

#[test]
fn invoke_takes_arguments_and_prints_results() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("m.wat");
    let module = r#"(module
        (func (export "swap") (param i32 i64) (result i64 i32) (local.get 1) (local.get 0))
        (func (export "half") (param f64) (result f64) (f64.div (local.get 0) (f64.const 2)))
        (func (export "nothing")))"#;
    fs::write(&path, module).expect("written");
    let path = path.to_str().expect("UTF-8");
    assert_eq!(succeeds(&["run", path, "--invoke", "swap", "-1", "0xff"]), "255\n-1\n");
    assert_eq!(succeeds(&["run", path, "--invoke", "swap", "--", "-1", "-2"]), "-2\n-1\n");
    assert_eq!(succeeds(&["run", path, "--invoke", "half", "3"]), "1.5\n");
    assert_eq!(succeeds(&["run", path, "--invoke", "nothing"]), "");
    fails(&["run", path, "--invoke", "half"], 2, &["takes 1"]);
    fails(&["run", path, "--invoke", "half", "three"], 2, &["three"]);
}

#[test]
fn wasi_reaches_the_guest() {
    assert_eq!(
        succeeds(&["run", WASI, "--", "args", "one", "two words"]),
        "wasi.wasm\none\ntwo words\n".replace("wasi.wasm\n", "")
    );
    assert!(succeeds(&["run", "--env", "COLOUR=blue", WASI, "--", "env"]).contains("COLOUR=blue"));
    assert_eq!(succeeds(&["run", WASI, "--", "clock"]), "clock ok\n");
    assert_eq!(succeeds(&["run", WASI, "--", "random"]), "random ok\n");
    assert_eq!(succeeds(&["run", WASI, "--", "sleep", "20"]), "sleep ok\n");
    fails(&["run", WASI, "--", "exit", "9"], 9, &[]);
    let folder = tempfile::tempdir().expect("a folder");
    fs::write(folder.path().join("note.txt"), "from the host\n").expect("written");
    let dir = format!("{}::/data", folder.path().display());
    for flag in ["--dir", "--dir-ro"] {
        assert_eq!(succeeds(&["run", flag, &dir, WASI, "--", "read", "/data/note.txt"]), "from the host\n");
        assert_eq!(succeeds(&["run", flag, &dir, WASI, "--", "list", "/data"]), "note.txt\n");
        fails(&["run", flag, &dir, WASI, "--", "read", "/data/../etc/passwd"], 1, &["cannot open"]);
        fails(&["run", flag, &dir, WASI, "--", "write", "/data/../new.txt", "x"], 1, &["cannot create"]);
    }
    fails(&["run", "--dir-ro", &dir, WASI, "--", "write", "/data/new.txt", "x"], 1, &["Read-only file system"]);
    fails(&["run", "--dir-ro", &dir, WASI, "--", "write", "/data/note.txt", "x"], 1, &["Read-only file system"]);
    assert_eq!(fs::read_to_string(folder.path().join("note.txt")).expect("readable"), "from the host\n");
    assert!(!folder.path().join("new.txt").exists(), "nothing changes through --dir-ro");
    succeeds(&["run", "--dir", &dir, WASI, "--", "write", "/data/new.txt", "from the guest"]);
    assert_eq!(fs::read_to_string(folder.path().join("new.txt")).expect("written"), "from the guest");
    // Without a name of its own a directory has the host's.
    let host = folder.path().to_str().expect("UTF-8");
    let note = format!("{host}/note.txt");
    assert_eq!(succeeds(&["run", "--dir-ro", host, WASI, "--", "read", &note]), "from the host\n");
    fails(&["run", WASI, "--", "read", &note], 1, &["cannot open"]);
}

#[test]
fn outputs_are_whole_and_the_same_every_time() {
    let folder = tempfile::tempdir().expect("a folder");
    let out = |name: &str| folder.path().join(name);
    let mut objects = Vec::new();
    for (name, jobs) in [("one.o", "1"), ("two.o", "2"), ("again.o", "2")] {
        let path = out(name);
        succeeds(&["compile", "fixtures/guests/team.wasm", "-o", path.to_str().expect("UTF-8"), "-j", jobs]);
        objects.push(fs::read(path).expect("an object"));
    }
    assert!(objects.windows(2).all(|pair| pair[0] == pair[1]), "objects differ");
    assert!(objects[0].starts_with(b"\x7fELF"));
    let mut through_pipe = spinwise();
    through_pipe.args(["compile", "-", "-o", "-"]);
    let wasm = fs::File::open(root().join("fixtures/guests/team.wasm")).expect("readable");
    let output = through_pipe.stdin(wasm).output().expect("runs");
    assert_eq!(output.stdout, objects[0], "standard streams give the same bytes");

    let clif = succeeds(&["compile", "fixtures/guard/acceptance.wat", "-o", "-", "--emit", "clif"]);
    assert!(clif.contains("; bare_i32") && clif.contains("atomic_load"));

    let bad = out("bad.o");
    fails(&["compile", "fixtures/reject/invalid_stack.wat", "-o", bad.to_str().expect("UTF-8")], 65, &[]);
    fails(&["compile", "fixtures/guests/team.wasm", "-o", "/no/such/folder/x.o"], 74, &["/no/such/folder"]);
    fails(&["compile", "fixtures/guests/team.wasm", "-o", "/dev/full"], 74, &["/dev/full"]);
    let mut left: Vec<_> = fs::read_dir(&folder).expect("readable").map(|e| e.expect("an entry").file_name()).collect();
    left.sort();
    assert_eq!(left, ["again.o", "one.o", "two.o"], "a failure leaves nothing behind");
}

#[test]
fn an_uncaught_exception_ends_as_a_trap_does() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("throws.wat");
    let text = r#"(module (tag (export "bad_thing") (param i32)) (func $f (export "f") (i32.const 1) (throw 0)))"#;
    fs::write(&path, text).expect("writable");
    let path = path.to_str().expect("UTF-8");
    fails(&["run", path, "--invoke", "f"], 134, &["uncaught exception bad_thing: f (wasm offset 0x"]);
}

#[test]
fn every_target_compiles() {
    let folder = tempfile::tempdir().expect("a folder");
    for target in [
        "x86_64-unknown-linux-gnu",
        "aarch64-unknown-linux-gnu",
        "s390x-unknown-linux-gnu",
        "x86_64-apple-darwin",
        "aarch64-apple-darwin",
        "x86_64-pc-windows-msvc",
    ] {
        let path = folder.path().join(target);
        succeeds(&["compile", "fixtures/guests/team.wasm", "--target", target, "-o", path.to_str().expect("UTF-8")]);
        assert!(fs::metadata(&path).expect("an object").len() > 10_000);
    }
    // Handlers of exceptions are there on all of them.
    for target in [
        "aarch64-unknown-linux-gnu",
        "riscv64gc-unknown-linux-gnu",
        "s390x-unknown-linux-gnu",
        "x86_64-pc-windows-msvc",
    ] {
        succeeds(&["compile", "fixtures/run/exceptions.wat", "--target", target, "-o", "/dev/null"]);
    }
    // The baseline of riscv64 has no vectors: scalar code compiles, and a guest that needs them is told so.
    let target = "riscv64gc-unknown-linux-gnu";
    succeeds(&["compile", "fixtures/guard/acceptance.wat", "--target", target, "-o", "/dev/null"]);
    let simd = ["compile", "fixtures/guests/team.wasm", "--target", target, "-o", "/dev/null"];
    fails(&simd, 65, &["riscv64", "vectors"]);
}

#[test]
fn a_timeout_ends_a_spinning_guest() {
    let folder = tempfile::tempdir().expect("a folder");
    let path: &Path = &folder.path().join("spin.wat");
    let module = r#"(module (memory 1 1 shared)
        (func $forever (export "_start") (loop $l (br_if $l (i32.eqz (i32.atomic.load (i32.const 0)))))))"#;
    fs::write(path, module).expect("written");
    let path = path.to_str().expect("UTF-8");
    fails(&["run", "--timeout", "100ms", path], 124, &["interrupted: forever (wasm offset 0x"]);
    // Nothing polls: the process ends hard, with the same code.
    fails(&["run", "--guard", "off", "--timeout", "100ms", path], 124, &["not stoppable: forever (wasm offset 0x"]);
}

#[test]
fn a_trap_ends_the_command_even_if_siblings_cannot_follow() {
    let args = ["run", "--guard", "off", TRAPS, "--", "unreachable", "main", "2", "spin"];
    fails(&args, 134, &["trap: unreachable: trap_unreachable", "not stoppable: spin_for_ever (wasm offset 0x"]);
}

#[test]
fn ctrl_c_ends_a_spinning_guest() {
    let folder = tempfile::tempdir().expect("a folder");
    let path: &Path = &folder.path().join("spin.wat");
    let module = r#"(module (memory 1 1 shared)
        (func $forever (export "_start") (loop $l (br_if $l (i32.eqz (i32.atomic.load (i32.const 0)))))))"#;
    fs::write(path, module).expect("written");
    // `timeout` sends what Ctrl-C sends.
    let mut command = Command::new("timeout");
    command.args(["--preserve-status", "-s", "INT", "1", env!("CARGO_BIN_EXE_spinwise"), "run"]).arg(path);
    let output = finish(&mut command);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{message}");
    assert!(message.contains("interrupted: forever (wasm offset 0x"), "{message}");
}

#[test]
fn scripts_report_and_fail() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("s.wast");
    let module = r#"(module (func (export "f") (result i32) (i32.const 1)))"#;
    let path_text = path.to_str().expect("UTF-8");
    fs::write(&path, format!("{module}\n(assert_return (invoke \"f\") (i32.const 1))")).expect("written");
    assert!(succeeds(&["wast", path_text]).ends_with("1 passed, 0 failed, 0 skipped\n"));
    fs::write(&path, format!("{module}\n(assert_return (invoke \"f\") (i32.const 2))")).expect("written");
    let output = run(&["wast", path_text]);
    assert_eq!(output.status.code(), Some(1));
    assert!(text(&output.stderr).contains("line 2"), "{}", text(&output.stderr));
    fs::write(&path, "(module").expect("written");
    assert_eq!(run(&["wast", path_text]).status.code(), Some(65));
}
