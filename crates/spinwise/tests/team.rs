//! The worker team with more threads than cores: the checksum of a native build of the same C, at every thread count.

use std::path::Path;
use std::process::Command;
use std::time::Duration;

use tests::{Ended, root, run_within};

/// Regions in a run: enough for hundreds of barriers at every stage, few enough for a busy machine.
const REGIONS: &str = "2000";

fn checksum(command: &mut Command) -> String {
    let Ended::Itself(output, _) = run_within(Duration::from_secs(120), command) else {
        panic!("{command:?} did not end");
    };
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
    let line = text.lines().find_map(|line| line.strip_prefix("checksum "));
    line.unwrap_or_else(|| panic!("{command:?} printed no checksum: {text}")).to_owned()
}

/// Builds the guest's source for this machine.
fn native(folder: &Path) -> Command {
    let program = folder.join("team");
    let mut gcc = Command::new("gcc");
    gcc.args(["-O2", "-ffp-contract=off", "-pthread", "-Wno-psabi", "-o"]).arg(&program);
    gcc.arg(root().join("fixtures/guests/team.c"));
    let status = gcc.status().expect("gcc, which building Spinwise needs too");
    assert!(status.success(), "{gcc:?}");
    Command::new(program)
}

#[test]
fn every_thread_count_gives_the_native_checksum() {
    let folder = tempfile::tempdir().expect("a folder");
    // One thread: a native team spins without mercy where threads outnumber cores.
    let expected = checksum(native(folder.path()).args(["1", REGIONS]));
    for threads in ["1", "2", "3", "8", "16"] {
        let mut command = Command::new(env!("CARGO_BIN_EXE_spinwise"));
        command.args(["run", "fixtures/guests/team.wasm", "--", threads, REGIONS]).current_dir(root());
        assert_eq!(checksum(&mut command), expected, "{threads} threads");
    }
}
