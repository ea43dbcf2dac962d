//! Accesses at the end of a memory: by index, by offset and by both, before and after it has grown.

use std::fmt::Write as _;

use super::kinds::{Access, KINDS, Kind, accesses};

const OUTSIDE: &str = "\"out of bounds memory access\"";
const UNALIGNED: &str = "\"unaligned atomic\"";

/// The last `width` bytes are inside, anything beyond is not; what is partly outside traps and stores nothing.
pub(super) fn script() -> String {
    let mut out = String::new();
    let accesses = accesses();
    for kind in KINDS {
        module(&mut out, kind, &accesses);
        for access in &accesses {
            at_end(&mut out, kind, access);
        }
        after_growth(&mut out, kind, &accesses);
    }
    out
}

/// Where an access of that width ends with the memory, or as near to its end as it is aligned.
fn last(kind: &Kind, access: &Access) -> u64 {
    let last = kind.bytes - access.width;
    if access.atomic { last - last % access.width } else { last }
}

/// One function that takes the index, one with an offset that reaches the end, and two without parameters.
fn module(out: &mut String, kind: &Kind, accesses: &[Access]) {
    let Kind { name, index, memory, bytes, .. } = kind;
    line!(out, ";; {name}\n(module {memory}");
    line!(out, r#"(func (export "grow") (param {index}) (result {index}) (memory.grow $m (local.get 0)))"#);
    line!(out, r#"(func (export "byte") (param {index}) (result i32) (i32.load8_u $m (local.get 0)))"#);
    let sixteen = kind.at(16);
    line!(out, r#"(func (export "clear") (param {index}) (memory.fill $m (local.get 0) (i32.const 0) {sixteen}))"#);
    for access in accesses {
        let (name, result, last) = (&access.name, access.result(), last(kind, access));
        line!(out, r#"(func (export "{name}") (param {index}) {result} {})"#, access.text(0, "(local.get 0)"));
        line!(out, r#"(func (export "{name} +") (param {index}) {result} {})"#, access.text(last, "(local.get 0)"));
        line!(out, r#"(func (export "{name} last") {result} {})"#, access.text(last, &kind.at(0)));
        let beyond = bytes - access.width;
        line!(out, r#"(func (export "{name} beyond") {result} {})"#, access.text(1, &kind.at(beyond)));
    }
    line!(out, ")");
}

fn returns(out: &mut String, call: &str, access: &Access) {
    line!(out, "(assert_return (invoke {call}) {})", access.zero());
}

fn traps(out: &mut String, call: &str, message: &str) {
    line!(out, "(assert_trap (invoke {call}) {message})");
}

fn clear(out: &mut String, kind: &Kind, at: u64) {
    line!(out, r#"(invoke "clear" {})"#, kind.at(at));
}

fn at_end(out: &mut String, kind: &Kind, access: &Access) {
    let (name, width) = (&access.name, access.width);
    let last = last(kind, access);
    let call = |suffix: &str, index: u64| format!(r#""{name}{suffix}" {}"#, kind.at(index));
    for good in [call("", last), call(" +", 0), format!(r#""{name} last""#)] {
        clear(out, kind, kind.bytes - 16);
        returns(out, &good, access);
    }
    clear(out, kind, kind.bytes - 16);
    traps(out, &call("", last + width), OUTSIDE);
    traps(out, &call(" +", width), OUTSIDE);
    traps(out, &call("", kind.below_zero(width)), OUTSIDE);
    // A negative index is a large one, never a step back from the offset.
    traps(out, &call(" +", kind.below_zero(width)), OUTSIDE);
    if access.atomic {
        if width > 1 {
            traps(out, &call("", last + 1), UNALIGNED);
            traps(out, &call(" +", 1), UNALIGNED);
            traps(out, &call("", kind.below_zero(1)), UNALIGNED);
        }
    } else {
        traps(out, &format!(r#""{name} beyond""#), OUTSIDE);
        for by in [1, width / 2, width - 1].into_iter().filter(|by| *by > 0 && last + by < kind.bytes) {
            traps(out, &call("", last + by), OUTSIDE);
        }
        traps(out, &call("", kind.below_zero(1)), OUTSIDE);
    }
    if kind.index == "i64" {
        for high in [1 << 32, 1 << 63] {
            traps(out, &call("", high), OUTSIDE);
            traps(out, &call(" +", high), OUTSIDE);
        }
    }
    if access.result.is_none() {
        line!(out, r#"(assert_return (invoke "byte" {}) (i32.const 0))"#, kind.at(kind.bytes - 1));
    }
}

fn after_growth(out: &mut String, kind: &Kind, accesses: &[Access]) {
    let delta = 65536 / kind.page;
    let (old, new) = (kind.bytes, kind.bytes + 65536);
    line!(out, r#"(assert_return (invoke "grow" {}) {})"#, kind.at(delta), kind.at(old / kind.page));
    for access in accesses {
        let (name, width) = (&access.name, access.width);
        let call = |index: u64| format!(r#""{name}" {}"#, kind.at(index));
        let aligned = |at: u64| if access.atomic { at.next_multiple_of(width) } else { at };
        clear(out, kind, old - 16);
        clear(out, kind, old);
        returns(out, &call(aligned(old - 1)), access);
        let end = if access.atomic { (new - width) / width * width } else { new - width };
        clear(out, kind, new - 16);
        returns(out, &call(end), access);
        traps(out, &call(aligned(end + 1)), OUTSIDE);
    }
    line!(out, r#"(assert_return (invoke "grow" {}) ({}.const -1))"#, kind.at(0x7fff_ffff), kind.index);
}
