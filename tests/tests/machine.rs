//! The guard survives the whole pipeline: the final machine code of the bare spin of a real module holds the budget's
//! update and test inside its loop, and the call outside, on x86_64 and aarch64.

use spinwise::Config;
use spinwise::pipeline::{self, Stage};

/// What to look for in a target's disassembly.
struct Target {
    triple: &'static str,
    /// Pays 16 value-iterations.
    update: fn(&str) -> bool,
    call: &'static str,
    is_jump: fn(&str) -> bool,
}

const TARGETS: &[Target] = &[
    Target {
        triple: "x86_64-unknown-linux-gnu",
        update: |code| code.starts_with("sub") && code.contains("$0x10,"),
        call: "call",
        is_jump: |code| code.starts_with('j'),
    },
    Target {
        triple: "aarch64-unknown-linux-gnu",
        update: |code| code.starts_with("sub") && code.contains("#0x10"),
        call: "bl ",
        is_jump: |code| ["b ", "b.", "cbz", "cbnz", "tbz", "tbnz"].iter().any(|jump| code.starts_with(jump)),
    },
];

/// One instruction: its offset and its text.
type Line = (u64, String);

fn lines(assembly: &str) -> Vec<Line> {
    let parse = |line: &str| {
        let (offset, code) = line.trim_start().split_once("  ")?;
        Some((u64::from_str_radix(offset, 16).ok()?, code.to_owned()))
    };
    assembly.lines().filter_map(parse).collect()
}

/// Where a jump goes.
fn destination(code: &str) -> Option<u64> {
    let operand = code.split("  ;").next()?.rsplit([' ', ',']).next()?;
    u64::from_str_radix(operand.trim_start_matches('#').strip_prefix("0x")?, 16).ok()
}

/// The instructions of the only loop that lies before the cold call: from where a jump goes back to, to that jump.
fn hot_loop<'a>(target: &Target, lines: &'a [Line]) -> &'a [Line] {
    let cold = lines.iter().position(|(_, code)| code.starts_with(target.call)).expect("a cold call");
    let goes_back = |(at, code): &Line| (target.is_jump)(code) && destination(code).is_some_and(|to| to <= *at);
    let last = lines[..cold].iter().rposition(goes_back).expect("a back edge");
    let header = destination(&lines[last].1).expect("a jump");
    let first = lines.iter().position(|(at, _)| *at == header).expect("a header");
    &lines[first..=last]
}

#[test]
fn the_bare_spin_pays_in_its_loop_and_polls_outside_of_it() {
    let path = tests::root().join("fixtures/guard/acceptance.wat");
    let wasm = spinwise::binary_form(std::fs::read(path).expect("readable")).expect("well-formed");
    for target in TARGETS {
        let cpu = spinwise::config::Cpu::Baseline;
        let config = Config { target: Some(target.triple.to_owned()), cpu, ..Config::default() };
        let translation = pipeline::translate(&wasm, &config).expect("valid");
        let isa = pipeline::isa(&config, true, false).expect("a target");
        for (func, name) in translation.functions(Stage::Guarded).iter().zip(["bare_i32", "bare_i64"]) {
            let assembly = spinwise_emit::disassemble(&*isa, func).expect("a disassembly");
            let context = format!("{} {name}:\n{assembly}", target.triple);
            let lines = lines(&assembly);
            let hot = hot_loop(target, &lines);
            let updates = hot.iter().filter(|(_, code)| (target.update)(code)).count();
            assert_eq!(updates, 1, "the budget is paid once a turn: {context}");
            let jumps = hot.iter().filter(|(_, code)| (target.is_jump)(code)).count();
            assert!(jumps >= 2, "the exit and the budget are tested: {context}");
            assert!(hot.iter().any(|(_, code)| code.contains("trap: out of bounds memory access")), "{context}");
            assert!(!hot.iter().any(|(_, code)| code.starts_with(target.call)), "the call is cold: {context}");
            assert!(hot.len() <= 16, "{} instructions a turn: {context}", hot.len());
            let tail = &lines[lines.iter().position(|(_, code)| code.starts_with(target.call)).expect("a call")..];
            assert!(tail[0].1.contains("u2:0"), "the call is the poll thunk's: {context}");
            assert!(tail.iter().any(|(_, code)| code.contains("trap: interrupted")), "{context}");
        }
    }
}
