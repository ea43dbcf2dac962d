//! The checker finds every way to break a guard: each test corrupts a correctly guarded function in one place.

mod support;

use cranelift_codegen::cursor::{Cursor, FuncCursor};
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, Function, InstBuilder, InstructionData, MemFlagsData, Opcode, types};
use cranelift_codegen::isa::CallConv;
use spinwise_guard::{Mode, check_boundary, insert_boundary_poll};
use spinwise_model::index::FuncIndex;
use spinwise_model::symbol::SITE_BOUNDARY;
use support::{Program, find, only_guard};

const SPIN: &str = "
ENTRY
    jump block1
block1:
    v3 = ATOMIC v2
    brif v3, block2, block1
block2:
    return v1";

const TRY: &str = "
ENTRY
    v3 = atomic_rmw.i32 little user2 xchg v2, v1
    return v3";

const UNTIL_TAKEN: &str = "
ENTRY
    jump block1
block1:
    v3 = call fn1(v0, v1)
    brif v3, block1, block2
block2:
    return v1";

/// Guards a spin, corrupts it, and returns what the checker says.
fn corrupt(change: impl FnOnce(&mut Function, Block, Block)) -> Vec<String> {
    let program = Program::new(0, &[SPIN]);
    let mut guarded = program.guarded(&program.plan(Mode::Spin));
    assert!(guarded.violations(Mode::Spin).is_empty());
    let (cold, hot) = only_guard(&guarded.functions[0]);
    change(&mut guarded.functions[0], cold, hot);
    guarded.verify();
    guarded.violations(Mode::Spin)
}

#[track_caller]
fn caught(change: impl FnOnce(&mut Function, Block, Block), because: &str) {
    let violations = corrupt(change);
    assert!(violations.iter().any(|violation| violation.contains(because)), "{violations:?}");
}

fn is_weight(data: &InstructionData) -> bool {
    matches!(data, InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } if imm.bits() == 16)
}

fn set_weight(func: &mut Function, hot: Block, weight: i64) {
    let inst = find(func, hot, is_weight);
    func.replace(inst).iconst(types::I32, weight);
}

fn opcode(wanted: Opcode) -> impl Fn(&InstructionData) -> bool {
    move |data| data.opcode() == wanted
}

#[test]
fn a_guard_that_is_gone() {
    let program = Program::new(0, &[SPIN]);
    assert_eq!(program.violations(Mode::Spin), ["function 0: a cycle reads atomically and does not poll"]);
}

#[test]
fn an_entry_poll_that_is_gone() {
    let program = Program::new(0, &[UNTIL_TAKEN, TRY]);
    let mut plan = program.plan(Mode::Spin);
    assert!(program.guarded(&plan).violations(Mode::Spin).is_empty());
    plan.functions[1].entry_poll = None;
    let violations = program.guarded(&plan).violations(Mode::Spin);
    let expected = "function 0: a cycle that does not poll calls function 1, which reads atomically before it polls";
    assert_eq!(violations, [expected]);
}

#[test]
fn an_entry_poll_that_only_references_need() {
    let mut program = Program::new(0, &[TRY]);
    assert_eq!(program.accept(Mode::Spin).1, "0:\n");
    program.module.address_taken = vec![FuncIndex(0)];
    assert_eq!(program.accept(Mode::Spin).1, "0: reads-atomically\n");
    let expected = "function 0: it can be called by reference and reads atomically before it polls";
    assert_eq!(program.violations(Mode::Spin), [expected]);
}

#[test]
fn a_recursion_that_does_not_poll() {
    let recursive = "
ENTRY
    v3 = ATOMIC v2
    v4 = call fn0(v0, v3)
    return v4";
    let program = Program::new(0, &[recursive]);
    program.accept(Mode::Spin);
    assert_eq!(program.violations(Mode::Spin), ["function 0: a recursion reads atomically and does not poll"]);
}

#[test]
fn a_weight_of_nothing_or_out_of_range() {
    for weight in [0, -16, 15, 1025] {
        caught(|func, _, hot| set_weight(func, hot, weight), "the weight is out of range");
    }
    assert_eq!(corrupt(|func, _, hot| set_weight(func, hot, 1024)), [""; 0]);
}

#[test]
fn a_weight_that_is_added() {
    let add = |func: &mut Function, _, hot| {
        let inst = find(func, hot, opcode(Opcode::Isub));
        let args = [func.dfg.inst_args(inst)[0], func.dfg.inst_args(inst)[1]];
        func.replace(inst).iadd(args[0], args[1]);
    };
    caught(add, "the budget is not counted down");
}

#[test]
fn a_budget_that_is_not_written_back() {
    let keep = |func: &mut Function, _, hot| {
        let inst = find(func, hot, opcode(Opcode::Store));
        func.layout.remove_inst(inst);
    };
    let violations = corrupt(keep);
    assert!(violations.iter().any(|v| v.contains("a cycle reads atomically")), "{violations:?}");
    assert!(violations.iter().any(|v| v.contains("a poll that no charge holds")), "{violations:?}");
}

#[test]
fn a_budget_that_is_written_back_elsewhere_or_twice() {
    let elsewhere = |func: &mut Function, _, hot| {
        let inst = find(func, hot, opcode(Opcode::Store));
        let InstructionData::Store { offset, .. } = &mut func.dfg.insts[inst] else { panic!("a store") };
        *offset = 8.into();
    };
    caught(elsewhere, "a cycle reads atomically");
    let refill = |func: &mut Function, _, hot| {
        let store = find(func, hot, opcode(Opcode::Store));
        let thread = func.dfg.inst_args(store)[1];
        let mut at = FuncCursor::new(func).after_inst(store);
        let full = at.ins().iconst(types::I32, 1 << 18);
        at.ins().store(MemFlagsData::trusted(), full, thread, 0);
    };
    caught(refill, "a budget update");
}

#[test]
fn a_poll_that_is_never_reached() {
    let never = |func: &mut Function, _, hot| {
        let inst = find(func, hot, opcode(Opcode::Icmp));
        let InstructionData::IntCompare { cond, .. } = &mut func.dfg.insts[inst] else { panic!("a comparison") };
        *cond = IntCC::SignedGreaterThan;
    };
    caught(never, "the test does not see that the budget is gone");
    let constant = |func: &mut Function, _, hot| {
        let inst = find(func, hot, opcode(Opcode::Icmp));
        func.replace(inst).iconst(types::I8, 0);
    };
    caught(constant, "nothing compares the budget");
    let aside = |func: &mut Function, cold, _| {
        // The cold block gives way to a copy that does not call.
        let next = func.block_successors(cold).next().unwrap();
        let (branch, other) = (func.layout.blocks().collect::<Vec<_>>(), func.dfg.make_block());
        func.layout.append_block(other);
        FuncCursor::new(func).at_bottom(other).ins().jump(next, &[]);
        for block in branch.into_iter().filter(|block| *block != cold) {
            let last = func.layout.last_inst(block).unwrap();
            func.rewrite_branch_destination(last, cold, other);
        }
    };
    caught(aside, "an empty budget does not lead to a poll");
    let swapped = |func: &mut Function, _, hot| {
        let last = func.layout.last_inst(hot).unwrap();
        let InstructionData::Brif { blocks, .. } = &mut func.dfg.insts[last] else { panic!("a branch") };
        blocks.swap(0, 1);
    };
    caught(swapped, "an empty budget does not lead to a poll");
}

#[test]
fn a_poll_that_is_not_called() {
    let silent = |func: &mut Function, cold, _| {
        let inst = find(func, cold, opcode(Opcode::Call));
        func.layout.remove_inst(inst);
    };
    caught(silent, "an empty budget does not lead to a poll");
}

#[test]
fn an_interruption_that_is_not_seen() {
    let deaf = |func: &mut Function, cold, _| {
        let inst = find(func, cold, opcode(Opcode::Trapnz));
        func.layout.remove_inst(inst);
    };
    let because = "nothing tests after the poll whether the thread was interrupted";
    caught(deaf, because);
    let wrong_word = |func: &mut Function, cold, _| {
        let inst = find(func, cold, opcode(Opcode::Load));
        let InstructionData::Load { offset, .. } = &mut func.dfg.insts[inst] else { panic!("a load") };
        *offset = 0.into();
    };
    caught(wrong_word, because);
    let too_early = |func: &mut Function, cold, _| {
        let load = find(func, cold, opcode(Opcode::Load));
        let call = find(func, cold, opcode(Opcode::Call));
        func.layout.remove_inst(load);
        func.layout.insert_inst(load, call);
    };
    caught(too_early, because);
}

#[test]
fn a_guard_of_another_thread() {
    let other = |func: &mut Function, _, hot| {
        let inst = find(func, hot, |data| data.load_store_offset() == Some(0) && data.opcode() == Opcode::Load);
        let InstructionData::Load { offset, .. } = &mut func.dfg.insts[inst] else { panic!("a load") };
        *offset = 16.into();
    };
    caught(other, "a cycle reads atomically");
}

#[test]
fn a_back_edge_that_passes_the_latch_by() {
    let shortcut = |func: &mut Function, _, hot| {
        let last = func.layout.last_inst(Block::from_u32(1)).unwrap();
        func.rewrite_branch_destination(last, hot, Block::from_u32(1));
    };
    caught(shortcut, "a cycle reads atomically");
}

#[test]
fn two_guards_with_one_number() {
    let body = format!(
        "{}\n",
        SPIN.replace(
            "return v1",
            "jump block3\nblock3:\n    v4 = ATOMIC v2\n    brif v4, block4, block3\nblock4:\n    return v1"
        )
    );
    let program = Program::new(0, &[&body]);
    let mut plan = program.plan(Mode::Spin);
    assert!(program.guarded(&plan).violations(Mode::Spin).is_empty());
    plan.functions[0].loops[1].guard.as_mut().unwrap().site = 0;
    let violations = program.guarded(&plan).violations(Mode::Spin);
    assert!(violations[0].contains("two guards have one site number"), "{violations:?}");
}

#[test]
fn a_border_charges_at_its_entry() {
    let mut stub = Program::new(0, &["\nENTRY\n    v3 = iadd v1, v1\n    return v3"]).functions.remove(0);
    assert!(check_boundary(&stub).is_err());
    insert_boundary_poll(&mut stub, CallConv::PreserveAll);
    assert_eq!(check_boundary(&stub), Ok(()));
    assert_eq!(SITE_BOUNDARY, 0x7fff_ffff);
    assert!(stub.to_string().contains("iconst.i32 0x7fff_ffff"), "{stub}");
    let (cold, _) = only_guard(&stub);
    let trap = find(&stub, cold, opcode(Opcode::Trapnz));
    stub.layout.remove_inst(trap);
    assert!(check_boundary(&stub).is_err());
}
