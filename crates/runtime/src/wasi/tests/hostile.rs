//! Calls with absurd parameters over memory full of noise: every one ends, with an answer.

use super::super::stdio::{Capture, Stream};
use super::*;

/// Numbers that look like what a hostile guest would pass, from a fixed seed (xorshift64).
struct Noise(u64);

impl Noise {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn u64(&mut self) -> u64 {
        let edges = [0, 1, 4096, i64::MAX.cast_unsigned(), 1 << 63, u64::MAX - 1, u64::MAX];
        match self.next() % 3 {
            0 => self.next(),
            1 => u64::from(self.u32()),
            _ => edges[usize::try_from(self.next() % 7).unwrap()],
        }
    }

    fn u32(&mut self) -> u32 {
        let end = u32::try_from(MEMORY).unwrap();
        let edges = [0, 1, 3, 4, 5, 1024, end - 1, end, end + 1, 1 << 31, u32::MAX - 7, u32::MAX];
        let small = |n: u64, bound: u64| u32::try_from(n % bound).unwrap();
        match self.next() % 4 {
            0 => small(self.next(), 1 << 32),
            1 => small(self.next(), u64::from(end)),
            2 => small(self.next(), 64),
            _ => edges[small(self.next(), 12) as usize],
        }
    }

    /// Mostly an address inside.
    fn at(&mut self) -> u64 {
        match self.next() % 16 {
            0 => self.u32().into(),
            1 => self.u64(),
            _ => self.next() % 2048,
        }
    }

    /// Mostly a small number.
    fn few<T: From<u32>>(&mut self) -> T {
        let few = if self.next().is_multiple_of(8) { self.u32() } else { u32::try_from(self.next() % 5).unwrap() };
        few.into()
    }

    /// Mostly one that is open.
    fn fd(&mut self) -> u32 {
        if self.next().is_multiple_of(8) { self.u32() } else { u32::try_from(self.next() % 8).unwrap() }
    }
}

/// Makes the call of that number.
fn make(which: u64, call: &Call<'_>, n: &mut Noise) -> Result<()> {
    match which {
        0 => call.args_get(n.at(), n.at()),
        1 => call.environ_sizes_get(n.at(), n.at()),
        2 => call.clock_res_get(n.few(), n.at()),
        3 => call.clock_time_get(n.few(), n.u64(), n.at()),
        4 => call.random_get(n.at(), n.few()),
        5 => call.fd_advise(n.fd(), n.u64(), n.u64(), n.few()),
        // Never much: the disk is real.
        6 => call.fd_allocate(n.fd(), n.u64() | 1 << 62, n.u64()),
        7 => call.fd_close(n.u32()),
        8 => call.fd_fdstat_get(n.fd(), n.at()),
        9 => call.fd_fdstat_set_flags(n.fd(), n.few()),
        10 => call.fd_fdstat_set_rights(n.fd(), n.u64(), n.u64()),
        11 => call.fd_filestat_get(n.fd(), n.at()),
        12 => call.fd_filestat_set_size(n.fd(), n.u64()),
        13 => call.fd_filestat_set_times(n.fd(), n.u64(), n.u64(), n.few()),
        14 => call.fd_pread(n.fd(), n.at(), n.few(), n.u64(), n.at()),
        15 => call.fd_prestat_get(n.fd(), n.at()),
        16 => call.fd_prestat_dir_name(n.fd(), n.at(), n.few()),
        17 => call.fd_pwrite(n.fd(), n.at(), n.few(), n.u64(), n.at()),
        18 => call.fd_read(n.fd(), n.at(), n.few(), n.at()),
        19 => call.fd_readdir(n.fd(), n.at(), n.few(), n.few(), n.at()),
        20 => call.fd_renumber(n.u32(), n.fd()),
        21 => call.fd_seek(n.fd(), n.u64().cast_signed(), n.few(), n.at()),
        22 => call.fd_sync(n.fd()),
        23 => call.fd_tell(n.fd(), n.at()),
        24 => call.fd_write(n.fd(), n.at(), n.few(), n.at()),
        25 => call.path_create_directory(n.fd(), n.at(), n.few()),
        26 => call.path_filestat_get(n.fd(), n.few(), n.at(), n.few(), n.at()),
        27 => call.path_filestat_set_times(n.fd(), n.few(), n.at(), n.few(), n.u64(), n.u64(), n.few()),
        28 => call.path_link(n.fd(), n.few(), n.at(), n.few(), n.fd(), n.at(), n.few()),
        29 => {
            let (at, length) = (n.at(), n.few());
            call.path_open(n.fd(), n.few(), at, length, n.few(), n.u64(), n.u64(), n.few(), n.at())
        }
        30 => call.path_readlink(n.fd(), n.at(), n.few(), n.at(), n.few(), n.at()),
        31 => call.path_remove_directory(n.fd(), n.at(), n.few()),
        32 => call.path_rename(n.fd(), n.at(), n.few(), n.fd(), n.at(), n.few()),
        33 => call.path_symlink(n.at(), n.few(), n.fd(), n.at(), n.few()),
        34 => call.path_unlink_file(n.fd(), n.at(), n.few()),
        35 => call.poll_oneoff(n.at(), n.at(), n.few(), n.at()),
        36 => call.proc_raise(n.few()).map(drop),
        37 => call.sock_send(n.fd(), n.at(), n.few(), n.few(), n.at()),
        // Something to act on.
        _ => call.path_open(3, 1, n.at(), 1, 1, READ | WRITE, 0, 0, n.at()),
    }
}

#[test]
fn every_call_answers() {
    let mut noise = Noise(0x9e37_79b9_7f4a_7c15);
    let mut answered = std::collections::BTreeMap::new();
    for round in 0..40 {
        let (outer, process) = in_directory(round % 4 == 0, RESOLVERS[round % 2], |path| {
            std::fs::create_dir(path.join("a")).unwrap();
            std::fs::write(path.join("a/a"), "text").unwrap();
            std::os::unix::fs::symlink("a", path.join("b")).unwrap();
        });
        let builder = WasiCtx::builder()
            .args(["prog", "x"])
            .stdin(Stream::Bytes(b"input".to_vec()))
            .stdout(Stream::Capture(Capture::new()))
            .preopen(outer.path().join("inside"), "/", round % 4 == 0);
        let process = Process { wasi: builder.build().unwrap(), ..process };
        // Waits end at once.
        process.guest.end();
        for _ in 0..500 {
            // Memory that is now and then a list of small numbers or a path, and noise else.
            let bytes: Vec<u8> = match noise.next() % 3 {
                0 => (0..256).flat_map(|_| noise.u32().to_le_bytes()).collect(),
                1 => (0..2048).map(|_| b"ab./"[usize::try_from(noise.next() % 4).unwrap()]).collect(),
                _ => (0..128).flat_map(|_| noise.next().to_le_bytes()).collect(),
            };
            let at = noise.next() % 120_000;
            process.guest.write(if noise.next().is_multiple_of(2) { 0 } else { at }, &bytes).unwrap();
            let which = noise.next() % 42;
            let call = Call { wide: noise.next().is_multiple_of(2), ..process.call() };
            let outcome = make(which, &call, &mut noise);
            answered.entry(which.min(38)).or_insert([0, 0])[usize::from(outcome.is_err())] += 1;
        }
        let beside: Vec<_> = std::fs::read_dir(outer.path()).unwrap().collect();
        assert_eq!(beside.len(), 1, "nothing has appeared beside the directory");
    }
    // The noise reaches past the first check of most calls.
    let succeeded = answered.values().filter(|[ok, _]| *ok > 0).count();
    assert!(succeeded >= 25, "{answered:?}");
}
