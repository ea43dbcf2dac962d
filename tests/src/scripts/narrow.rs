//! Atomic accesses of every width at every place of a word: the old value is zero-extended, the neighbours stay.

use std::fmt::Write as _;

use super::kinds::{ATOMICS, KINDS, Kind, atomic};

/// The words around the one that is worked on, and itself: every byte has its sign bit and differs from its neighbours.
const WORDS: [u64; 3] = [0x8182_8384_8586_8788, 0xf1e2_d3c4_b5a6_9780, 0x9192_9394_9596_9798];

/// Where the middle word is, and how much of that is static offset.
const PLACE: u64 = 24;
const OFFSET: u64 = 16;

/// Operands: bits above a narrow width must not count; sums carry out of each lane.
const OPERANDS: [u64; 2] = [0xf0f1_f2f3_f4f5_f6f7, 0x0123_4567_89ab_cdef];

const OPERATORS: [&str; 9] = ["load", "store", "add", "sub", "and", "or", "xor", "xchg", "cmpxchg"];

pub(super) fn script() -> String {
    let mut out = String::new();
    for kind in KINDS {
        module(&mut out, kind);
        for (ty, bits) in ATOMICS {
            for operator in OPERATORS {
                for lane in 0..64 / bits {
                    works_on_its_lane(&mut out, kind, (ty, *bits), operator, lane);
                }
                must_be_aligned(&mut out, kind, (ty, *bits), operator);
            }
        }
    }
    out
}

fn module(out: &mut String, kind: &Kind) {
    let Kind { name, index, memory, .. } = kind;
    line!(out, ";; {name}\n(module {memory}");
    line!(out, r#"(func (export "reset")"#);
    for (at, word) in (PLACE - 8..).step_by(8).zip(WORDS) {
        line!(out, "(i64.store $m {} (i64.const {word:#x}))", kind.at(at));
    }
    line!(out, ")");
    line!(out, r#"(func (export "word") (param {index}) (result i64) (i64.load $m (local.get 0)))"#);
    for (ty, bits) in ATOMICS {
        for operator in OPERATORS {
            let name = atomic(ty, *bits, operator);
            let (params, operands) = match operator {
                "load" => (String::new(), ""),
                "cmpxchg" => (format!("{ty} {ty}"), "(local.get 1) (local.get 2)"),
                _ => ((*ty).to_owned(), "(local.get 1)"),
            };
            let result = if operator == "store" { String::new() } else { format!("(result {ty})") };
            line!(out, r#"(func (export "{name}") (param {index} {params}) {result}"#);
            line!(out, "({name} $m offset={OFFSET} (local.get 0) {operands}))");
        }
    }
    line!(out, ")");
}

/// What becomes of a lane.
fn apply(operator: &str, old: u64, operand: u64) -> u64 {
    match operator {
        "load" => old,
        "add" => old.wrapping_add(operand),
        "sub" => old.wrapping_sub(operand),
        "and" => old & operand,
        "or" => old | operand,
        "xor" => old ^ operand,
        _ => operand,
    }
}

fn works_on_its_lane(out: &mut String, kind: &Kind, (ty, bits): (&str, u64), operator: &str, lane: u64) {
    let name = atomic(ty, bits, operator);
    let mask = u64::MAX >> (64 - bits);
    let shift = lane * bits;
    let old = WORDS[1] >> shift & mask;
    let index = kind.at(PLACE - OFFSET + lane * bits / 8);
    let number = |value: u64| {
        let value = if ty == "i32" { value & u64::from(u32::MAX) } else { value };
        format!("({ty}.const {value:#x})")
    };
    let mut check = |operands: &str, new: u64| {
        let result = if operator == "store" { String::new() } else { number(old) };
        line!(out, r#"(invoke "reset")"#);
        line!(out, r#"(assert_return (invoke "{name}" {index} {operands}) {result})"#);
        let word = WORDS[1] & !(mask << shift) | (new & mask) << shift;
        for (at, word) in (PLACE - 8..).step_by(8).zip([WORDS[0], word, WORDS[2]]) {
            line!(out, r#"(assert_return (invoke "word" {}) (i64.const {word:#x}))"#, kind.at(at));
        }
    };
    for operand in OPERANDS {
        match operator {
            "load" => check("", old),
            "cmpxchg" => {
                // Bits of the expected value above the width do not count.
                let equal = if bits < 64 { old | OPERANDS[0] & !mask } else { old };
                check(&format!("{} {}", number(equal), number(operand)), operand);
                check(&format!("{} {}", number(old ^ 1), number(operand)), old);
            }
            _ => check(&number(operand), apply(operator, old, operand)),
        }
    }
}

/// At every other address it traps and stores nothing, also where it would be out of bounds.
fn must_be_aligned(out: &mut String, kind: &Kind, (ty, bits): (&str, u64), operator: &str) {
    let name = atomic(ty, bits, operator);
    let one = format!("({ty}.const 1)");
    let operands = match operator {
        "load" => String::new(),
        "cmpxchg" => format!("{one} {one}"),
        _ => one,
    };
    line!(out, r#"(invoke "reset")"#);
    for misplaced in 1..bits / 8 {
        for base in [PLACE - OFFSET, kind.bytes / 8 * 8, kind.below_zero(OFFSET + 8)] {
            let index = kind.at(base + misplaced);
            line!(out, r#"(assert_trap (invoke "{name}" {index} {operands}) "unaligned atomic")"#);
        }
    }
    line!(out, r#"(assert_return (invoke "word" {}) (i64.const {:#x}))"#, kind.at(PLACE), WORDS[1]);
}
