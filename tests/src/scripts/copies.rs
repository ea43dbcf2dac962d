//! `memory.copy` between memories of every kind, `memory.fill` and `memory.init` into each: overlap, ends, nothing done
//! where anything is outside.

use std::fmt::Write as _;

const OUTSIDE: &str = "\"out of bounds memory access\"";

/// A memory: its name, its type, and whether its indices are 64 bits wide. All have as many bytes.
const MEMORIES: [(&str, &str, bool); 6] = [
    ("a", "2 3", false),
    ("b", "i64 2 3", true),
    ("c", "131072 (pagesize 1)", false),
    ("d", "i64 131072 (pagesize 1)", true),
    ("e", "2 2 shared", false),
    ("f", "i64 2 2 shared", true),
];
const BYTES: u64 = 131_072;

pub(super) fn script() -> String {
    let mut out = String::new();
    module(&mut out);
    for to in MEMORIES {
        for from in MEMORIES {
            between(&mut out, to, from);
        }
        overlapping(&mut out, to);
        filling(&mut out, to);
    }
    aliases(&mut out);
    out
}

fn ty(wide: bool) -> &'static str {
    if wide { "i64" } else { "i32" }
}

/// A number of an index type; the highest ones stand for themselves in either.
fn number(wide: bool, value: u64) -> String {
    if wide { format!("(i64.const {value:#x})") } else { format!("(i32.const {:#x})", value & 0xffff_ffff) }
}

fn module(out: &mut String) {
    line!(out, "(module");
    for (name, memory, _) in MEMORIES {
        line!(out, "(memory ${name} {memory})");
    }
    line!(out, r#"(data $digits "0123456789")"#);
    for (name, _, wide) in MEMORIES {
        let ty = ty(wide);
        line!(out, r#"(func (export "get {name}") (param {ty}) (result i32) (i32.load8_u ${name} (local.get 0)))"#);
        let all = "(local.get 0) (local.get 1) (local.get 2)";
        line!(out, r#"(func (export "fill {name}") (param {ty} i32 {ty}) (memory.fill ${name} {all}))"#);
        line!(out, r#"(func (export "init {name}") (param {ty} i32 i32) (memory.init ${name} $digits {all}))"#);
        for (from, _, from_wide) in MEMORIES {
            let (from_ty, length) = (self::ty(from_wide), self::ty(wide && from_wide));
            line!(out, r#"(func (export "copy {name} {from}") (param {ty} {from_ty} {length})"#);
            line!(out, "(memory.copy ${name} ${from} {all}))");
        }
    }
    line!(out, ")");
}

fn expect(out: &mut String, (name, _, wide): (&str, &str, bool), bytes: &[(u64, u8)]) {
    for (at, byte) in bytes {
        line!(out, r#"(assert_return (invoke "get {name}" {}) (i32.const {byte}))"#, number(wide, *at));
    }
}

fn fill(out: &mut String, (name, _, wide): (&str, &str, bool), at: u64, byte: u8, length: u64) {
    let (at, length) = (number(wide, at), number(wide, length));
    line!(out, r#"(invoke "fill {name}" {at} (i32.const {byte}) {length})"#);
}

fn init(out: &mut String, (name, _, wide): (&str, &str, bool), at: u64) {
    line!(out, r#"(invoke "init {name}" {} (i32.const 0) (i32.const 10))"#, number(wide, at));
}

fn between(out: &mut String, to: (&str, &str, bool), from: (&str, &str, bool)) {
    let copy = |at: u64, source: u64, length: u64| {
        let operands = [number(to.2, at), number(from.2, source), number(to.2 && from.2, length)].join(" ");
        format!(r#"(invoke "copy {} {}" {operands})"#, to.0, from.0)
    };
    fill(out, from, 0, b'.', BYTES);
    fill(out, to, 0, b'-', BYTES);
    init(out, from, BYTES - 10);
    let background = if to.0 == from.0 { b'-' } else { b'.' };

    line!(out, "{}", copy(100, BYTES - 10, 10));
    expect(out, to, &[(99, b'-'), (100, b'0'), (105, b'5'), (109, b'9'), (110, b'-')]);
    expect(out, from, &[(BYTES - 10, b'0'), (BYTES - 1, b'9'), (BYTES - 11, background)]);

    // Nothing may be copied at an end, and nothing beyond it.
    for (at, source) in [(BYTES, 0), (0, BYTES), (BYTES, BYTES)] {
        line!(out, "{}", copy(at, source, 0).replace("(invoke", "(assert_return (invoke") + ")");
    }
    let mut outside = vec![
        (BYTES + 1, 0, 0),
        (0, BYTES + 1, 0),
        (200, BYTES - 9, 10),
        (BYTES - 9, 100, 10),
        (200, 0xffff_ffff, 1),
        (0xffff_ffff, 100, 1),
        (200, 100, 0xffff_ffff),
        (0x8000_0000, 100, 0x8000_0000),
    ];
    if to.2 {
        outside.extend([(1 << 32, 100, 1), (u64::MAX, 100, 1), (u64::MAX - 9, 100, 10)]);
    }
    if from.2 {
        outside.extend([(200, 1 << 32, 1), (200, u64::MAX, 1), (200, u64::MAX - 9, 10)]);
    }
    if to.2 && from.2 {
        outside.extend([(200, 100, 1 << 32), (200, 100, u64::MAX), (1 << 63, 100, 1 << 63)]);
    }
    for (at, source, length) in outside {
        line!(out, "(assert_trap {} {OUTSIDE})", copy(at, source, length));
    }
    let last = if to.0 == from.0 { b'9' } else { b'-' };
    expect(out, to, &[(200, b'-'), (201, b'-'), (BYTES - 1, last)]);
}

/// Within a memory bytes are copied as if all were read first.
fn overlapping(out: &mut String, memory: (&str, &str, bool)) {
    let copy = |at: u64, source: u64, length: u64| {
        let operands = [at, source, length].map(|value| number(memory.2, value)).join(" ");
        format!(r#"(invoke "copy {0} {0}" {operands})"#, memory.0)
    };
    for (at, source) in [(301, 300), (299, 300), (307, 300), (300, 300)] {
        fill(out, memory, 290, b'-', 40);
        init(out, memory, 300);
        line!(out, "{}", copy(at, source, 10));
        let copied: Vec<_> = (at..at + 10).zip(b'0'..=b'9').collect();
        expect(out, memory, &copied);
        expect(out, memory, &[(at.min(source) - 1, b'-'), (at.max(source) + 10, b'-')]);
    }
}

fn filling(out: &mut String, memory: (&str, &str, bool)) {
    let (name, _, wide) = memory;
    let at = |value: u64| number(wide, value);
    let last = BYTES - 1;
    // The byte is the operand's lowest.
    line!(out, r#"(invoke "fill {name}" {} (i32.const 0x12345678) {})"#, at(400), at(1));
    expect(out, memory, &[(400, 0x78)]);
    fill(out, memory, BYTES - 20, b'-', 20);
    for (start, length) in [(last, 2), (BYTES + 1, 0), (0, BYTES + 1), (0xffff_ffff, 1), (0, 0xffff_ffff)] {
        let (start, length) = (at(start), at(length));
        line!(out, r#"(assert_trap (invoke "fill {name}" {start} (i32.const 1) {length}) {OUTSIDE})"#);
    }
    if wide {
        for (start, length) in [(1 << 32, 1), (u64::MAX, 2), (0, u64::MAX), (1 << 63, 1 << 63)] {
            let (start, length) = (at(start), at(length));
            line!(out, r#"(assert_trap (invoke "fill {name}" {start} (i32.const 1) {length}) {OUTSIDE})"#);
        }
    }
    for (start, source, length) in [(BYTES - 9, 0, 10), (BYTES - 10, 1, 10), (0, 11, 0), (BYTES + 1, 0, 0), (0, -1, 1)]
    {
        let start = at(start);
        let call = format!(r#"(invoke "init {name}" {start} (i32.const {source}) (i32.const {length}))"#);
        line!(out, "(assert_trap {call} {OUTSIDE})");
    }
    line!(out, r#"(assert_return (invoke "init {name}" {} (i32.const 10) (i32.const 0)))"#, at(BYTES));
    line!(out, r#"(assert_return (invoke "fill {name}" {} (i32.const 1) {}))"#, at(BYTES), at(0));
    expect(out, memory, &[(BYTES - 10, b'-'), (last, b'-')]);
}

/// One memory under two indices is one memory.
fn aliases(out: &mut String) {
    for (wide, memory) in [(false, "1"), (true, "i64 1"), (false, "100 (pagesize 1)")] {
        let ty = ty(wide);
        line!(
            out,
            r#"(module $owner (memory (export "memory") {memory}))
            (register "owner" $owner)
            (module
              (import "owner" "memory" (memory $x {memory}))
              (import "owner" "memory" (memory $y {memory}))
              (data $digits "0123456789")
              (func (export "init") (memory.init $x $digits ({ty}.const 10) (i32.const 0) (i32.const 10)))
              (func (export "up") (memory.copy $x $y ({ty}.const 12) ({ty}.const 10) ({ty}.const 10)))
              (func (export "down") (memory.copy $y $x ({ty}.const 10) ({ty}.const 12) ({ty}.const 10)))
              (func (export "get") (param {ty}) (result i32) (i32.load8_u $y (local.get 0))))
            (invoke "init")
            (invoke "up")"#
        );
        let expect = |out: &mut String, first: u64| {
            for (at, byte) in (first..).zip(b'0'..=b'9') {
                line!(out, r#"(assert_return (invoke "get" ({ty}.const {at})) (i32.const {byte}))"#);
            }
        };
        expect(out, 12);
        line!(out, r#"(invoke "down")"#);
        expect(out, 10);
    }
}
