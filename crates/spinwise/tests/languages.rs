//! Threaded programs of other languages, with their standard libraries: the whole output of a native build, at every thread
//! count.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tests::{Ended, root, run_within};

fn output(command: &mut Command) -> String {
    let Ended::Itself(output, _) = run_within(Duration::from_secs(240), command) else {
        panic!("{command:?} did not end");
    };
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// Builds a source for this machine.
fn native(compiler: &str, flags: &[&str], source: &str, program: &Path) -> Command {
    let mut build = Command::new(compiler);
    build.args(flags).arg("-o").arg(program).arg(root().join(source));
    let status =
        build.status().unwrap_or_else(|error| panic!("{compiler}, which building Spinwise needs too: {error}"));
    assert!(status.success(), "{build:?}");
    Command::new(program)
}

/// Runs a guest with the folder as `/work`.
fn guest(folder: &Path, guard: &str, module: &str, args: &[&str]) -> String {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spinwise"));
    command.current_dir(root()).args(["run", "--guard", guard, "--dir"]).arg(format!("{}::/work", folder.display()));
    output(command.arg(module).arg("--").args(args))
}

#[test]
fn rust_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["--edition", "2024", "-O"];
    let mut native = native("rustc", &flags, "fixtures/guests/rust/main.rs", &folder.path().join("native"));
    let expected = output(native.args(["3", "500"]).arg(folder.path()));
    assert!(expected.contains("files") && expected.contains("checksum"), "{expected}");
    for (threads, guard) in [("1", "spin"), ("2", "spin"), ("8", "spin"), ("16", "spin"), ("3", "all")] {
        let found = guest(folder.path(), guard, "fixtures/guests/rust/main.wasm", &[threads, "500", "/work"]);
        assert_eq!(found, expected, "{threads} threads, --guard {guard}");
    }
}

#[test]
fn cxx_exceptions_in_threads() {
    let folder = tempfile::tempdir().expect("a folder");
    let flags = ["-std=c++20", "-O2", "-ffp-contract=off", "-pthread"];
    let source = "fixtures/guests/exceptions/main.cpp";
    let mut native = native("g++", &flags, source, &folder.path().join("native"));
    let expected = output(native.args(["3", "50"]));
    assert!(expected.contains("between threads") && expected.contains("checksum"), "{expected}");
    for module in ["legacy", "exnref"] {
        for (threads, guard) in [("1", "spin"), ("2", "spin"), ("8", "spin"), ("16", "spin"), ("3", "all")] {
            let path = format!("fixtures/guests/exceptions/{module}.wasm");
            let found = guest(folder.path(), guard, &path, &[threads, "50"]);
            assert_eq!(found, expected, "{module}, {threads} threads, --guard {guard}");
        }
    }
}
