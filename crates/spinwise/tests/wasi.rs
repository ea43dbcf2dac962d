//! WASI preview 1 as a guest meets it through the command: every call, many threads at once, and the end of calls that
//! wait. What each call must do is in `fixtures/guests/wasi_calls.c`, the threads are in `fixtures/guests/wasi_threads.c`.

use std::collections::BTreeSet;
use std::fs;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::time::Duration;

use tempfile::TempDir;
use tests::{Ended, root, run_on_within};

/// Every call of preview 1.
const CALLS: [&str; 46] = [
    "args_get",
    "args_sizes_get",
    "clock_res_get",
    "clock_time_get",
    "environ_get",
    "environ_sizes_get",
    "fd_advise",
    "fd_allocate",
    "fd_close",
    "fd_datasync",
    "fd_fdstat_get",
    "fd_fdstat_set_flags",
    "fd_fdstat_set_rights",
    "fd_filestat_get",
    "fd_filestat_set_size",
    "fd_filestat_set_times",
    "fd_pread",
    "fd_prestat_dir_name",
    "fd_prestat_get",
    "fd_pwrite",
    "fd_read",
    "fd_readdir",
    "fd_renumber",
    "fd_seek",
    "fd_sync",
    "fd_tell",
    "fd_write",
    "path_create_directory",
    "path_filestat_get",
    "path_filestat_set_times",
    "path_link",
    "path_open",
    "path_readlink",
    "path_remove_directory",
    "path_rename",
    "path_symlink",
    "path_unlink_file",
    "poll_oneoff",
    "proc_exit",
    "proc_raise",
    "random_get",
    "sched_yield",
    "sock_accept",
    "sock_recv",
    "sock_send",
    "sock_shutdown",
];

const GUEST: &str = "fixtures/guests/wasi_calls.wasm";
const THREADS: &str = "fixtures/guests/wasi_threads.wasm";
const LIMIT: Duration = Duration::from_secs(120);

/// A folder with `rw`, empty, and `ro`, which holds `note`.
fn folders() -> TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    for name in ["rw", "ro"] {
        fs::create_dir(folder.path().join(name)).expect("created");
    }
    fs::write(folder.path().join("ro/note"), "from the host").expect("written");
    folder
}

/// `spinwise run` of a guest with these directories.
fn command(folder: &Path, flags: &[&str], guest: &str, args: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_spinwise"));
    command.current_dir(root()).arg("run").args(flags);
    command.arg("--dir").arg(format!("{}::/rw", folder.join("rw").display()));
    command.arg("--dir-ro").arg(format!("{}::/ro", folder.join("ro").display()));
    command.args(["-O", "none", guest, "--"]).args(args);
    command
}

fn finish(command: &mut Command, stdin: impl Into<Stdio>, stdout: impl Into<Stdio>) -> Output {
    match run_on_within(LIMIT, command, stdin.into(), stdout.into()) {
        Ended::Itself(output, _) => output,
        Ended::Killed => panic!("{command:?} did not end"),
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// The question was answered.
#[track_caller]
fn answered(call: &str, output: &Output) {
    let all = text(&output.stdout) + &text(&output.stderr);
    let expected = match call {
        "proc_exit" => (Some(33), String::new()),
        "proc_raise" => (Some(128 + 15), String::new()),
        _ => (Some(0), format!("{call} ok\n")),
    };
    assert_eq!((output.status.code(), all), expected, "{call}");
}

fn ask(call: &str, stdin: impl Into<Stdio>) {
    let folder = folders();
    let flags: &[&str] = if call.starts_with("environ_") { &["--env", "A=1", "--env", "LONG=x=y"] } else { &[] };
    let args: &[&str] = if call.starts_with("args_") { &[call, "two words"] } else { &[call] };
    let mut command = command(folder.path(), flags, GUEST, args);
    answered(call, &finish(&mut command, stdin, Stdio::piped()));
    let kept: Vec<_> =
        fs::read_dir(folder.path()).expect("readable").map(|e| e.expect("an entry").file_name()).collect();
    assert_eq!(kept.len(), 2, "{call}: nothing has appeared beside the directories");
    let note = fs::read_to_string(folder.path().join("ro/note")).expect("readable");
    assert_eq!(note, "from the host", "{call}");
    assert_eq!(fs::read_dir(folder.path().join("ro")).expect("readable").count(), 1, "{call}");
}

/// Asks about those of the calls that need no socket.
fn ask_about(calls: impl Iterator<Item = &'static str>) {
    for call in calls.filter(|call| !call.starts_with("sock_")) {
        ask(call, Stdio::null());
    }
}

#[test]
fn calls_about_the_process_and_its_descriptors() {
    ask_about(CALLS.into_iter().filter(|call| !call.starts_with("path_")));
}

#[test]
fn calls_with_paths() {
    ask_about(CALLS.into_iter().filter(|call| call.starts_with("path_")));
}

#[test]
fn calls_on_a_connected_socket() {
    for (call, answer) in [("sock_recv", ""), ("sock_send", "answer"), ("sock_shutdown", "answer")] {
        let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
        (&ours).write_all(b"hello").expect("sent");
        ours.shutdown(Shutdown::Write).expect("shut");
        ask(call, OwnedFd::from(theirs));
        let mut received = String::new();
        (&ours).read_to_string(&mut received).expect("received");
        assert_eq!(received, answer, "{call}");
    }
}

#[test]
fn a_call_that_accepts_connections() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).expect("a socket");
    let client = std::thread::spawn(move || {
        let mut ours = UnixStream::connect(path).expect("a connection");
        ours.write_all(b"hello").expect("sent");
        ours.shutdown(Shutdown::Write).expect("shut");
        let mut received = String::new();
        ours.read_to_string(&mut received).expect("received");
        received
    });
    ask("sock_accept", OwnedFd::from(listener));
    assert_eq!(client.join().expect("the client"), "answer");
}

#[test]
fn every_call_has_its_question() {
    // The runtime's list, by its names alone; the tests above ask about each of `CALLS`.
    let wasi = std::sync::Arc::new(spinwise::wasi::WasiCtx::builder().build().expect("a context"));
    let there: BTreeSet<_> = spinwise::wasi::imports(&wasi).into_iter().map(|(name, _)| name).collect();
    assert_eq!(there, BTreeSet::from(CALLS));
}

#[test]
fn eight_threads_open_write_renumber_and_close() {
    let folder = folders();
    let output = finish(&mut command(folder.path(), &[], THREADS, &["files"]), Stdio::null(), Stdio::piped());
    assert_eq!(
        (output.status.code(), text(&output.stdout), text(&output.stderr)),
        (Some(0), "files ok\n".into(), String::new())
    );
    for number in 0..8 {
        let path = folder.path().join("rw").join(format!("{number}a"));
        assert_eq!(fs::read_to_string(path).expect("readable"), format!("{number}:299"));
    }
}

#[test]
fn a_link_that_threads_exchange_for_a_directory_leads_nowhere() {
    let folder = folders();
    fs::write(folder.path().join("secret"), "a secret of the host's").expect("written");
    fs::write(folder.path().join("precious"), "").expect("written");
    let output = finish(&mut command(folder.path(), &[], THREADS, &["race"]), Stdio::null(), Stdio::piped());
    assert_eq!(
        (output.status.code(), text(&output.stdout), text(&output.stderr)),
        (Some(0), "race ok\n".into(), String::new())
    );
    assert_eq!(fs::read_to_string(folder.path().join("secret")).expect("readable"), "a secret of the host's");
    let mut beside: Vec<_> =
        fs::read_dir(folder.path()).expect("readable").map(|e| e.expect("an entry").file_name()).collect();
    beside.sort();
    assert_eq!(beside, ["precious", "ro", "rw", "secret"]);
}

/// What threads wait for in the tests below.
#[derive(Clone, Copy, Debug)]
enum Input {
    Pipe,
    Socket,
    Listener,
}

/// A guest with a thread blocked in each of `kinds` ends by `end`, with this exit code, and takes all of them along.
fn blocked(input: Input, kinds: &[&str], end: &str, code: i32) {
    let folder = folders();
    let mode = rustix::fs::Mode::from_raw_mode(0o600);
    rustix::fs::mknodat(rustix::fs::CWD, folder.path().join("rw/fifo"), rustix::fs::FileType::Fifo, mode, 0)
        .expect("a named pipe");
    // The other ends stay open for as long as the guest runs, and nobody reads its output.
    let (stdin, _kept): (Stdio, OwnedFd) = match input {
        Input::Pipe => {
            let (reader, writer) = std::io::pipe().expect("a pipe");
            (reader.into(), writer.into())
        }
        Input::Socket => {
            let (ours, theirs) = UnixStream::pair().expect("a pair of sockets");
            (OwnedFd::from(theirs).into(), ours.into())
        }
        Input::Listener => {
            let listener = UnixListener::bind(folder.path().join("socket")).expect("a socket");
            (OwnedFd::from(listener.try_clone().expect("another")).into(), listener.into())
        }
    };
    let (_unread, stdout) = std::io::pipe().expect("a pipe");
    let flags: &[&str] = if end == "stay" { &["--timeout", "1500ms"] } else { &[] };
    let mut command = command(folder.path(), flags, THREADS, &["blocked", end]);
    let output = finish(command.args(kinds), stdin, stdout);
    let message = text(&output.stderr);
    assert_eq!(output.status.code(), Some(code), "{input:?} {kinds:?} {end}: {message}");
    assert!(message.starts_with("blocked\n"), "{message}");
    // A call that nothing could end would have ended the command hard.
    assert!(!message.contains("not stoppable") && !message.contains("came back"), "{kinds:?} {end}: {message}");
    if end == "stay" {
        assert_eq!(message.matches("interrupted: ").count(), kinds.len() + 1, "{message}");
    }
}

const ENDS: [(&str, i32); 4] = [("exit", 7), ("return", 0), ("trap", 134), ("stay", 124)];

#[test]
fn blocked_calls_end_with_the_process() {
    let kinds = ["read", "read", "poll", "poll", "sleep", "clock", "fifo", "write", "write", "write", "wait"];
    for (end, code) in ENDS {
        blocked(Input::Pipe, &kinds, end, code);
    }
}

#[test]
fn blocked_socket_calls_end_with_the_process() {
    for (end, code) in ENDS {
        blocked(Input::Socket, &["recv", "recv", "read", "poll"], end, code);
        blocked(Input::Listener, &["accept", "accept", "poll"], end, code);
    }
}
