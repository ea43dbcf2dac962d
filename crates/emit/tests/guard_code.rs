//! The guard survives optimisation: the final machine code of a guarded bare spin is looked at, instruction by
//! instruction.
//!
//! The spin is ggml's barrier, `loop (br_if 0 (i32.eq (i32.atomic.load passed) (local.get old)))`, lifted and guarded
//! by hand as `docs/ARCHITECTURE.md` describes: the budget update on the back edge, the poll in a cold block.

mod common;

use cranelift_codegen::ir::Function;
use spinwise_emit::{Input, OptLevel, Target, compile, disassemble, isa};

/// The spin without a guard.
const BARE: &str = "function u0:0(i64, i32, i32) tail {
    block0(v0: i64, v1: i32, v2: i32):
        @0010 jump block1
    block1:
        @0012 nop
        @0014 v3 = load.i64 notrap aligned readonly can_move v0+24
        @0014 v4 = uextend.i64 v1
        @0014 v5 = iadd v3, v4
        @0014 v6 = atomic_load.i32 little user2 v5
        @0016 v7 = icmp eq v6, v2
        @0018 brif v7, block1, block3
    block3:
        @001a return
    }";

/// The same, guarded: weight 16, a poll through the `PreserveAll` thunk, then the test of `interrupted`.
const GUARDED: &str = "function u0:0(i64, i32, i32) tail {
        fn0 = colocated u2:0(i64, i32) preserve_all
    block0(v0: i64, v1: i32, v2: i32):
        @0010 jump block1
    block1:
        @0012 nop
        @0014 v3 = load.i64 notrap aligned readonly can_move v0+24
        @0014 v4 = uextend.i64 v1
        @0014 v5 = iadd v3, v4
        @0014 v6 = atomic_load.i32 little user2 v5
        @0016 v7 = icmp eq v6, v2
        @0018 brif v7, block2, block3
    block2:
        @0012 v8 = load.i64 notrap aligned readonly can_move v0
        @0012 v9 = load.i32 notrap aligned v8
        @0012 v10 = iconst.i32 16
        @0012 v11 = isub v9, v10
        @0012 store notrap aligned v11, v8
        @0012 v12 = iconst.i32 0
        @0012 v13 = icmp sle v11, v12
        @0012 brif v13, block4, block1
    block4 cold:
        @0012 v14 = iconst.i32 0x8000_0000
        @0012 call fn0(v8, v14)
        @0012 v15 = load.i32 notrap aligned v8+4
        @0012 trapnz v15, user14
        @0012 jump block1
    block3:
        @001a return
    }";

fn parse(text: &str) -> Function {
    common::parse(text).remove(0)
}

fn target(triple: &str, opt: OptLevel) -> Target {
    Target { triple: Some(triple.to_owned()), opt, verifier: true, ..Target::default() }
}

/// One line of disassembly.
#[derive(Clone, Copy, Debug)]
struct Line<'a> {
    offset: u64,
    mnemonic: &'a str,
    operands: &'a str,
    /// References and traps.
    remark: &'a str,
}

fn lines(assembly: &str) -> Vec<Line<'_>> {
    let instructions = assembly.lines().skip(1);
    instructions
        .map(|text| {
            let (offset, code) = text.trim_start().split_once("  ").expect("an offset first");
            let offset = u64::from_str_radix(offset, 16).expect("hexadecimal");
            let (code, remark) = code.split_once("  ; ").unwrap_or((code, ""));
            let (mnemonic, operands) = code.split_once(' ').unwrap_or((code, ""));
            Line { offset, mnemonic, operands, remark }
        })
        .collect()
}

/// Where a jump goes.
fn destination(line: &Line<'_>) -> Option<u64> {
    let last = line.operands.rsplit([' ', ',']).next()?.trim_start_matches('#');
    u64::from_str_radix(last.strip_prefix("0x")?, 16).ok()
}

/// Properties of a target's assembly that the test needs.
struct Dialect {
    triple: &'static str,
    /// Whether a mnemonic is a conditional or unconditional jump.
    jumps: fn(&str) -> bool,
    conditional: fn(&str) -> bool,
    call: &'static str,
    budget_load: fn(&Line<'_>) -> bool,
    budget_store: fn(&Line<'_>) -> bool,
    subtract: fn(&Line<'_>) -> bool,
    memory_base_load: fn(&Line<'_>) -> bool,
    thread_load: fn(&Line<'_>) -> bool,
    /// Writes callee-saved registers to the stack, other than the frame's own.
    saves: fn(&Line<'_>) -> bool,
}

/// In AT&T order: source, destination.
const X86_64: Dialect = Dialect {
    triple: "x86_64-unknown-linux-gnu",
    jumps: |mnemonic| mnemonic.starts_with('j'),
    conditional: |mnemonic| mnemonic.starts_with('j') && mnemonic != "jmp",
    call: "callq",
    budget_load: |line| line.mnemonic == "movl" && line.operands.starts_with("(%") && line.remark.is_empty(),
    budget_store: |line| line.mnemonic == "movl" && line.operands.ends_with(')'),
    subtract: |line| line.mnemonic == "subl" && line.operands.starts_with("$0x10, "),
    memory_base_load: |line| line.mnemonic == "movq" && line.operands.starts_with("0x18(%"),
    thread_load: |line| line.mnemonic == "movq" && line.operands.starts_with("(%"),
    saves: |line| line.operands.ends_with("(%rsp)") || line.mnemonic == "pushq" && line.operands != "%rbp",
};

const AARCH64: Dialect = Dialect {
    triple: "aarch64-unknown-linux-gnu",
    jumps: |mnemonic| {
        mnemonic == "b" || mnemonic.starts_with("b.") || mnemonic.starts_with("cb") || mnemonic.starts_with("tb")
    },
    conditional: |mnemonic| mnemonic.starts_with("b.") || mnemonic.starts_with("cb") || mnemonic.starts_with("tb"),
    call: "bl",
    budget_load: |line| line.mnemonic == "ldr" && line.operands.starts_with('w'),
    budget_store: |line| line.mnemonic == "str" && line.operands.starts_with('w'),
    subtract: |line| line.mnemonic.starts_with("sub") && line.operands.ends_with("#0x10"),
    memory_base_load: |line| line.mnemonic == "ldr" && line.operands.ends_with("#0x18]"),
    thread_load: |line| line.mnemonic == "ldr" && line.operands.starts_with('x') && line.operands.ends_with("[x2]"),
    saves: |line| line.mnemonic == "stp" && !line.operands.starts_with("x29, x30"),
};

#[test]
fn the_guard_is_in_the_loop_and_its_call_is_not() {
    for dialect in [X86_64, AARCH64] {
        let triple = dialect.triple;
        let isa = isa(&target(triple, OptLevel::Speed), false).expect(triple);
        let assembly = disassemble(&*isa, &parse(GUARDED)).expect(triple);
        let lines = lines(&assembly);

        // The hot loop: from the block that something later jumps back to, to the last jump back to it that comes
        // before the call, in a layout that puts cold blocks last.
        let call = lines.iter().position(|line| line.mnemonic == dialect.call).expect(&assembly);
        let back = lines[..call]
            .iter()
            .rposition(|line| (dialect.jumps)(line.mnemonic) && destination(line).is_some_and(|to| to <= line.offset))
            .expect(&assembly);
        let header = destination(&lines[back]).expect("it is a jump");
        let hot: Vec<_> = lines[..=back].iter().filter(|line| line.offset >= header).copied().collect();

        let at = |what: &str, found: fn(&Line<'_>) -> bool| {
            hot.iter().rposition(found).unwrap_or_else(|| panic!("{triple}: no {what} in the loop:\n{assembly}"))
        };
        let store = at("store of the budget", dialect.budget_store);
        let subtract = at("subtraction", dialect.subtract);
        let load = hot[..subtract].iter().rposition(dialect.budget_load).expect(&assembly);
        assert!(load < subtract && subtract < store, "{triple}:\n{assembly}");
        let tests = hot.iter().filter(|line| (dialect.conditional)(line.mnemonic)).count();
        assert!(tests >= 2, "{triple}: exit and budget are tested:\n{assembly}");
        assert!(
            hot.iter().any(|line| line.remark.contains("trap: out of bounds memory access (wasm offset 0x14)")),
            "{triple}: the atomic load:\n{assembly}"
        );

        assert!(hot.iter().all(|line| line.mnemonic != dialect.call), "{triple}: the call is cold:\n{assembly}");
        assert!(lines[call].remark.contains("u2:0"), "{triple}:\n{assembly}");
        assert!(lines[call..].iter().any(|line| line.remark.contains("trap: interrupted")), "{triple}:\n{assembly}");
        for (what, found) in [("memory base", dialect.memory_base_load), ("thread", dialect.thread_load)] {
            assert!(!hot.iter().any(found), "{triple}: the {what} stays in a register:\n{assembly}");
            assert!(lines.iter().any(found), "{triple}: the {what} is loaded before:\n{assembly}");
        }
        assert!(!lines.iter().any(|line| (dialect.saves)(line)), "{triple}: no register is saved:\n{assembly}");
    }
}

/// Bytes of code.
fn code_size(triple: &str, text: &str) -> usize {
    let isa = isa(&target(triple, OptLevel::Speed), false).expect(triple);
    let input = Input { func: parse(text), symbol: "spin".to_owned() };
    compile(&*isa, vec![input], &|_| {}).expect(triple)[0].code.len()
}

#[test]
fn a_guard_costs_few_bytes() {
    for (triple, limit) in [(X86_64.triple, 64), (AARCH64.triple, 64)] {
        let (bare, guarded) = (code_size(triple, BARE), code_size(triple, GUARDED));
        println!("{triple}: {bare} bytes unguarded, {guarded} guarded");
        assert!(guarded > bare && guarded - bare <= limit, "{triple}: {bare} unguarded, {guarded} guarded");
    }
}

#[test]
fn no_optimisation_level_loses_the_guard() {
    for triple in isa::SUPPORTED {
        for opt in [OptLevel::None, OptLevel::Speed, OptLevel::Size] {
            let isa = isa(&target(triple, opt), true).expect(triple);
            // Where there is no thunk that preserves all registers, the poll is an ordinary call.
            let text = match *triple {
                riscv if riscv.starts_with("riscv64") => GUARDED.replace("preserve_all", "system_v"),
                _ => GUARDED.to_owned(),
            };
            let assembly = disassemble(&*isa, &parse(&text)).expect(triple);
            for part in ["u2:0", "trap: interrupted", "trap: out of bounds memory access"] {
                assert!(assembly.contains(part), "{triple} {opt:?}: no {part} in\n{assembly}");
            }
        }
    }
}
