//! Guests of 64-bit addresses: what lies in memory has 64-bit addresses and sizes, all else is as it was.

use super::*;

/// A call in the ABI for 64-bit addresses.
fn wide(process: &Process) -> Call<'_> {
    Call { wide: true, ..process.call() }
}

fn iovecs(guest: &TestGuest, spans: &[(u64, u64)]) -> u64 {
    let bytes: Vec<u8> =
        spans.iter().flat_map(|(at, length)| [at.to_le_bytes(), length.to_le_bytes()].concat()).collect();
    guest.put(&bytes)
}

#[test]
fn lists_of_strings_have_addresses_of_64_bits() {
    let process = Process::new(WasiCtx::builder().args(["prog", "x"]).env("A", "b"));
    let guest = &process.guest;
    let (count, bytes) = (guest.space(8), guest.space(8));
    wide(&process).args_sizes_get(count, bytes).unwrap();
    assert_eq!((guest.u64(count), guest.u64(bytes)), (2, 7));
    let (list, strings) = (guest.space(24), guest.space(16));
    wide(&process).args_get(list, strings).unwrap();
    assert_eq!((guest.u64(list), guest.u64(list + 8)), (strings, strings + 5));
    assert_eq!(guest.get(list + 16, 8), [0xaa; 8], "two addresses and no more");
    assert_eq!(guest.get(strings, 8), b"prog\0x\0\xaa");
    wide(&process).environ_sizes_get(count, bytes).unwrap();
    assert_eq!((guest.u64(count), guest.u64(bytes)), (1, 4));
    // Sizes of 64 bits must fit.
    let end = MEMORY as u64;
    assert_eq!(wide(&process).args_sizes_get(end - 4, bytes), Err(Errno::Fault));
    assert_eq!(process.call().args_sizes_get(end - 4, bytes), Ok(()));
    for far in [1 << 32, u64::MAX, u64::MAX - 7, 1 << 63] {
        assert_eq!(wide(&process).args_sizes_get(far, bytes), Err(Errno::Fault));
        assert_eq!(wide(&process).args_get(list, far), Err(Errno::Fault));
    }
}

#[test]
fn buffers_are_16_bytes_each_and_sizes_come_back_in_8() {
    for resolver in RESOLVERS {
        let (outer, process) = in_directory(false, resolver, |_| ());
        let (guest, call) = (&process.guest, wide(&process));
        let fd = process.open_as(3, "file", true, 1, READ | WRITE, 0).unwrap();
        let (first, second) = (guest.put(b"wide "), guest.put(b"pointers"));
        let out = guest.space(8);
        call.fd_write(fd, iovecs(guest, &[(first, 5), (second, 8)]), 2, out).unwrap();
        assert_eq!(guest.u64(out), 13);
        call.fd_pwrite(fd, iovecs(guest, &[(second, 1)]), 1, 0, out).unwrap();
        assert_eq!(
            (guest.u64(out), std::fs::read(outer.path().join("inside/file")).unwrap()),
            (1, b"pide pointers".into())
        );
        let to = guest.space(16);
        call.fd_pread(fd, iovecs(guest, &[(to, 2), (to + 8, 3)]), 2, 1, out).unwrap();
        assert_eq!((guest.u64(out), guest.get(to, 3), guest.get(to + 8, 4)), (5, b"id\xaa".into(), b"e p\xaa".into()));
        call.fd_seek(fd, -3, 2, out).unwrap();
        call.fd_read(fd, iovecs(guest, &[(to, 16)]), 1, out).unwrap();
        assert_eq!((guest.u64(out), guest.get(to, 3)), (3, b"ers".into()));
        // Nothing is read where a buffer or the place for the size is outside.
        let end = MEMORY as u64;
        for (at, length) in [(end - 1, 2), (1 << 32, 1), (u64::MAX, 1), (0, u64::MAX), (u64::MAX, u64::MAX)] {
            assert_eq!(call.fd_pread(fd, iovecs(guest, &[(at, length)]), 1, 0, out), Err(Errno::Fault));
        }
        assert_eq!(call.fd_pread(fd, iovecs(guest, &[(to, 1)]), 1, 0, end - 4), Err(Errno::Fault));
        assert_eq!(call.fd_pread(fd, u64::MAX - 15, 1, 0, out), Err(Errno::Fault));
        assert_eq!(call.fd_pread(fd, 0, 1 << 60, 0, out), Err(Errno::Inval));
    }
}

#[test]
fn directories_and_links_too() {
    for resolver in RESOLVERS {
        let (_outer, process) = in_directory(false, resolver, |path| {
            std::fs::write(path.join("name"), "").unwrap();
            std::os::unix::fs::symlink("target", path.join("link")).unwrap();
        });
        let (guest, call) = (&process.guest, wide(&process));
        let prestat = guest.space(16);
        call.fd_prestat_get(3, prestat).unwrap();
        assert_eq!((guest.get(prestat, 8), guest.u64(prestat + 8)), (vec![0; 8], 1));
        let (buffer, used) = (guest.space(512), guest.space(8));
        call.fd_readdir(3, buffer, 512, 0, used).unwrap();
        let used = guest.u64(used);
        // Entries are as they were: their name's length has 32 bits.
        let (mut at, mut names) = (0, Vec::new());
        while at < used {
            let length = guest.u32(buffer + at + 16);
            names.push(guest.get(buffer + at + 24, length as usize));
            at += 24 + u64::from(length);
        }
        names.sort();
        assert_eq!(names, [b".".to_vec(), b"..".into(), b"link".into(), b"name".into()]);
        let (path, length) = process.path("link");
        let size = guest.space(8);
        call.path_readlink(3, path, length, buffer, 4, size).unwrap();
        assert_eq!((guest.u64(size), guest.get(buffer, 4)), (4, b"targ".into()));
        let opened = guest.space(8);
        let (path, length) = process.path("name");
        call.path_open(3, 0, path, length, 0, READ, 0, 0, opened).unwrap();
        assert_eq!(guest.get(opened + 4, 4), [0xaa; 4], "a descriptor has 32 bits");
        let (events, stored) = (guest.space(32), guest.space(8));
        let mut subscription = vec![0; 48];
        subscription[0] = 7;
        let list = guest.put(&subscription);
        call.poll_oneoff(list, events, 1, stored).unwrap();
        assert_eq!((guest.u64(stored), guest.u64(events)), (1, 7));
    }
}
