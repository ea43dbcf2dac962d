//! Calls that wait: for bytes, for room, for time; and that the end of the process ends each.

use std::sync::mpsc;
use std::time::Instant;

use super::super::abi::fdflags;
use super::super::stdio::Stream;
use super::*;

fn send(writer: &OwnedFd, bytes: &[u8]) {
    assert_eq!(rustix::io::write(writer, bytes).unwrap(), bytes.len());
}

/// Aborts if `work` takes more than 20 s.
pub(super) fn in_time<T: Send>(work: impl FnOnce() -> T + Send) -> T {
    std::thread::scope(|scope| {
        let (done, finished) = mpsc::channel::<()>();
        scope.spawn(move || {
            if finished.recv_timeout(Duration::from_secs(20)) == Err(mpsc::RecvTimeoutError::Timeout) {
                // A scope cannot be left while its work hangs.
                std::process::abort();
            }
        });
        let result = work();
        drop(done);
        result
    })
}

/// Runs `work` while, 30 ms later, another thread does `release`.
pub(super) fn released<T: Send>(work: impl FnOnce() -> T + Send, release: impl FnOnce() + Send) -> T {
    in_time(|| {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                std::thread::sleep(Duration::from_millis(30));
                release();
            });
            let started = Instant::now();
            let result = work();
            assert!(started.elapsed() >= Duration::from_millis(20), "it did not wait");
            result
        })
    })
}

fn clock(user_data: u64, id: u32, timeout: u64, absolute: bool) -> Vec<u8> {
    let mut bytes = vec![0; 48];
    bytes[..8].copy_from_slice(&user_data.to_le_bytes());
    bytes[16..20].copy_from_slice(&id.to_le_bytes());
    bytes[24..32].copy_from_slice(&timeout.to_le_bytes());
    bytes[40] = u8::from(absolute);
    bytes
}

fn descriptor(user_data: u64, tag: u8, fd: u32) -> Vec<u8> {
    let mut bytes = vec![0; 48];
    bytes[..8].copy_from_slice(&user_data.to_le_bytes());
    bytes[8] = tag;
    bytes[16..20].copy_from_slice(&fd.to_le_bytes());
    bytes
}

/// An event: user data, errno, type, bytes, flags.
type Seen = (u64, u16, u8, u64, u16);

fn poll_oneoff(process: &Process, subscriptions: &[Vec<u8>]) -> Result<Vec<Seen>> {
    let guest = &process.guest;
    let count = subscriptions.len() as u64;
    let list = guest.put(&subscriptions.concat());
    let events = guest.space(subscriptions.len() * 32);
    let stored = guest.space(4);
    process.call().poll_oneoff(list, events, count, stored)?;
    let event = |index: u64| {
        let at = events + index * 32;
        (guest.u64(at), guest.u16(at + 8), guest.get(at + 10, 1)[0], guest.u64(at + 16), guest.u16(at + 24))
    };
    Ok((0..guest.u32(stored).into()).map(event).collect())
}

#[test]
fn a_read_waits_for_bytes_and_takes_what_is_there() {
    let (reader, writer) = pipe();
    let process = Process::new(WasiCtx::builder().stdin(Stream::Descriptor(reader)));
    let read = released(|| process.read(0, 100), || send(&writer, b"some"));
    assert_eq!(read.unwrap(), b"some");
    drop(writer);
    assert_eq!(in_time(|| process.read(0, 100)).unwrap(), b"", "closed at the other end");
}

#[test]
fn a_read_that_found_a_whole_buffer_does_not_wait_for_more() {
    let (reader, writer) = pipe();
    // As much as the pipe holds, and as a bounce buffer does.
    send(&writer, &[7; 65_536]);
    let process = Process::new(WasiCtx::builder().stdin(Stream::Descriptor(reader)));
    assert_eq!(in_time(|| process.read(0, 100_000)).unwrap(), [7; 65_536]);
}

#[test]
fn a_nonblocking_read_does_not_wait() {
    let (reader, writer) = pipe();
    let process = Process::new(WasiCtx::builder().stdin(Stream::Descriptor(reader)));
    process.call().fd_fdstat_set_flags(0, fdflags::NONBLOCK.into()).unwrap();
    assert_eq!(in_time(|| process.read(0, 100)), Err(Errno::Again));
    rustix::io::write(&writer, b"x").unwrap();
    assert_eq!(process.read(0, 100).unwrap(), b"x");
}

#[test]
fn a_write_larger_than_the_pipe_waits_until_all_is_taken() {
    let (reader, writer) = pipe();
    let process = Process::new(WasiCtx::builder().stdout(Stream::Descriptor(writer)));
    let bytes: Vec<u8> = (0..100_000u32).map(|n| n.to_le_bytes()[0]).collect();
    let written = in_time(|| {
        std::thread::scope(|scope| {
            let taken = scope.spawn(|| {
                let mut taken = Vec::new();
                while taken.len() < 100_000 {
                    let mut buffer = [0; 1000];
                    let count = rustix::io::read(&reader, &mut buffer).unwrap();
                    taken.extend_from_slice(&buffer[..count]);
                }
                taken
            });
            assert_eq!(process.write(1, &bytes).unwrap(), 100_000);
            taken.join().unwrap()
        })
    });
    assert_eq!(written, bytes);
    drop(reader);
    assert_eq!(in_time(|| process.write(1, b"x")), Err(Errno::Pipe));
}

#[test]
fn a_nonblocking_write_tells_how_much_fitted() {
    let (_reader, writer) = pipe();
    let process = Process::new(WasiCtx::builder().stdout(Stream::Descriptor(writer)));
    process.call().fd_fdstat_set_flags(1, fdflags::NONBLOCK.into()).unwrap();
    let fitted = in_time(|| process.write(1, &[0; 100_000])).unwrap();
    assert!((4096..100_000).contains(&fitted), "{fitted}");
    assert_eq!(in_time(|| process.write(1, &[0; 100_000])), Err(Errno::Again));

    let (_reader, writer) = pipe();
    send(&writer, &[0; 32_768]);
    let process = Process::new(WasiCtx::builder().stdout(Stream::Descriptor(writer)));
    process.call().fd_fdstat_set_flags(1, fdflags::NONBLOCK.into()).unwrap();
    // Ready, but not for all: a write of it at once would wait in the host, where nothing could end it.
    assert_eq!(in_time(|| process.write(1, &[0; 60_000])).unwrap(), 32_768);
}

#[test]
fn the_end_of_the_process_ends_every_wait() {
    let (reader, _writer) = pipe();
    let (_other, full) = pipe();
    let process = Process::new(WasiCtx::builder().stdin(Stream::Descriptor(reader)).stdout(Stream::Descriptor(full)));
    process.call().fd_fdstat_set_flags(1, fdflags::NONBLOCK.into()).unwrap();
    while process.write(1, &[0; 4096]).is_ok() {}
    process.call().fd_fdstat_set_flags(1, 0).unwrap();
    let end = || process.guest.end();
    assert_eq!(released(|| process.read(0, 1), end), Err(Errno::Intr));
    in_time(|| {
        assert_eq!(process.write(1, &[0; 5000]), Err(Errno::Intr));
        assert_eq!(poll_oneoff(&process, &[clock(1, 1, u64::MAX, false)]), Err(Errno::Intr));
        assert_eq!(poll_oneoff(&process, &[descriptor(1, 1, 0)]), Err(Errno::Intr));
    });
}

#[test]
fn a_reader_that_others_outran_can_still_be_ended() {
    for turn in 0..20 {
        let (reader, writer) = pipe();
        let process = Process::new(WasiCtx::builder().stdin(Stream::Descriptor(reader)));
        let guests: Vec<_> = (0..8).map(|_| TestGuest::new()).collect();
        let read = |guest: &TestGuest| {
            let iovecs = guest.iovecs(&[(guest.space(1), 1)]);
            Call::new(&process.wasi, guest).fd_read(0, iovecs, 1, guest.space(4))
        };
        let outcomes = in_time(|| {
            std::thread::scope(|scope| {
                let readers: Vec<_> = guests.iter().map(|guest| scope.spawn(move || read(guest))).collect();
                std::thread::sleep(Duration::from_millis(5));
                // All of them are told that there is something to read, and one gets it.
                send(&writer, b"!");
                std::thread::sleep(Duration::from_millis(5));
                guests.iter().for_each(TestGuest::end);
                readers.into_iter().map(|reader| reader.join().unwrap()).collect::<Vec<_>>()
            })
        });
        let ended = outcomes.iter().filter(|outcome| **outcome == Err(Errno::Intr)).count();
        assert!(ended >= 7, "turn {turn}: {outcomes:?}");
    }
}

#[test]
fn a_writer_that_others_outran_can_still_be_ended() {
    for turn in 0..20 {
        let (reader, writer) = pipe();
        let process = Process::new(WasiCtx::builder().stdout(Stream::Descriptor(writer)));
        let guests: Vec<_> = (0..8).map(|_| TestGuest::new()).collect();
        let fill = |guest: &TestGuest| {
            let iovecs = guest.iovecs(&[(0, 4096)]);
            let call = Call::new(&process.wasi, guest);
            while call.fd_write(1, iovecs, 1, guest.space(4)).is_ok() {}
        };
        in_time(|| {
            std::thread::scope(|scope| {
                let writers: Vec<_> = guests.iter().map(|guest| scope.spawn(move || fill(guest))).collect();
                for _ in 0..5 {
                    std::thread::sleep(Duration::from_millis(1));
                    // Room for one of them.
                    assert_eq!(rustix::io::read(&reader, &mut [0; 4096]).unwrap(), 4096, "turn {turn}");
                }
                guests.iter().for_each(TestGuest::end);
                for writer in writers {
                    writer.join().unwrap();
                }
            });
        });
    }
}

#[test]
fn flags_of_an_inherited_pipe_stay_as_they_are_for_others() {
    let (reader, writer) = pipe();
    let shared = reader.try_clone().unwrap();
    let process = Process::new(WasiCtx::builder().stdin(Stream::Descriptor(reader)));
    process.call().fd_fdstat_set_flags(0, fdflags::NONBLOCK.into()).unwrap();
    assert!(!rustix::fs::fcntl_getfl(&shared).unwrap().contains(rustix::fs::OFlags::NONBLOCK));
    drop((shared, writer));
    assert_eq!(in_time(|| process.read(0, 1)).unwrap(), b"", "and the end is seen");
}

#[test]
fn a_blocked_read_does_not_keep_others_from_the_table() {
    let (reader, writer) = pipe();
    let process = Process::new(WasiCtx::builder().stdin(Stream::Descriptor(reader)));
    let other = TestGuest::new();
    let release = || {
        let call = Call::new(&process.wasi, &other);
        call.fd_close(1).unwrap();
        call.fd_renumber(0, 2).unwrap();
        rustix::io::write(&writer, b"late").unwrap();
    };
    assert_eq!(released(|| process.read(0, 100), release).unwrap(), b"late", "it keeps what it was called with");
    assert_eq!(process.read(0, 1), Err(Errno::BadF));
}

#[test]
fn opening_a_pipe_by_name_does_not_wait_for_its_other_end() {
    for resolver in RESOLVERS {
        let (outer, process) = in_directory(true, resolver, |path| {
            let mode = rustix::fs::Mode::from_raw_mode(0o600);
            rustix::fs::mknodat(rustix::fs::CWD, path.join("fifo"), rustix::fs::FileType::Fifo, mode, 0).unwrap();
        });
        let fd = in_time(|| process.open("fifo")).unwrap();
        let mut writer = None;
        let release = || {
            let path = outer.path().join("inside/fifo");
            let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
            rustix::io::write(&file, b"hello").unwrap();
            writer = Some(file);
        };
        assert_eq!(released(|| process.read(fd, 10), release).unwrap(), b"hello", "{resolver:?}");
    }
}

#[test]
fn sleeping() {
    let process = Process::new(WasiCtx::builder());
    let started = Instant::now();
    let seen = in_time(|| poll_oneoff(&process, &[clock(7, 1, 30_000_000, false)])).unwrap();
    assert_eq!(seen, [(7, 0, 0, 0, 0)]);
    assert!(started.elapsed() >= Duration::from_millis(30));

    let now = super::super::clocks::now(0).unwrap();
    let subscriptions = [clock(1, 0, now + 30_000_000, true), clock(2, 1, u64::MAX, false), clock(3, 0, 1, true)];
    let seen = in_time(|| poll_oneoff(&process, &subscriptions)).unwrap();
    assert_eq!(seen, [(3, 0, 0, 0, 0)], "a time that is past");
    let seen = in_time(|| poll_oneoff(&process, &subscriptions[..2])).unwrap();
    assert_eq!(seen, [(1, 0, 0, 0, 0)]);
    assert!(super::super::clocks::now(0).unwrap() >= now + 30_000_000);
    let seen = in_time(|| poll_oneoff(&process, &[clock(1, 0, 0, false)])).unwrap();
    assert_eq!(seen, [(1, 0, 0, 0, 0)]);
}

#[test]
fn subscriptions_that_cannot_be_served_are_events_too() {
    let process = Process::new(WasiCtx::builder());
    let subscriptions =
        [clock(1, 9, 0, false), clock(2, 2, 0, false), descriptor(3, 1, 99), clock(4, 1, u64::MAX, false)];
    let seen = in_time(|| poll_oneoff(&process, &subscriptions)).unwrap();
    let code = |errno: Errno| errno.code();
    let expected =
        [(1, code(Errno::Inval), 0, 0, 0), (2, code(Errno::NotSup), 0, 0, 0), (3, code(Errno::BadF), 1, 0, 0)];
    assert_eq!(seen, expected);
    assert_eq!(poll_oneoff(&process, &[]), Err(Errno::Inval));
    assert_eq!(poll_oneoff(&process, &[descriptor(1, 3, 0)]), Err(Errno::Inval));
    let end = MEMORY as u64;
    assert_eq!(process.call().poll_oneoff(end - 47, 0, 1, 0), Err(Errno::Fault));
    assert_eq!(process.call().poll_oneoff(0, end - 31, 1, 0), Err(Errno::Fault));
    assert_eq!(process.call().poll_oneoff(0, 0, 1, end - 3), Err(Errno::Fault));
    assert_eq!(process.call().poll_oneoff(0, 0, u64::from(u32::MAX), 0), Err(Errno::Inval));
}

#[test]
fn descriptors_become_ready() {
    let (reader, writer) = pipe();
    let (_other, output) = pipe();
    let process = Process::new(WasiCtx::builder().stdin(Stream::Descriptor(reader)).stdout(Stream::Descriptor(output)));
    let both = [descriptor(1, 1, 0), descriptor(2, 2, 1)];
    assert_eq!(in_time(|| poll_oneoff(&process, &both)).unwrap(), [(2, 0, 2, 1, 0)]);
    let input = [descriptor(1, 1, 0), clock(9, 1, 10_000_000, false)];
    assert_eq!(in_time(|| poll_oneoff(&process, &input)).unwrap(), [(9, 0, 0, 0, 0)], "the clock first");
    let input = [descriptor(1, 1, 0), clock(9, 1, u64::MAX, false)];
    let seen = released(|| poll_oneoff(&process, &input), || send(&writer, b"four"));
    assert_eq!(seen.unwrap(), [(1, 0, 1, 4, 0)]);
    process.read(0, 4).unwrap();
    drop(writer);
    assert_eq!(in_time(|| poll_oneoff(&process, &input)).unwrap(), [(1, 0, 1, 0, 1)], "hung up");
}

#[test]
fn files_and_memory_are_always_ready() {
    let (_outer, process) =
        in_directory(true, Resolver::Kernel, |path| std::fs::write(path.join("file"), "0123456789").unwrap());
    let fd = process.open("file").unwrap();
    process.read(fd, 3).unwrap();
    let seen = in_time(|| poll_oneoff(&process, &[descriptor(1, 1, fd), descriptor(2, 2, 1)])).unwrap();
    assert_eq!(seen, [(1, 0, 1, 7, 0), (2, 0, 2, 1, 0)]);
    let process = Process::new(WasiCtx::builder().stdin(Stream::Bytes(b"abc".to_vec())));
    process.read(0, 1).unwrap();
    assert_eq!(in_time(|| poll_oneoff(&process, &[descriptor(1, 1, 0)])).unwrap(), [(1, 0, 1, 2, 0)]);
}
