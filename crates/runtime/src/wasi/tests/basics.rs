//! Arguments, environment, clocks, random bytes, process.

use super::super::context::WasiError;
use super::*;

#[test]
fn arguments_and_environment_are_laid_out_as_c_strings() {
    let process =
        Process::new(WasiCtx::builder().arg("prog").args(["", "ü"]).env("A", "1").env("B", "x=y").env("A", "2"));
    let (call, guest) = (process.call(), &process.guest);
    let (count, bytes) = (guest.space(4), guest.space(4));
    call.args_sizes_get(count, bytes).unwrap();
    assert_eq!((guest.u32(count), guest.u32(bytes)), (3, 9));
    let (pointers, strings) = (guest.space(12), guest.space(9));
    call.args_get(pointers, strings).unwrap();
    assert_eq!(guest.get(strings, 9), b"prog\0\0\xc3\xbc\0");
    assert_eq!([0, 4, 8].map(|at| u64::from(guest.u32(pointers + at)) - strings), [0, 5, 6]);

    call.environ_sizes_get(count, bytes).unwrap();
    assert_eq!((guest.u32(count), guest.u32(bytes)), (2, 10));
    call.environ_get(pointers, strings).unwrap();
    assert_eq!(guest.get(strings, 10), b"B=x=y\0A=2\0");
}

#[test]
fn strings_past_the_end_of_memory_fault() {
    let process = Process::new(WasiCtx::builder().arg("prog"));
    let end = MEMORY as u64;
    assert_eq!(process.call().args_get(end - 3, 0), Err(Errno::Fault));
    assert_eq!(process.call().args_get(0, end - 4), Err(Errno::Fault));
    assert_eq!(process.call().args_get(0, u64::from(u32::MAX)), Err(Errno::Fault));
    assert_eq!(process.call().args_sizes_get(u64::from(u32::MAX), 0), Err(Errno::Fault));
}

#[test]
fn text_that_a_guest_could_not_read_back_is_refused() {
    for builder in [
        WasiCtx::builder().arg("a\0b"),
        WasiCtx::builder().env("A", "\0"),
        WasiCtx::builder().env("", "x"),
        WasiCtx::builder().env("A=B", "x"),
    ] {
        assert!(matches!(builder.build(), Err(WasiError::Text { .. })));
    }
    let error = WasiCtx::builder().preopen("/no/such", "/", true).build().unwrap_err();
    assert_eq!(error.to_string(), "cannot open directory /no/such: no such file or directory");
}

#[test]
fn clocks_run() {
    let process = Process::new(WasiCtx::builder());
    let (call, guest) = (process.call(), &process.guest);
    let out = guest.space(8);
    for id in 0..4 {
        call.clock_res_get(id, out).unwrap();
        assert!((1..=1_000_000_000).contains(&guest.u64(out)), "clock {id}");
        call.clock_time_get(id, 0, out).unwrap();
        let first = guest.u64(out);
        call.clock_time_get(id, u64::MAX, out).unwrap();
        assert!(guest.u64(out) >= first, "clock {id}");
    }
    call.clock_time_get(0, 0, out).unwrap();
    assert!(guest.u64(out) > 1_700_000_000_000_000_000, "seconds are scaled to ns");
    assert_eq!(call.clock_time_get(4, 0, out), Err(Errno::Inval));
    assert_eq!(call.clock_time_get(0, 0, u64::from(u32::MAX)), Err(Errno::Fault));
}

#[test]
fn random_bytes_fill_exactly_what_was_asked() {
    let process = Process::new(WasiCtx::builder());
    let (call, guest) = (process.call(), &process.guest);
    call.random_get(100, 10_000).unwrap();
    let bytes = guest.get(100, 10_000);
    for part in bytes.chunks(500) {
        assert!(part.iter().any(|byte| *byte != 0xaa));
    }
    assert_eq!((guest.get(99, 1), guest.get(10_100, 1)), (vec![0xaa], vec![0xaa]));
    call.random_get(0, 0).unwrap();
    assert_eq!(call.random_get(1, u64::from(u32::MAX)), Err(Errno::Fault));
    assert_eq!(guest.get(1, 1), [0xaa], "nothing is written when not all fits");
}

#[test]
fn signals_have_their_default_action() {
    let process = Process::new(WasiCtx::builder());
    assert_eq!(process.call().proc_raise(0), Ok(None));
    assert_eq!(process.call().proc_raise(6), Ok(Some(134)));
    assert_eq!(process.call().proc_raise(16), Ok(None));
    assert_eq!(process.call().proc_raise(18), Err(Errno::NotSup));
    assert_eq!(process.call().proc_raise(31), Err(Errno::Inval));
    process.call().sched_yield().unwrap();
}
