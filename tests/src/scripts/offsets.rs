//! Static offsets beyond the memory, beyond what faults behind it, and beyond the index type: no sum wraps.

use std::fmt::Write as _;

use super::kinds::{KINDS, Kind};

const OUTSIDE: &str = "\"out of bounds memory access\"";

/// Loads of each width, and two atomic accesses.
const ACCESSES: &[(&str, &str, u64)] = &[
    ("i32.load8_u", "i32", 1),
    ("i32.load", "i32", 4),
    ("i64.load", "i64", 8),
    ("v128.load", "v128", 16),
    ("i32.atomic.load", "i32", 4),
    ("i64.atomic.load", "i64", 8),
];

const OFFSETS32: &[u64] = &[0x7fff_fff0, 0x7fff_ffff, 0x8000_0000, 0xffff_fff0, 0xffff_ffff];

/// 2 GiB behind a 64-bit memory fault: offset and width below, at and above that, and numbers that make sums wrap.
const OFFSETS64: &[u64] = &[
    0x7fff_ffef,
    0x7fff_fff0,
    0x7fff_fff8,
    0x7fff_fffc,
    0x7fff_ffff,
    0x8000_0000,
    0xffff_ffff,
    0x1_0000_0000,
    0x7fff_ffff_ffff_ffff,
    0x8000_0000_0000_0000,
    0xffff_ffff_0000_0000,
    0xffff_ffff_ffff_fff0,
    0xffff_ffff_ffff_fffc,
    0xffff_ffff_ffff_ffff,
];

pub(super) fn script() -> String {
    let mut out = String::new();
    for kind in KINDS {
        wrapping(&mut out, kind);
    }
    for (memory, name) in [
        ("(memory $m i64 0x18001)", "reaches beyond 4 GiB"),
        ("(memory $m i64 0x18001 0x18001 shared)", "the same, shared"),
        ("(memory $m i64 0x180010000 (pagesize 1))", "the same, of pages of one byte"),
    ] {
        large(&mut out, name, memory);
    }
    out
}

/// No index and offset whose true sum is outside get inside by wrapping.
fn wrapping(out: &mut String, kind: &Kind) {
    let Kind { name, index, memory, bytes, .. } = kind;
    let offsets = if *index == "i64" { OFFSETS64 } else { OFFSETS32 };
    line!(out, ";; {name}\n(module {memory}");
    for (access, ty, width) in ACCESSES {
        for offset in offsets {
            let function = |suffix: &str, param: &str, at: &str| {
                format!(
                    r#"(func (export "{access} {offset:#x}{suffix}") {param} (result {ty}) ({access} $m offset={offset:#x} {at}))"#
                )
            };
            line!(out, "{}", function("", &format!("(param {index})"), "(local.get 0)"));
            // Constants, which a compiler adds up by itself. Aligned, so that an atomic access is judged by its place.
            let aligned = offset.wrapping_neg() % width;
            line!(out, "{}", function(" near", "", &kind.at(aligned)));
            line!(out, "{}", function(" far", "", &kind.at(kind.below_zero(2 * width) + aligned)));
        }
    }
    line!(out, ")");
    let size = 1u128 << if *index == "i64" { 64 } else { 32 };
    for (access, _, width) in ACCESSES {
        for offset in offsets {
            let call = |suffix: &str, at: &str| {
                format!(r#"(assert_trap (invoke "{access} {offset:#x}{suffix}" {at}) {OUTSIDE})"#)
            };
            let (wide, width) = (u128::from(*offset), u128::from(*width));
            let to_zero = (size - wide % size) % size;
            let aligned = to_zero % width;
            let half = size / 2 + aligned;
            for at in [aligned, aligned + 8 * width, half, to_zero, to_zero + 16, size - 16 * width + aligned] {
                let sum = at + wide;
                let inside = sum + width <= u128::from(*bytes);
                if at < size && !inside && (!access.contains("atomic") || sum.is_multiple_of(width)) {
                    line!(out, "{}", call("", &kind.at(u64::try_from(at).expect("below the size"))));
                }
            }
            line!(out, "{}", call(" near", ""));
            line!(out, "{}", call(" far", ""));
        }
    }
}

/// All bits of an address count, and every way to write it down comes to the same place.
fn large(out: &mut String, name: &str, memory: &str) {
    let bytes = 0x1_8001_0000u64;
    let offsets = [
        0,
        0x7fff_fffc,
        0x7fff_ffff,
        0x8000_0000,
        0xffff_ffff,
        0x1_0000_0000,
        0x1_8000_0000,
        0x1_8000_fffc,
        0x1_8001_0000,
    ];
    line!(out, ";; {name}\n(module {memory}");
    line!(out, r#"(func (export "set") (param i64 i32) (i32.store $m (local.get 0) (local.get 1)))"#);
    for offset in offsets {
        let at = format!("offset={offset:#x} (local.get 0)");
        line!(out, r#"(func (export "load {offset:#x}") (param i64) (result i32) (i32.load $m {at}))"#);
        line!(out, r#"(func (export "store {offset:#x}") (param i64) (i64.store $m {at} (i64.const -1)))"#);
        let add = format!("(i32.atomic.rmw.add $m {at} (i32.const 0))");
        line!(out, r#"(func (export "atomic {offset:#x}") (param i64) (result i32) {add})"#);
    }
    line!(
        out,
        r#"(func (export "constants") (result i32) (i32.load $m offset=0x80000000 (i64.const 0x8000000c)))
        (func (export "narrow") (param i32) (result i32) (i32.load $m (i64.extend_i32_u (local.get 0))))
        (func (export "signed") (param i32) (result i32) (i32.load $m (i64.extend_i32_s (local.get 0))))
        (func (export "sum") (param i64 i64) (result i32) (i32.load $m (i64.add (local.get 0) (local.get 1)))))"#
    );
    let words = [(0xc, 1), (0x8000_000c, 2), (0x1_0000_000c, 3), (0x1_8000_fffc, 4)];
    for (at, value) in words {
        line!(out, r#"(invoke "set" (i64.const {at:#x}) (i32.const {value}))"#);
    }
    for offset in offsets {
        let index = |at: u64| format!("(i64.const {:#x})", at.wrapping_sub(offset));
        for (at, value) in words {
            if at >= offset {
                line!(out, r#"(assert_return (invoke "load {offset:#x}" {}) (i32.const {value}))"#, index(at));
                line!(out, r#"(assert_return (invoke "atomic {offset:#x}" {}) (i32.const {value}))"#, index(at));
            } else {
                // Index and offset would have to wrap.
                line!(out, r#"(assert_trap (invoke "load {offset:#x}" {}) {OUTSIDE})"#, index(at));
                line!(out, r#"(assert_trap (invoke "atomic {offset:#x}" {}) {OUTSIDE})"#, index(at));
            }
        }
        line!(out, r#"(assert_trap (invoke "load {offset:#x}" {}) {OUTSIDE})"#, index(bytes - 3));
        line!(out, r#"(assert_trap (invoke "store {offset:#x}" {}) {OUTSIDE})"#, index(bytes - 4));
        line!(out, r#"(assert_trap (invoke "atomic {offset:#x}" {}) {OUTSIDE})"#, index(bytes));
    }
    line!(
        out,
        r#"(assert_return (invoke "load 0x0" (i64.const 0x18000fffc)) (i32.const 4))
        (assert_return (invoke "constants") (i32.const 3))
        (assert_return (invoke "narrow" (i32.const 0x8000000c)) (i32.const 2))
        (assert_trap (invoke "signed" (i32.const 0x8000000c)) {OUTSIDE})
        (assert_return (invoke "sum" (i64.const 0x80000006) (i64.const 0x80000006)) (i32.const 3))
        (assert_return (invoke "sum" (i64.const -0x80000000) (i64.const 0x8000000c)) (i32.const 1))
        (assert_trap (invoke "sum" (i64.const -0x80000000) (i64.const 0x7ffffffc)) {OUTSIDE})"#
    );
}
