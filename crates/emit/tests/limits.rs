//! Nothing that a module can hold makes the code generator crash or take for ever: hostile shapes compile on a small
//! stack, or are refused with the function's name.
#![expect(clippy::print_stdout, reason = "sizes and times are worth seeing")]

mod common;

use std::fmt::Write as _;
use std::time::Duration;

use common::parse;
use rustix::time::{ClockId, clock_gettime};
use spinwise_emit::{Compiled, Error, Input, OptLevel, Target, compile, isa};

/// Processor time of this thread: the machine may be busy with other things.
fn processor_time() -> Duration {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec.try_into().expect("not negative"), now.tv_nsec.try_into().expect("below a second"))
}

/// Compiles a function as `hostile` on a 512 KiB stack, and says what it took.
fn compile_hostile(triple: Option<&str>, opt: OptLevel, text: &str) -> Result<(Vec<Compiled>, Duration), Error> {
    let func = parse(text).remove(0);
    let target = Target { triple: triple.map(str::to_owned), opt, verifier: false, ..Target::default() };
    let isa = isa(&target, true).expect("supported");
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).stack_size(512 << 10).build().expect("a thread");
    pool.install(|| {
        let start = processor_time();
        let compiled = compile(&*isa, vec![Input { func, symbol: "hostile".to_owned() }], &|_| {})?;
        Ok((compiled, processor_time() - start))
    })
}

fn survives(what: &str, text: &str) {
    for opt in [OptLevel::None, OptLevel::Speed] {
        let (compiled, spent) = compile_hostile(None, opt, text).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(!compiled[0].code.is_empty());
        println!("{what} at {opt:?}: {} bytes in {spent:?}", compiled[0].code.len());
        assert!(spent < Duration::from_secs(20), "{what} at {opt:?}: {spent:?}");
    }
}

#[test]
fn many_small_loops() {
    let mut text = "function u0:0(i64, i32) tail {\nblock0(v0: i64, v1: i32):\n jump block1\n".to_owned();
    for index in 1..=20_000 {
        let _ = writeln!(text, "block{index}:\n brif v1, block{index}, block{}", index + 1);
    }
    text += "block20001:\n return\n}";
    survives("20,000 loops", &text);
}

#[test]
fn deeply_nested_loops() {
    let depth = 10_000;
    let mut text = "function u0:0(i64, i32) tail {\nblock0(v0: i64, v1: i32):\n jump block1\n".to_owned();
    for index in 1..=depth {
        let _ = writeln!(text, "block{index}:\n jump block{}", index + 1);
    }
    for index in 1..=depth {
        let _ =
            writeln!(text, "block{}:\n brif v1, block{}, block{}", depth + index, depth + 1 - index, depth + index + 1);
    }
    let _ = write!(text, "block{}:\n return\n}}", 2 * depth + 1);
    survives("loops nested 10,000 deep", &text);
}

#[test]
fn a_large_jump_table() {
    let targets: Vec<_> = (0..65_000).map(|index| format!("block{}", 1 + index % 256)).collect();
    let mut text = format!(
        "function u0:0(i64, i32) tail {{\nblock0(v0: i64, v1: i32):\n br_table v1, block1, [{}]\n",
        targets.join(", ")
    );
    for index in 1..=256 {
        let _ = writeln!(text, "block{index}:\n jump block257");
    }
    text += "block257:\n return\n}";
    survives("65,000 rows of a jump table", &text);
}

#[test]
fn a_long_chain_of_values() {
    let length = 100_000;
    let mut text = "function u0:0(i64, i32) -> i32 tail {\nblock0(v0: i64, v1: i32):\n".to_owned();
    for index in 2..length {
        let _ = writeln!(text, "v{index} = iadd v{}, v{}", index - 1, index / 2);
    }
    let _ = write!(text, "return v{}\n}}", length - 1);
    survives("a chain of 100,000 additions", &text);
}

#[test]
fn many_values_alive_at_once() {
    let count = 10_000;
    let mut text = "function u0:0(i64, i32) -> i32 tail {\nblock0(v0: i64, v1: i32):\n".to_owned();
    for index in 2..count {
        let _ = writeln!(text, "v{index} = load.i32 notrap v0+{}", index * 4);
    }
    for index in 2..count {
        let previous = if index == 2 { 1 } else { count + index - 1 };
        let _ = writeln!(text, "v{} = isub v{previous}, v{index}", count + index);
    }
    let _ = write!(text, "return v{}\n}}", 2 * count - 1);
    survives("10,000 values alive at once", &text);
}

/// So many calls in a row with one handler, to which each passes what it has.
fn calls_with_a_handler(count: usize) -> String {
    let mut text = "function u0:0(i64, i64) -> i64 tail {
        sig0 = (i64, i64) -> i64 tail
        fn0 = colocated u0:1 sig0
    block0(v0: i64, v1: i64):
        jump block1(v1)\n"
        .to_owned();
    for index in 1..=count {
        let _ = writeln!(
            text,
            "block{index}(v{}: i64):\n try_call fn0(v0, v{}), sig0, block{}(ret0), [ default: block{}(exn0, v{}) ]",
            index + 1,
            index + 1,
            index + 1,
            count + 2,
            index + 1,
        );
    }
    let _ = write!(
        text,
        "block{0}(v{1}: i64):\n return v{1}\nblock{2}(v{3}: i64, v{4}: i64) cold:\n v{5} = iadd v{3}, v{4}\n return v{5}\n}}",
        count + 1,
        count + 2,
        count + 2,
        count + 3,
        count + 4,
        count + 5
    );
    text
}

#[test]
fn many_calls_with_a_handler() {
    survives("20,000 calls with a handler", &calls_with_a_handler(20_000));
}

#[test]
fn a_handler_among_crowded_values() {
    // The chain of above, which is for the linear allocator, and a call that may throw at its end.
    let length = 100_000;
    let mut text = "function u0:0(i64, i64) -> i64 tail {
        sig0 = (i64, i64) -> i64 tail
        fn0 = colocated u0:1 sig0
    block0(v0: i64, v1: i64):\n"
        .to_owned();
    for index in 2..length {
        let _ = writeln!(text, "v{index} = iadd v{}, v{}", index - 1, index / 2);
    }
    let (last, half) = (length - 1, length / 2);
    let _ = write!(
        text,
        "try_call fn0(v0, v{last}), sig0, block1(ret0), [ default: block2(exn0, v{half}) ]
    block1(v{0}: i64):
        v{1} = iadd v{0}, v{half}
        return v{1}
    block2(v{2}: i64, v{3}: i64) cold:
        v{4} = iadd v{2}, v{3}
        return v{4}
    }}",
        length,
        length + 1,
        length + 2,
        length + 3,
        length + 4
    );
    for triple in [None, Some("aarch64-unknown-linux-gnu")] {
        let (compiled, spent) = compile_hostile(triple, OptLevel::Speed, &text).expect("it compiles");
        assert_eq!(compiled[0].handlers.len(), 1);
        assert!(spent < Duration::from_secs(20), "{spent:?}");
    }
}

#[test]
fn what_a_target_lacks_is_refused_by_name() {
    let text = "function u0:0(i64, i8x16) -> i8x16 tail {
        block0(v0: i64, v1: i8x16):
            v2 = iadd v1, v1
            return v2
        }";
    let error = compile_hostile(Some("riscv64gc-unknown-linux-gnu"), OptLevel::Speed, text);
    let text = error.expect_err("no vectors without the extension").to_string();
    assert!(text.contains("hostile") && !text.contains('\n'), "{text}");
}

#[test]
fn the_first_failure_in_input_order_is_reported() {
    let fine = "function u0:0(i64) tail {\nblock0(v0: i64):\n return\n}";
    let faulty = "function u0:0(i64) -> i8x16 tail {\nblock0(v0: i64):\n v1 = vconst.i8x16 0x00\n return v1\n}";
    let target =
        Target { triple: Some("riscv64gc-unknown-linux-gnu".to_owned()), verifier: false, ..Target::default() };
    let isa = isa(&target, true).expect("supported");
    for _ in 0..20 {
        let inputs = [(fine, "a"), (faulty, "b"), (fine, "c"), (faulty, "d")];
        let inputs = inputs.map(|(text, symbol)| Input { func: parse(text).remove(0), symbol: symbol.to_owned() });
        let error = compile(&*isa, inputs.into(), &|_| {}).expect_err("two are faulty");
        assert!(matches!(&error, Error::Compile { function, .. } if function == "b"), "{error}");
    }
}
