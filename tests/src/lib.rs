//! Helpers that the test binaries share: the workspace's files, watchdogs, child processes, one core.

pub mod scripts;

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::{Duration, Instant};

/// The workspace root.
#[must_use]
pub fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().map(Path::to_path_buf).unwrap_or_default()
}

/// All files below a folder of the workspace with that extension, sorted.
///
/// # Panics
/// If the folder cannot be read.
#[must_use]
pub fn files(folder: &str, extension: &str) -> Vec<PathBuf> {
    let mut out = Vec::new();
    let mut folders = vec![root().join(folder)];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
            let path = entry.expect("a folder entry").path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|e| e == extension) {
                out.push(path);
            }
        }
    }
    out.sort();
    out
}

/// A path below the workspace root, for messages and snapshot names.
#[must_use]
pub fn relative(path: &Path) -> String {
    path.strip_prefix(root()).unwrap_or(path).display().to_string()
}

/// Runs `work` on a thread of its own and gives its result, or fails with a message when it takes longer than `limit`.
///
/// # Panics
/// If the limit passes or the work panics. The stuck thread is left behind: the process ends with the test binary.
pub fn within<T: Send + 'static>(limit: Duration, what: &str, work: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, result) = mpsc::channel();
    let worker = thread::Builder::new().name(what.to_owned()).spawn(move || {
        let value = work();
        // The receiver is gone only when the limit has passed.
        let _ = done.send(value);
    });
    let worker = worker.expect("a thread");
    match result.recv_timeout(limit) {
        Ok(value) => {
            worker.join().expect("the work has ended");
            value
        }
        Err(mpsc::RecvTimeoutError::Timeout) => panic!("{what}: still running after {limit:?}"),
        Err(mpsc::RecvTimeoutError::Disconnected) => match worker.join() {
            Err(panic) => std::panic::resume_unwind(panic),
            Ok(()) => panic!("{what}: ended without a result"),
        },
    }
}

/// How a child process ended.
#[derive(Debug)]
pub enum Ended {
    /// By itself, after this time.
    Itself(Output, Duration),
    /// It was killed at the limit.
    Killed,
}

/// Runs a command without input, and kills it when it takes longer than `limit`.
///
/// # Panics
/// If the command cannot be started or waited for.
pub fn run_within(limit: Duration, command: &mut Command) -> Ended {
    run_on_within(limit, command, Stdio::null(), Stdio::piped())
}

/// As [`run_within`], with these as standard input and output; output that is not a pipe is not collected.
///
/// # Panics
/// As [`run_within`].
pub fn run_on_within(limit: Duration, command: &mut Command, stdin: Stdio, stdout: Stdio) -> Ended {
    let start = Instant::now();
    let child = command.stdin(stdin).stdout(stdout).stderr(Stdio::piped()).spawn();
    let mut child: Child = child.unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let stdout = child.stdout.take().map(drain);
    let stderr = child.stderr.take().map(drain);
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child to wait for") {
            break Some(status);
        }
        if start.elapsed() > limit {
            child.kill().expect("a child to kill");
            child.wait().expect("a killed child to end");
            break None;
        }
        thread::sleep(Duration::from_millis(5));
    };
    let collect =
        |reader: Option<thread::JoinHandle<Vec<u8>>>| reader.map(|r| r.join().expect("a reader")).unwrap_or_default();
    let (stdout, stderr) = (collect(stdout), collect(stderr));
    status.map_or(Ended::Killed, |status| Ended::Itself(Output { status, stdout, stderr }, start.elapsed()))
}

/// Reads a stream to its end on a thread of its own.
fn drain(mut stream: impl std::io::Read + Send + 'static) -> thread::JoinHandle<Vec<u8>> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        // What could be read before an error is still worth showing.
        let _ = stream.read_to_end(&mut bytes);
        bytes
    })
}

/// Confines the calling thread, and all threads it starts from now on, to one CPU of those it may use.
///
/// # Panics
/// If the kernel refuses.
pub fn use_one_core() {
    use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
    let all = sched_getaffinity(None).expect("the affinity mask");
    let first = (0..CpuSet::MAX_CPU).find(|cpu| all.is_set(*cpu)).expect("at least one CPU");
    let mut one = CpuSet::new();
    one.set(first);
    sched_setaffinity(None, &one).expect("one CPU of those allowed");
}
