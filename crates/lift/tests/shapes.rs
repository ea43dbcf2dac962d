//! The shape of the CLIF: what stages behind this one rely on.

mod common;

use common::{clif, lift_text, verify};
use cranelift_codegen::ir::{Function, Opcode};
use spinwise_lift::Lifted;

fn lifted(text: &str) -> Lifted {
    let lifted = lift_text(text).expect("the test's own module is valid");
    verify(&lifted);
    lifted
}

/// (opcode, wasm offset) of each instruction, in layout order.
fn instructions(function: &Function) -> Vec<(Opcode, u32)> {
    let blocks = function.layout.blocks();
    blocks
        .flat_map(|block| function.layout.block_insts(block))
        .map(|inst| (function.dfg.insts[inst].opcode(), function.srcloc(inst).bits()))
        .collect()
}

fn count(lifted: &Lifted, position: usize, opcode: Opcode) -> usize {
    instructions(&lifted.functions[position]).iter().filter(|(found, _)| *found == opcode).count()
}

#[test]
fn a_loop_header_starts_with_a_nop_at_the_loops_offset() {
    let text = "(module (memory 1 1 shared) (func (param i32) (loop (br_if 0 (i32.atomic.load (local.get 0))))))";
    let bytes = wat::parse_str(text).unwrap();
    let lifted = lifted(text);
    let function = &lifted.functions[0];
    let header = function.layout.blocks().nth(1).unwrap();
    let first = function.layout.first_inst(header).unwrap();
    assert_eq!(function.dfg.insts[first].opcode(), Opcode::Nop);
    let offset = function.srcloc(first).bits() as usize;
    assert_eq!(bytes[offset], 0x03, "the loop opcode");
    // Every instruction points at an operator of the body; the spin is as small as it can be.
    let body = &lifted.module.functions[0].body;
    assert!(instructions(function).iter().all(|(_, offset)| body.contains(offset)));
    let values: usize = function.layout.block_insts(header).map(|inst| function.dfg.inst_results(inst).len()).sum();
    assert!(values <= 6, "{}", function.display());
}

#[test]
fn constructs_that_nothing_branches_to_cost_no_block() {
    let lifted = lifted("(module (func (result i32) (block (result i32) (block (nop)) (i32.const 1))))");
    assert_eq!(lifted.functions[0].layout.blocks().count(), 1, "{}", clif(&lifted, 0));
    assert_eq!(count(&lifted, 0, Opcode::Jump), 0);
}

#[test]
fn dead_code_is_not_lifted() {
    let lifted = lifted(
        "(module (func (param i32) (result i32)
           (block (result i32) (br 0 (i32.const 1)) (loop (i32.popcnt (i32.const 2)) drop (br 0)) (if (result i32)
             (i32.const 3) (then (i32.const 4)) (else (i32.const 5))) (unreachable))
           (return (i32.add (i32.const 6)))
           (drop) (i32.clz)))",
    );
    assert_eq!(count(&lifted, 0, Opcode::Popcnt) + count(&lifted, 0, Opcode::Clz), 0);
    assert_eq!(count(&lifted, 0, Opcode::Nop), 0);
    assert_eq!(count(&lifted, 0, Opcode::Return), 1);
}

#[test]
fn comparisons_reach_branches_unwidened() {
    let lifted = lifted(
        "(module (func (param i32 i32) (result i32)
           (if (i32.eqz (i32.lt_s (local.get 0) (local.get 1))) (then (return (i32.const 1))))
           (select (i32.const 2) (i32.const 3) (i32.eq (local.get 0) (local.get 1))))
         (func (param i32) (result i32) (i32.eqz (local.get 0))))",
    );
    assert_eq!(count(&lifted, 0, Opcode::Uextend), 0);
    assert_eq!(count(&lifted, 1, Opcode::Uextend), 1);
}

#[test]
fn offsets_are_folded_unless_they_do_not_fit() {
    let lifted = lifted(
        "(module (memory 1)
         (func (param i32) (result i32) (i32.load offset=0x7fffffff (local.get 0)))
         (func (param i32) (result i32) (i32.load offset=0x80000000 (local.get 0)))
         (func (param i32) (result i32) (i32.load offset=0xffffffff (local.get 0))))",
    );
    assert!(clif(&lifted, 0).contains("+0x7fff_ffff"), "{}", clif(&lifted, 0));
    for (position, offset) in [(1, "iconst.i64 0x8000_0000"), (2, "iconst.i64 0xffff_ffff")] {
        assert!(clif(&lifted, position).contains(offset), "{}", clif(&lifted, position));
        assert_eq!(count(&lifted, position, Opcode::Iadd), 2);
    }
}

#[test]
fn guest_accesses_trap_and_context_accesses_do_not() {
    let lifted = lifted(
        "(module (memory 1) (global (mut i32) (i32.const 0))
         (func (param i32) (global.set 0 (i32.load (local.get 0))) (i64.store8 (local.get 0) (i64.const 1))))",
    );
    let text = clif(&lifted, 0);
    let lines = |needle: &str| text.lines().filter(|line| line.contains(needle)).count();
    assert_eq!(lines("load.i32 user2 little"), 1, "{text}");
    assert_eq!(lines("istore8 user2 little"), 1, "{text}");
    assert_eq!(lines("load.i64 notrap aligned readonly can_move v0"), 2, "{text}");
    assert_eq!(lines("store notrap aligned"), 1, "{text}");
}

#[test]
fn atomics_check_their_alignment_and_have_their_width() {
    let lifted = lifted(
        "(module (memory 1 1 shared)
         (func (param i32) (result i32) (i32.atomic.load8_u (local.get 0)))
         (func (param i32) (result i64) (i64.atomic.rmw16.add_u offset=2 (local.get 0) (i64.const -1)))
         (func (param i32) (result i32) (i32.atomic.rmw.cmpxchg (local.get 0) (i32.const 1) (i32.const 2)))
         (func (param i32) (result i32) (memory.atomic.wait64 offset=8 (local.get 0) (i64.const 1) (i64.const -1)))
         (func (param i32) (result i32) (memory.atomic.notify (local.get 0) (i32.const 1))))",
    );
    assert!(!clif(&lifted, 0).contains("user11") && clif(&lifted, 0).contains("atomic_load.i8"));
    assert!(clif(&lifted, 1).contains("user11") && clif(&lifted, 1).contains("atomic_rmw.i16"), "{}", clif(&lifted, 1));
    assert!(clif(&lifted, 1).contains("ireduce.i16") && clif(&lifted, 1).contains("uextend.i64"));
    assert!(clif(&lifted, 2).contains("user11") && clif(&lifted, 2).contains("atomic_cas"));
    // Alignment, then the status, then a cancel that came meanwhile.
    let wait = clif(&lifted, 3);
    let at = |needle: &str| wait.find(needle).unwrap_or_else(|| panic!("no {needle} in {wait}"));
    assert!(at("user11") < at("call") && at("user15") < at("user14"), "{wait}");
    assert!(clif(&lifted, 4).contains("user11") && clif(&lifted, 4).contains("user15"));
}

#[test]
fn rows_of_a_table_share_the_way_to_a_label() {
    let lifted = lifted(
        "(module (func (param i32) (result i32)
           (block $b (result i32) (block $a (result i32)
             (br_table $a $b $a $b $a (i32.const 7) (local.get 0)))
             (i32.add (i32.const 1)))))",
    );
    // Two labels, each named twice or more: one jump each carries the operand.
    assert_eq!(count(&lifted, 0, Opcode::Jump), 3, "{}", clif(&lifted, 0));
    // Each named once: no detour. The jump is the end of the inner block.
    let once = self::lifted("(module (func (param i32) (block (block (br_table 0 1 (local.get 0))) (nop))))");
    assert_eq!(count(&once, 0, Opcode::Jump), 1, "{}", clif(&once, 0));
}

#[test]
fn indirect_calls_check_bounds_null_and_type_in_that_order() {
    let lifted = lifted(
        "(module (type $t (func)) (table 77 77 funcref) (table 77 funcref)
         (func (param i32) (call_indirect 0 (type $t) (local.get 0)))
         (func (param i32) (call_indirect 1 (type $t) (local.get 0))))",
    );
    for position in 0..2 {
        let text = clif(&lifted, position);
        let at = |needle: &str| text.find(needle).unwrap_or_else(|| panic!("no {needle} in {text}"));
        assert!(at("user4") < at("user5") && at("user5") < at("user6") && at("user6") < at("call_indirect"), "{text}");
    }
    // A table that cannot grow has a constant length.
    assert!(clif(&lifted, 0).contains("iconst.i64 77"));
    assert!(!clif(&lifted, 1).contains("iconst.i64 77"));
}

#[test]
fn vectors_cross_boundaries_as_bytes() {
    let lifted = lifted(
        "(module (global $g (mut v128) (v128.const i64x2 1 2))
         (func $f (param v128 i32) (result v128) (local v128)
           (local.set 2 (i32x4.add (local.get 0) (local.get 0)))
           (global.set $g (f64x2.neg (local.get 2)))
           (block (result v128)
             (br_if 0 (i64x2.add (local.get 2) (global.get $g)) (local.get 1))
             (call $f (i16x8.neg) (local.get 1)))
           (select (f32x4.abs (local.get 0)) (i8x16.neg (local.get 0)) (local.get 1))
           (v128.xor)))",
    );
    assert!(clif(&lifted, 0).contains("bitcast.i8x16 little"), "{}", clif(&lifted, 0));
}

#[test]
fn constructs_take_and_leave_several_values() {
    lifted(
        "(module
         (func $two (result i32 i64) (i32.const 1) (i64.const 2))
         (func (param i32) (result i32 i64)
           (call $two)
           (if (param i32 i64) (result i32 i64) (local.get 0) (then (i64.const 1) i64.add))
           (block (param i32 i64) (result i32 i64)
             (br_if 0 (local.get 0))
             (loop (param i32 i64) (result i32 i64)
               (br_if 0 (local.get 0))
               (br_if 1 (local.get 0))
               (br_if 2 (local.get 0))))
           (if (param i32 i64) (result i32 i64) (local.get 0)
             (then (br 0)) (else drop (br_if 0 (i64.const 5) (local.get 0)) (br 1)))))",
    );
}

#[test]
fn an_if_without_else_after_a_branch_to_its_end() {
    lifted(
        "(module (func (param i32) (result i32)
           (if (local.get 0) (then (br_if 0 (local.get 0)) (unreachable)))
           (if (local.get 0) (then (unreachable)))
           (if (local.get 0) (then (br 0)))
           (local.get 0) (if (param i32) (result i32) (local.get 0) (then (unreachable)))
           (if (param i32) (result i32) (local.get 0) (then (br 0)))))",
    );
}

#[test]
fn an_import_stub_checks_the_stack_says_who_calls_and_is_gone() {
    let lifted = lifted(r#"(module (import "m" "f" (func (param i32) (result i64 f32))))"#);
    let stub = lifted.glue[0].display().to_string();
    let at = |needle: &str| stub.find(needle).unwrap_or_else(|| panic!("no {needle} in {stub}"));
    let caller = "store notrap aligned v0";
    assert!(at("get_stack_pointer") < at("user10") && at("user10") < at(caller), "{stub}");
    assert!(at(caller) < at("return_call_indirect"), "{stub}");
}

#[test]
fn tail_calls_end_their_block_with_the_same_checks() {
    let lifted = lifted(
        r#"(module (import "m" "f" (func $import (param i32) (result i32)))
         (type $t (func (param i32) (result i32))) (table 7 funcref)
         (func (param i32) (result i32) (return_call $import (local.get 0)) (drop) (i32.popcnt))
         (func (param i32) (result i32) (block (br_if 0 (local.get 0)) (return_call 1 (i32.eqz (local.get 0)))) (i32.const 4))
         (func (param i32) (result i32) (return_call_indirect (type $t) (i32.const 1) (local.get 0))))"#,
    );
    assert_eq!(count(&lifted, 0, Opcode::ReturnCall), 1, "{}", clif(&lifted, 0));
    assert_eq!(count(&lifted, 0, Opcode::Return) + count(&lifted, 0, Opcode::Popcnt), 0);
    assert_eq!((count(&lifted, 1, Opcode::ReturnCall), count(&lifted, 1, Opcode::Return)), (1, 1));
    let text = clif(&lifted, 2);
    let at = |needle: &str| text.find(needle).unwrap_or_else(|| panic!("no {needle} in {text}"));
    assert!(
        at("user4") < at("user5") && at("user5") < at("user6") && at("user6") < at("return_call_indirect"),
        "{text}"
    );
    assert_eq!(lifted.module.indirect_calls.len(), 1, "the guard is told which table");
}
