//! Child processes: the `spinwise` command beside this program, and others; bounded in time.

use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Longest that fetching a program may take.
const FETCH: Duration = Duration::from_secs(600);

/// The workspace root.
pub(crate) fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).parent().map(PathBuf::from).unwrap_or_default()
}

/// The release build of the `spinwise` command, built first.
pub(crate) fn spinwise() -> Result<PathBuf, String> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let status = Command::new(cargo)
        .args(["build", "--quiet", "--release", "--package", "spinwise"])
        .current_dir(root())
        .status()
        .map_err(|e| format!("cannot run cargo: {e}"))?;
    if !status.success() {
        return Err(String::from("the spinwise command does not build"));
    }
    let here = std::env::current_exe().map_err(|e| e.to_string())?;
    Ok(here.with_file_name("spinwise"))
}

/// Runs a command to its end and gives its standard output; an error if it fails or takes longer than `limit`.
pub(crate) fn output(command: &mut Command, limit: Duration) -> Result<String, String> {
    let start = Instant::now();
    let shown = format!("{command:?}");
    let mut child =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(|e| format!("{shown}: {e}"))?;
    // The outputs here are a few lines: they fit a pipe, so the child never waits for a reader.
    while child.try_wait().map_err(|e| e.to_string())?.is_none() {
        if start.elapsed() > limit {
            child.kill().map_err(|e| e.to_string())?;
            child.wait().map_err(|e| e.to_string())?;
            return Err(format!("{shown}: still running after {limit:?}"));
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let out = child.wait_with_output().map_err(|e| e.to_string())?;
    if !out.status.success() {
        return Err(format!("{shown}: {}: {}", out.status, String::from_utf8_lossy(&out.stderr)));
    }
    String::from_utf8(out.stdout).map_err(|e| e.to_string())
}

/// The path that a line of shell prints after `fixtures/guests/tools.sh` was read: it fetches what is not there yet.
pub(crate) fn fetch(line: &str) -> Result<PathBuf, String> {
    let guests = root().join("fixtures/guests");
    let script = format!("cd '{}' && source ./tools.sh && {line}", guests.display());
    let out = output(Command::new("bash").args(["-c", &script]), FETCH)?;
    out.lines().last().map(PathBuf::from).ok_or_else(|| format!("`{line}` printed no path"))
}
