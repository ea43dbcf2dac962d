//! Reading, writing, positions and status of open files and streams.

use std::os::unix::fs::MetadataExt;

use super::super::abi::{fdflags, oflags};
use super::super::stdio::{Capture, Stream};
use super::*;

fn with_file(contents: &[u8]) -> (TempDir, Process) {
    in_directory(false, Resolver::Kernel, |path| std::fs::write(path.join("file"), contents).unwrap())
}

/// Opens `file` for both.
fn open(process: &Process) -> u32 {
    process.open_as(3, "file", false, 0, READ | WRITE, 0).unwrap()
}

#[test]
fn streams_in_memory() {
    let (out, err) = (Capture::new(), Capture::new());
    let process = Process::new(
        WasiCtx::builder()
            .stdin(Stream::Bytes(b"hello".to_vec()))
            .stdout(Stream::Capture(out.clone()))
            .stderr(Stream::Capture(err.clone())),
    );
    assert_eq!(process.read(0, 3).unwrap(), b"hel");
    assert_eq!(process.read(0, 10).unwrap(), b"lo");
    assert_eq!(process.read(0, 10).unwrap(), b"");
    assert_eq!(process.write(1, b"one").unwrap(), 3);
    assert_eq!(process.write(1, b" two").unwrap(), 4);
    assert_eq!(process.write(2, b"bad").unwrap(), 3);
    assert_eq!(process.write(0, b"x"), Err(Errno::BadF));
    assert_eq!(process.read(1, 1), Err(Errno::BadF));
    assert_eq!(out.contents(), b"one two");
    assert_eq!((err.take(), err.contents()), (b"bad".to_vec(), vec![]));
    assert_eq!(process.call().fd_seek(0, 0, 0, 0), Err(Errno::SPipe));
    assert_eq!(process.call().fd_tell(1, 0), Err(Errno::SPipe));
}

#[test]
fn streams_to_nowhere() {
    let process = Process::new(WasiCtx::builder());
    assert_eq!(process.read(0, 10).unwrap(), b"");
    assert_eq!(process.write(1, b"gone").unwrap(), 4);
    assert_eq!(process.write(3, b"x"), Err(Errno::BadF));
    assert_eq!(process.write(u32::MAX, b"x"), Err(Errno::BadF));
}

#[test]
fn a_directory_is_never_passed_on_as_a_stream() {
    let directory = std::fs::File::open("/").unwrap();
    let process = Process::new(WasiCtx::builder().stdin(Stream::Descriptor(directory.into())));
    assert_eq!(process.read(0, 1), Err(Errno::BadF));
    assert_eq!(process.call().fd_fdstat_get(0, 0), Err(Errno::BadF));
    assert_eq!(process.open_as(0, "etc", false, 0, READ, 0), Err(Errno::BadF));
}

#[test]
fn scattered_buffers_are_filled_in_order() {
    let (_outer, process) = with_file(b"0123456789");
    let fd = open(&process);
    let (guest, call) = (&process.guest, process.call());
    let (a, b) = (guest.space(16), guest.space(16));
    let iovecs = guest.iovecs(&[(a, 3), (b, 0), (b, 4)]);
    let out = guest.space(4);
    call.fd_read(fd, iovecs, 3, out).unwrap();
    assert_eq!((guest.u32(out), guest.get(a, 4), guest.get(b, 5)), (7, b"012\xaa".to_vec(), b"3456\xaa".to_vec()));
    call.fd_read(fd, iovecs, 3, out).unwrap();
    assert_eq!((guest.u32(out), guest.get(a, 3)), (3, b"789".to_vec()));
    call.fd_read(fd, iovecs, 3, out).unwrap();
    assert_eq!(guest.u32(out), 0);

    let (x, y) = (guest.put(b"abc"), guest.put(b"de"));
    let iovecs = guest.iovecs(&[(x, 3), (y, 2)]);
    call.fd_pwrite(fd, iovecs, 2, 2, out).unwrap();
    assert_eq!(guest.u32(out), 5);
    call.fd_pread(fd, guest.iovecs(&[(a, 10)]), 1, 1, out).unwrap();
    assert_eq!((guest.u32(out), guest.get(a, 9)), (9, b"1abcde789".to_vec()));
}

#[test]
fn more_than_a_bounce_buffer_moves_in_one_call() {
    let contents: Vec<u8> = (0..100_000u32).map(|n| n.to_le_bytes()[0] ^ n.to_le_bytes()[1]).collect();
    let (outer, process) = with_file(&contents);
    let (guest, call) = (&process.guest, process.call());
    let fd = open(&process);
    // Apart from the parameters, which lie below 4096.
    let iovecs = guest.iovecs(&[(4096, 70_000), (4096 + 70_000, 50_000)]);
    let out = guest.space(4);
    call.fd_read(fd, iovecs, 2, out).unwrap();
    assert_eq!(guest.u32(out), 100_000);
    assert_eq!(guest.get(4096, 100_000), contents);
    call.fd_pwrite(fd, iovecs, 2, 1_000, out).unwrap();
    assert_eq!(guest.u32(out), 120_000);
    let written = std::fs::read(outer.path().join("inside/file")).unwrap();
    assert_eq!(written.len(), 121_000);
    assert_eq!(written[1_000..101_000], contents);
}

#[test]
fn bad_buffers_fault_before_anything_happens() {
    let (outer, process) = with_file(b"untouched");
    let fd = open(&process);
    let (guest, call) = (&process.guest, process.call());
    let end = MEMORY as u64;
    let out = guest.space(4);
    let good = guest.put(b"written");
    for (at, length) in [(end, 1), (end - 1, 2), (u64::from(u32::MAX), u64::from(u32::MAX)), (0, u64::from(u32::MAX))] {
        let iovecs = guest.iovecs(&[(good, 7), (at, length)]);
        assert_eq!(call.fd_write(fd, iovecs, 2, out), Err(Errno::Fault));
        assert_eq!(call.fd_read(fd, iovecs, 2, out), Err(Errno::Fault));
        assert_eq!(call.fd_pwrite(fd, iovecs, 2, 0, out), Err(Errno::Fault));
    }
    let iovecs = guest.iovecs(&[(good, 7)]);
    assert_eq!(call.fd_write(fd, iovecs, 1, end - 3), Err(Errno::Fault), "the result's place");
    assert_eq!(call.fd_read(fd, iovecs, 1, end - 3), Err(Errno::Fault), "the result's place");
    assert_eq!(call.fd_write(fd, end - 7, 1, out), Err(Errno::Fault), "the list's place");
    assert_eq!(call.fd_write(fd, u64::from(u32::MAX), 2, out), Err(Errno::Fault));
    assert_eq!(call.fd_write(fd, iovecs, 1025, out), Err(Errno::Inval), "too many");
    assert_eq!(call.fd_write(fd, iovecs, u64::from(u32::MAX), out), Err(Errno::Inval), "count times size overflows");
    assert_eq!(std::fs::read(outer.path().join("inside/file")).unwrap(), b"untouched");
    assert_eq!(process.read(fd, 20).unwrap(), b"untouched", "the position has not moved");
}

#[test]
fn buffers_may_overlap_and_add_up_to_more_than_memory() {
    let (_outer, process) = with_file(b"abcdef");
    let (guest, call) = (&process.guest, process.call());
    let fd = open(&process);
    let whole = (0, MEMORY as u64);
    let iovecs = guest.iovecs(&[whole; 1000]);
    let out = guest.space(4);
    call.fd_pread(fd, iovecs, 1000, 0, out).unwrap();
    assert_eq!((guest.u32(out), guest.get(0, 6)), (6, b"abcdef".to_vec()));
}

#[test]
fn positions() {
    let (_outer, process) = with_file(b"0123456789");
    let fd = open(&process);
    let (guest, call) = (&process.guest, process.call());
    let out = guest.space(8);
    for (by, whence, position) in [(4, 0, 4), (3, 1, 7), (-2, 1, 5), (-1, 2, 9), (100, 2, 110)] {
        call.fd_seek(fd, by, whence, out).unwrap();
        assert_eq!(guest.u64(out), position);
        call.fd_tell(fd, out).unwrap();
        assert_eq!(guest.u64(out), position);
    }
    assert_eq!(call.fd_seek(fd, -1, 0, out), Err(Errno::Inval));
    assert_eq!(call.fd_seek(fd, -111, 1, out), Err(Errno::Inval));
    assert_eq!(call.fd_seek(fd, 0, 3, out), Err(Errno::Inval));
    assert_eq!(call.fd_seek(fd, 0, 0, u64::from(u32::MAX)), Err(Errno::Fault));
    for at in [1 << 63, u64::MAX] {
        let iovecs = guest.iovecs(&[(0, 4)]);
        assert_eq!(call.fd_pread(fd, iovecs, 1, at, out), Err(Errno::Inval));
        assert_eq!(call.fd_pwrite(fd, iovecs, 1, at, out), Err(Errno::Inval));
    }
}

#[test]
fn access_is_what_was_asked_for() {
    let (_outer, process) = with_file(b"text");
    let reader = process.open_as(3, "file", false, 0, READ, 0).unwrap();
    let writer = process.open_as(3, "file", false, 0, WRITE, 0).unwrap();
    assert_eq!(process.write(reader, b"x"), Err(Errno::BadF));
    assert_eq!(process.call().fd_filestat_set_size(reader, 0), Err(Errno::BadF));
    assert_eq!(process.read(writer, 1), Err(Errno::BadF));
    assert_eq!(process.write(writer, b"T").unwrap(), 1);
    assert_eq!(process.read(reader, 9).unwrap(), b"Text");
    let out = process.guest.space(24);
    process.call().fd_fdstat_get(reader, out).unwrap();
    assert_eq!(process.guest.get(out, 1), [4], "a regular file");
    assert_eq!(process.guest.u64(out + 8) & (READ | WRITE), READ);
    process.call().fd_fdstat_get(writer, out).unwrap();
    assert_eq!(process.guest.u64(out + 8) & (READ | WRITE), WRITE);
}

#[test]
fn rights_given_up_stay_given_up() {
    let (_outer, process) = with_file(b"text");
    let (guest, call) = (&process.guest, process.call());
    let fd = open(&process);
    let out = guest.space(24);
    call.fd_fdstat_get(fd, out).unwrap();
    let base = guest.u64(out + 8);
    call.fd_fdstat_set_rights(fd, base & !READ, 0).unwrap();
    assert_eq!(process.read(fd, 1), Err(Errno::NotCapable));
    assert_eq!(process.write(fd, b"x").unwrap(), 1);
    assert_eq!(call.fd_fdstat_set_rights(fd, base, 0), Err(Errno::NotCapable));
    assert_eq!(call.fd_fdstat_set_rights(fd, 0, 1), Err(Errno::NotCapable));

    call.fd_fdstat_get(3, out).unwrap();
    call.fd_fdstat_set_rights(3, guest.u64(out + 8), guest.u64(out + 16) & !READ).unwrap();
    let fd = open(&process);
    assert_eq!(process.read(fd, 1), Err(Errno::NotCapable), "what is opened inherits");
}

#[test]
fn flags() {
    let (outer, process) = with_file(b"");
    let (guest, call) = (&process.guest, process.call());
    let asked = fdflags::APPEND | fdflags::SYNC;
    let fd = process.open_as(3, "file", false, 0, READ | WRITE, asked).unwrap();
    let out = guest.space(24);
    call.fd_fdstat_get(fd, out).unwrap();
    assert_eq!(guest.u16(out + 2), asked);
    process.write(fd, b"aaaa").unwrap();
    call.fd_seek(fd, 0, 0, out).unwrap();
    process.write(fd, b"bb").unwrap();
    call.fd_fdstat_set_flags(fd, (fdflags::SYNC | fdflags::NONBLOCK).into()).unwrap();
    call.fd_seek(fd, 0, 0, out).unwrap();
    process.write(fd, b"c").unwrap();
    assert_eq!(std::fs::read(outer.path().join("inside/file")).unwrap(), b"caaabb");
    assert_eq!(call.fd_fdstat_set_flags(fd, 0), Err(Errno::Inval), "sync cannot be changed");
    assert_eq!(call.fd_fdstat_set_flags(fd, 1 << 5), Err(Errno::Inval));
    assert_eq!(call.fd_fdstat_set_flags(fd, 1 << 16), Err(Errno::Inval));
}

#[test]
fn status_of_a_file() {
    let (outer, process) = with_file(b"12345");
    let (guest, call) = (&process.guest, process.call());
    let fd = open(&process);
    let out = guest.space(64);
    call.fd_filestat_get(fd, out).unwrap();
    let host = std::fs::metadata(outer.path().join("inside/file")).unwrap();
    assert_eq!(guest.u64(out), host.dev());
    assert_eq!(guest.u64(out + 8), host.ino());
    assert_eq!(guest.get(out + 16, 1), [4]);
    assert_eq!((guest.u64(out + 24), guest.u64(out + 32)), (1, 5));
    let modified = u64::try_from(host.mtime()).unwrap() * 1_000_000_000 + u64::try_from(host.mtime_nsec()).unwrap();
    assert_eq!(guest.u64(out + 48), modified);

    call.fd_filestat_set_times(fd, 1_000_000_007, 2_000_000_009, 1 | 4).unwrap();
    call.fd_filestat_get(fd, out).unwrap();
    assert_eq!((guest.u64(out + 40), guest.u64(out + 48)), (1_000_000_007, 2_000_000_009));
    call.fd_filestat_set_times(fd, 0, 0, 8).unwrap();
    call.fd_filestat_get(fd, out).unwrap();
    assert_eq!(guest.u64(out + 40), 1_000_000_007, "left alone");
    assert!(guest.u64(out + 48) > 1_700_000_000_000_000_000, "set to now");
    for bad in [3, 12, 15, 16, 1 << 16] {
        assert_eq!(call.fd_filestat_set_times(fd, 0, 0, bad), Err(Errno::Inval), "{bad}");
    }

    call.fd_filestat_set_size(fd, 100).unwrap();
    call.fd_allocate(fd, 90, 20).unwrap();
    call.fd_filestat_get(fd, out).unwrap();
    assert_eq!(guest.u64(out + 32), 110);
    assert_eq!(call.fd_filestat_set_size(fd, u64::MAX), Err(Errno::Inval));
    assert_eq!(call.fd_allocate(fd, 0, 0), Err(Errno::Inval));
    assert_eq!(call.fd_allocate(fd, u64::MAX, 2), Err(Errno::FBig));
    call.fd_advise(fd, 0, 10, 3).unwrap();
    assert_eq!(call.fd_advise(fd, 0, 10, 6), Err(Errno::Inval));
    assert_eq!(call.fd_advise(fd, u64::MAX, 10, 0), Err(Errno::Inval));
    call.fd_sync(fd).unwrap();
    call.fd_datasync(fd).unwrap();
    assert_eq!(call.fd_filestat_get(fd, MEMORY as u64 - 63), Err(Errno::Fault));
}

#[test]
fn a_directory_is_no_file() {
    let (_outer, process) = with_file(b"");
    let (guest, call) = (&process.guest, process.call());
    let out = guest.space(8);
    assert_eq!(process.read(3, 1), Err(Errno::BadF));
    assert_eq!(process.write(3, b"x"), Err(Errno::BadF));
    assert_eq!(call.fd_pread(3, 0, 0, 0, out), Err(Errno::BadF));
    assert_eq!(call.fd_seek(3, 0, 0, out), Err(Errno::BadF));
    assert_eq!(call.fd_tell(3, out), Err(Errno::BadF));
    assert_eq!(call.fd_allocate(3, 0, 1), Err(Errno::BadF));
    assert_eq!(call.fd_filestat_set_size(3, 0), Err(Errno::BadF));
    let out = guest.space(64);
    call.fd_filestat_get(3, out).unwrap();
    assert_eq!(guest.get(out + 16, 1), [3]);
    let fd = open(&process);
    assert_eq!(process.open_as(fd, "x", false, oflags::CREAT, 0, 0), Err(Errno::NotDir));
    assert_eq!(call.fd_readdir(fd, 0, 100, 0, out), Err(Errno::NotDir));
}

#[test]
fn preopens_tell_their_names() {
    let (outer, process) = with_file(b"");
    let builder = WasiCtx::builder().preopen(outer.path(), "/a", true).preopen(outer.path(), "/long name", false);
    let process = Process { wasi: builder.build().unwrap(), ..process };
    let (guest, call) = (&process.guest, process.call());
    let out = guest.space(8);
    call.fd_prestat_get(4, out).unwrap();
    assert_eq!(guest.get(out, 8), [0, 0, 0, 0, 10, 0, 0, 0]);
    let name = guest.space(16);
    call.fd_prestat_dir_name(4, name, 12).unwrap();
    assert_eq!(guest.get(name, 11), b"/long name\xaa");
    assert_eq!(call.fd_prestat_dir_name(4, name, 9), Err(Errno::NameTooLong));
    assert_eq!(call.fd_prestat_get(5, out), Err(Errno::BadF));
    assert_eq!(call.fd_prestat_get(0, out), Err(Errno::BadF));
}

#[test]
fn closing_and_renumbering() {
    let (_outer, process) = with_file(b"text");
    let call = process.call();
    let (a, b) = (open(&process), open(&process));
    assert_eq!((a, b), (4, 5));
    call.fd_close(a).unwrap();
    assert_eq!(call.fd_close(a), Err(Errno::BadF));
    assert_eq!(open(&process), a, "the lowest free number");
    process.read(b, 2).unwrap();
    call.fd_renumber(b, a).unwrap();
    assert_eq!(process.read(a, 9).unwrap(), b"xt");
    assert_eq!(call.fd_renumber(a, b), Err(Errno::BadF));
    assert_eq!(call.fd_renumber(b, a), Err(Errno::BadF));
    call.fd_renumber(a, a).unwrap();
    assert_eq!(open(&process), b, "renumbering frees a number");
    call.fd_renumber(a, 1).unwrap();
    assert_eq!(process.read(1, 9).unwrap(), b"");
    call.fd_close(3).unwrap();
    assert_eq!(process.open("file"), Err(Errno::BadF));
}
