//! A loop's way out comes first, under the opposite condition, and the loop runs as before.

#![expect(unsafe_code, reason = "calls generated code")]

mod common;

use std::sync::mpsc::RecvTimeoutError;
use std::time::Duration;

use common::{load, module, no_builtins};
use spinwise_emit::{OptLevel, Target};

/// Whether the loop goes on at a counter.
type Condition = fn(i64) -> bool;

/// A countdown from `v1` that leaves the loop in its middle where `condition` of the counter `v3` fails, and counts
/// turns in `v4`. `definition` defines `v5` of `v3`; the loop goes on while `v5` is not 0.
fn text(definition: &str) -> String {
    format!(
        "function u0:0(i64, i64) -> i64 {C} {{
        block0(v0: i64, v1: i64):
            v2 = iconst.i64 0
            jump block1(v1, v2)
        block1(v3: i64, v4: i64):
            {definition}
            brif v5, block2, block3
        block2:
            v6 = load.i64 notrap aligned readonly can_move v0
            v7 = isub v3, v6
            v8 = iadd v4, v6
            jump block1(v7, v8)
        block3:
            return v4
        }}",
        C = if cfg!(windows) { "windows_fastcall" } else { "system_v" }
    )
}

#[test]
fn conditions_are_turned_without_changing_their_meaning() {
    let (done, finished) = std::sync::mpsc::channel();
    let runs = std::thread::spawn(move || {
        run_all_conditions();
        let _ = done.send(());
    });
    // A loop that goes on under the wrong condition may never end.
    if finished.recv_timeout(Duration::from_secs(120)) == Err(RecvTimeoutError::Timeout) {
        panic!("a loop does not end");
    }
    runs.join().expect("every condition holds");
}

fn run_all_conditions() {
    let conditions: [(&str, Condition); 8] = [
        ("v50 = iconst.i64 3\n v5 = icmp sgt v3, v50", |counter| counter > 3),
        ("v50 = iconst.i64 3\n v5 = icmp ne v3, v50", |counter| counter != 3),
        ("v50 = iconst.i64 3\n v51 = icmp ugt v3, v50\n v5 = uextend.i32 v51", |counter| counter.cast_unsigned() > 3),
        ("v5 = ireduce.i32 v3", |counter| counter & 0xffff_ffff != 0),
        ("v5 = bxor v3, v3", |_| false),
        // 0 / 0 is NaN: an ordered comparison fails, its opposite must hold.
        ("v50 = fcvt_from_sint.f64 v3\n v51 = fdiv v50, v50\n v5 = fcmp eq v51, v51", |counter| counter != 0),
        (
            "v50 = fcvt_from_sint.f64 v3\n v51 = fdiv v50, v50\n v52 = f64const 0x0.5p0\n v5 = fcmp ge v51, v52",
            |counter| counter != 0,
        ),
        (
            "v50 = fcvt_from_sint.f64 v3\n v51 = fdiv v50, v50\n v52 = fcmp uno v51, v51\n v53 = iconst.i8 0\n v5 = icmp eq v52, v53",
            |counter| counter != 0,
        ),
    ];
    let step = 1_i64;
    for (definition, goes_on) in conditions {
        for opt in [OptLevel::None, OptLevel::Speed] {
            let image = load(&Target { opt, ..Target::default() }, &module(0, 1), &text(definition), &no_builtins);
            let code = std::ptr::with_exposed_provenance::<u8>(image.functions[0]);
            // SAFETY: the function was compiled with exactly this signature and convention.
            let run = unsafe { std::mem::transmute::<*const u8, extern "C" fn(*const i64, i64) -> i64>(code) };
            for start in 0..8 {
                let turns = (0..=start).rev().take_while(|counter| goes_on(*counter)).fold(0_i64, |turns, _| turns + 1);
                if turns > start && goes_on(-1) {
                    continue; // would not end soon
                }
                assert_eq!(run(&raw const step, start), turns, "{definition} from {start} at {opt:?}");
            }
        }
    }
}
