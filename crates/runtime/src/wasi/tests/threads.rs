//! Many guest threads in the same state at once.

use super::super::abi::{fdflags, oflags};
use super::super::stdio::{Capture, Stream};
use super::*;

const THREADS: u32 = 8;

/// Runs `work` on 8 threads of one process, each with its number and a guest thread of its own.
fn on_threads(process: &Process, work: impl Fn(u32, &Process) + Sync) {
    std::thread::scope(|scope| {
        for number in 0..THREADS {
            let work = &work;
            scope.spawn(move || work(number, process));
        }
    });
}

#[test]
fn each_write_is_whole() {
    let out = Capture::new();
    let process = Process::new(WasiCtx::builder().stdout(Stream::Capture(out.clone())));
    std::thread::scope(|scope| {
        for letter in b'a'..b'a' + 8 {
            let wasi = &process.wasi;
            scope.spawn(move || {
                let guest = TestGuest::new();
                let line = [&[letter; 60][..], b"\n"].concat();
                let iovecs = guest.iovecs(&[(guest.put(&line[..30]), 30), (guest.put(&line[30..]), 31)]);
                let written = guest.space(4);
                for _ in 0..500 {
                    Call::new(wasi, &guest).fd_write(1, iovecs, 2, written).unwrap();
                    assert_eq!(guest.u32(written), 61);
                }
            });
        }
    });
    let mut counts = [0; 8];
    for line in out.contents().chunks(61) {
        assert!(line[..60].iter().all(|byte| *byte == line[0]) && line[60] == b'\n', "{line:?}");
        counts[usize::from(line[0] - b'a')] += 1;
    }
    assert_eq!(counts, [500; 8]);
}

#[test]
fn opening_writing_and_closing() {
    for resolver in RESOLVERS {
        let (outer, process) = in_directory(false, resolver, |_| {});
        on_threads(&process, |number, process| {
            let guest = TestGuest::new();
            let call = Call::new(&process.wasi, &guest);
            let name = format!("file{number}");
            let path = guest.put(name.as_bytes());
            let length = name.len() as u64;
            let iovecs = guest.iovecs(&[(guest.put(name.as_bytes()), length)]);
            let (opened, count) = (guest.space(4), guest.space(4));
            for _ in 0..200 {
                let (open, flags) = (u32::from(oflags::CREAT), u32::from(fdflags::APPEND));
                call.path_open(3, 0, path, length, open, READ | WRITE, 0, flags, opened).unwrap();
                let fd = guest.u32(opened);
                call.fd_write(fd, iovecs, 1, count).unwrap();
                call.fd_close(fd).unwrap();
            }
        });
        for number in 0..THREADS {
            let contents = std::fs::read_to_string(outer.path().join(format!("inside/file{number}"))).unwrap();
            assert_eq!(contents, format!("file{number}").repeat(200), "{resolver:?}");
        }
        assert_eq!(process.open("file0").unwrap(), 4, "every number is free again");
    }
}

#[test]
fn a_shared_position_gives_each_byte_to_one_reader() {
    let contents: Vec<u8> = (0..2_000_000u32).flat_map(u32::to_le_bytes).collect();
    let (_outer, process) =
        in_directory(true, Resolver::Kernel, |path| std::fs::write(path.join("file"), &contents).unwrap());
    let fd = process.open("file").unwrap();
    let seen = Mutex::new(Vec::new());
    on_threads(&process, |_, process| {
        let guest = TestGuest::new();
        // Longer than a bounce buffer: two host reads, with nobody between them.
        let iovecs = guest.iovecs(&[(4096, 80_000)]);
        let count = guest.space(4);
        loop {
            Call::new(&process.wasi, &guest).fd_read(fd, iovecs, 1, count).unwrap();
            let length = guest.u32(count) as usize;
            if length == 0 {
                break;
            }
            seen.lock().push(guest.get(4096, length));
        }
    });
    let mut seen = seen.into_inner();
    seen.sort_by_key(|part| u32::from_le_bytes(part[..4].try_into().unwrap()));
    assert_eq!(seen.concat(), contents);
}

#[test]
fn descriptors_closed_and_renumbered_under_use() {
    let (_outer, process) =
        in_directory(true, Resolver::Kernel, |path| std::fs::write(path.join("file"), "text").unwrap());
    on_threads(&process, |number, process| {
        let guest = TestGuest::new();
        let call = Call::new(&process.wasi, &guest);
        let path = guest.put(b"file");
        let buffer = guest.space(8);
        let iovecs = guest.iovecs(&[(buffer, 4)]);
        let (opened, count) = (guest.space(4), guest.space(4));
        for turn in 0..500 {
            call.path_open(3, 0, path, 4, 0, READ, 0, 0, opened).unwrap();
            let fd = guest.u32(opened);
            let victim = 4 + (number + turn) % THREADS;
            if call.fd_pread(victim, iovecs, 1, 0, count).is_ok() {
                assert_eq!(guest.get(buffer, 4), b"text");
            }
            // Both may meet numbers that others have closed.
            let _ = call.fd_renumber(victim, fd);
            let _ = call.fd_close(fd);
        }
    });
}
