//! Which loops simply wait, and for what; and which only look like it.

mod support;

use spinwise_guard::{Mode, Relation, Watch};
use support::Program;

/// The watch of the loop at `block1` of a function whose loop is `body`, with `block2` outside.
fn watch(before: &str, body: &str) -> Option<Watch> {
    let text =
        format!("ENTRY\n    v90 = iconst.i32 7\n{before}\n    jump block1\nblock1:\n{body}\nblock2:\n    return v1\n");
    let (plan, _) = Program::new(0, &[&text]).accept(Mode::Spin);
    let natural = plan.functions[0].loops.iter().find(|natural| natural.header == 1).expect("a loop");
    assert!(natural.guard.is_some());
    natural.watch
}

#[track_caller]
fn waits(body: &str, exit_when: Relation) {
    assert_eq!(watch("", body), Some(Watch { memory: 0, width: 32, exit_when, offset: 0 }), "{body}");
}

#[track_caller]
fn does_not_simply_wait(before: &str, body: &str) {
    assert_eq!(watch(before, body), None, "{body}");
}

#[test]
fn a_barrier_waits_for_a_word_to_change() {
    waits("v3 = ATOMIC v2\n v4 = icmp eq v3, v1\n brif v4, block1, block2", Relation::Ne);
    waits("v3 = ATOMIC v2\n v4 = icmp ne v3, v1\n brif v4, block2, block1", Relation::Ne);
    waits("v3 = ATOMIC v2\n v4 = icmp ne v1, v3\n brif v4, block1, block2", Relation::Eq);
}

#[test]
fn a_word_may_be_tested_as_it_is() {
    waits("v3 = ATOMIC v2\n brif v3, block2, block1", Relation::Ne);
    waits("v3 = ATOMIC v2\n brif v3, block1, block2", Relation::Eq);
}

#[test]
fn a_condition_may_be_widened_and_compared_with_zero() {
    let zero = "v3 = ATOMIC v2\n v5 = iconst.i32 0\n v4 = icmp eq v3, v5\n v6 = uextend.i32 v4";
    waits(&format!("{zero}\n brif v6, block1, block2"), Relation::Ne);
    waits(&format!("{zero}\n v7 = icmp eq v6, v5\n brif v7, block1, block2"), Relation::Eq);
    waits(&format!("{zero}\n v7 = icmp ne v6, v5\n v8 = uextend.i32 v7\n brif v8, block2, block1"), Relation::Eq);
}

#[test]
fn every_relation_and_its_mirror() {
    use Relation as R;
    let relations = [
        ("slt", R::LtS, R::GtS),
        ("sle", R::LeS, R::GeS),
        ("sgt", R::GtS, R::LtS),
        ("sge", R::GeS, R::LeS),
        ("ult", R::LtU, R::GtU),
        ("ule", R::LeU, R::GeU),
        ("ugt", R::GtU, R::LtU),
        ("uge", R::GeU, R::LeU),
    ];
    for (name, relation, mirrored) in relations {
        waits(&format!("v3 = ATOMIC v2\n v4 = icmp {name} v3, v1\n brif v4, block2, block1"), relation);
        waits(&format!("v3 = ATOMIC v2\n v4 = icmp {name} v1, v3\n brif v4, block2, block1"), mirrored);
    }
    waits("v3 = ATOMIC v2\n v4 = icmp slt v3, v1\n brif v4, block1, block2", R::GeS);
}

#[test]
fn address_and_operand_may_be_made_in_the_loop() {
    let body = "
    v10 = uextend.i64 v1
    v11 = iconst.i64 16
    v12 = iadd v10, v11
    v13 = load.i64 notrap aligned readonly can_move v0+24
    v14 = iconst.i64 3
    v15 = band v12, v14
    trapnz v15, user11
    v16 = iadd v13, v12
    v3 = ATOMIC v16
    v17 = isub v1, v90
    v4 = icmp eq v3, v17
    brif v4, block1, block2";
    let expected = Watch { memory: 0, width: 32, exit_when: Relation::Ne, offset: 16 };
    assert_eq!(watch("", body), Some(expected));
}

/// An access to a checked memory: `CHECK` compares `v10`, the index, with the length.
const CHECKED: &str = "
    v10 = uextend.i64 v1
    v11 = iconst.i64 16
    CHECK
    v16 = iadd v10, v11
    v17 = load.i64 notrap aligned readonly can_move v0+24
    v18 = iadd v17, v16
    v3 = ATOMIC v18
    brif v3, block2, block1";

const LENGTH: &str = "v12 = load.i64 notrap aligned readonly can_move v0+32\n v13 = load.i64 notrap aligned v12";

#[test]
fn what_was_inside_a_memory_once_stays_inside() {
    let expected = Some(Watch { memory: 0, width: 32, exit_when: Relation::Ne, offset: 16 });
    let near = format!("{LENGTH}\n v14 = icmp ugt v10, v13\n trapnz v14, user2");
    assert_eq!(watch("", &CHECKED.replace("CHECK", &near)), expected);
    let far =
        format!("{LENGTH}\n v9 = uadd_overflow_trap v10, v11, user2\n v14 = icmp ugt v9, v13\n trapnz v14, user2");
    assert_eq!(watch("", &CHECKED.replace("CHECK", &far)), expected);
}

#[test]
fn not_every_trap_is_a_check_that_keeps_holding() {
    for (length, check) in [
        // Traps when the memory has grown.
        (LENGTH, "v14 = icmp ult v10, v13\n trapnz v14, user2"),
        (LENGTH, "v14 = icmp ugt v13, v10\n trapnz v14, user2"),
        (LENGTH, "v14 = icmp ugt v10, v13\n trapz v14, user2"),
        // Compares a number that anybody may change: no length, or not that of a memory.
        ("v12 = load.i64 notrap aligned readonly can_move v0+32\n v13 = load.i64 notrap aligned v12+8", NEAR),
        ("v12 = load.i64 notrap aligned readonly can_move v0+24\n v13 = load.i64 notrap aligned v12", NEAR),
        ("v12 = load.i64 notrap aligned readonly can_move v0+48\n v13 = load.i64 notrap aligned v12", NEAR),
        ("v12 = load.i64 notrap aligned readonly can_move v2+32\n v13 = load.i64 notrap aligned v12", NEAR),
        // Compares what another thread has written.
        (LENGTH, "v8 = ATOMIC v2\n v9 = uextend.i64 v8\n v14 = icmp ugt v9, v13\n trapnz v14, user2"),
    ] {
        does_not_simply_wait("", &CHECKED.replace("CHECK", &format!("{length}\n {check}")));
    }
    let sum = "v3 = ATOMIC v2\n v5 = uadd_overflow_trap v3, v1, user2\n v4 = icmp eq v3, v1\n brif v4, block1, block2";
    does_not_simply_wait("", sum);
}

const NEAR: &str = "v14 = icmp ugt v10, v13\n trapnz v14, user2";

#[test]
fn a_constant_index_is_not_an_offset() {
    let body = "
    v9 = iconst.i32 1024
    v10 = uextend.i64 v9
    v11 = iconst.i64 4
    v12 = iadd v10, v11
    v16 = iadd v2, v12
    v3 = ATOMIC v16
    brif v3, block2, block1";
    let expected = Watch { memory: 0, width: 32, exit_when: Relation::Ne, offset: 4 };
    assert_eq!(watch("", body), Some(expected));
}

#[test]
fn narrow_and_wide_words() {
    let narrow = "v3 = atomic_load.i8 little user2 v2\n v4 = uextend.i32 v3\n v5 = icmp RELATION v4, v1\n brif v5, block2, block1";
    let expected = Watch { memory: 0, width: 8, exit_when: Relation::Eq, offset: 0 };
    assert_eq!(watch("", &narrow.replace("RELATION", "eq")), Some(expected));
    // As a wide number it is never negative, as a narrow one it may be.
    assert_eq!(watch("", &narrow.replace("RELATION", "slt")), None);
    let wide = "v3 = atomic_load.i64 little user2 v2\n brif v3, block1, block2";
    assert_eq!(watch("", wide), Some(Watch { memory: 0, width: 64, exit_when: Relation::Eq, offset: 0 }));
}

#[test]
fn a_fence_does_no_harm() {
    waits("v3 = ATOMIC v2\n fence\n v4 = icmp eq v3, v1\n brif v4, block1, block2", Relation::Ne);
}

#[test]
fn a_wait_over_several_blocks() {
    let body =
        "v3 = ATOMIC v2\n jump block3\nblock3:\n v4 = icmp eq v3, v1\n brif v4, block4, block2\nblock4:\n jump block1";
    waits(body, Relation::Ne);
}

#[test]
fn other_exits_make_it_more_than_a_wait() {
    does_not_simply_wait("", "v3 = ATOMIC v2\n brif v3, block2, block3\nblock3:\n brif v1, block1, block2");
    does_not_simply_wait("", "v3 = ATOMIC v2\n br_table v3, block1, [block2, block1]");
    // A trap that depends on the word.
    does_not_simply_wait("", "v3 = ATOMIC v2\n trapz v3, user1\n v4 = icmp eq v3, v1\n brif v4, block1, block2");
    does_not_simply_wait("", "v3 = ATOMIC v2\n v5 = udiv v1, v3\n v4 = icmp eq v3, v1\n brif v4, block1, block2");
}

#[test]
fn effects_make_it_more_than_a_wait() {
    let end = "v4 = icmp eq v3, v1\n brif v4, block1, block2";
    for effect in [
        "v3 = atomic_rmw.i32 little user2 xchg v2, v1",
        "v3 = ATOMIC v2\n store little user2 v1, v2",
        "v3 = ATOMIC v2\n store notrap aligned v1, v0+64",
        "v3 = ATOMIC v2\n v5 = ATOMIC v2",
        "v3 = ATOMIC v2\n v5 = PLAIN v2",
    ] {
        does_not_simply_wait("", &format!("{effect}\n {end}"));
    }
}

#[test]
fn what_changes_from_turn_to_turn_is_no_operand() {
    // A plain load, another word, and the word itself.
    does_not_simply_wait(
        "",
        "v3 = ATOMIC v2\n v5 = load.i32 notrap aligned v0+64\n v4 = icmp eq v3, v5\n brif v4, block1, block2",
    );
    does_not_simply_wait("", "v3 = ATOMIC v2\n v5 = iadd v3, v1\n v4 = icmp eq v3, v5\n brif v4, block1, block2");
    does_not_simply_wait("", "v3 = ATOMIC v2\n v5 = band v3, v1\n brif v5, block1, block2");
}

#[test]
fn a_carried_value_makes_it_more_than_a_wait() {
    let counted = "
ENTRY
    jump block1(v1)
block1(v3: i32):
    v4 = ATOMIC v2
    v5 = isub v3, v4
    brif v4, block2, block1(v5)
block2:
    return v3";
    let plan = |text: &str| Program::new(0, &[text]).accept(Mode::Spin).0.functions[0].loops[0].watch;
    assert_eq!(plan(counted), None);
    // Carried, but always the same.
    let same = counted.replace("block1(v5)", "block1(v3)");
    assert!(plan(&same).is_some());
    let address = "
ENTRY
    jump block1(v2)
block1(v3: i64):
    v4 = ATOMIC v3
    v5 = iadd v3, v3
    brif v4, block2, block1(v5)
block2:
    return v1";
    assert_eq!(plan(address), None);
}

#[test]
fn a_site_with_a_watch_says_so() {
    let body =
        "ENTRY\n    jump block1\nblock1:\n    v3 = ATOMIC v2\n    brif v3, block2, block1\nblock2:\n    return v1\n";
    let program = Program::new(0, &[body]);
    let (plan, _) = program.accept(Mode::Spin);
    assert!(program.guarded(&plan).text().contains("iconst.i32 -2147483648"), "{}", program.guarded(&plan).text());
}
