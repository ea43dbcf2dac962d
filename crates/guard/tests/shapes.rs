//! Spin loops of every kind, written in CLIF: what is planned for them, that the checker accepts it, and that it misses
//! every single guard that is left out.

mod support;

use spinwise_guard::Mode;
use support::Program;

/// Plans in spin mode and compares with what is expected; each mutant must be caught.
#[track_caller]
fn expect(program: &Program, expected: &str) {
    let (plan, summary) = program.accept(Mode::Spin);
    let expected: String =
        expected.lines().map(str::trim).filter(|line| !line.is_empty()).map(|l| format!("{l}\n")).collect();
    assert_eq!(summary, expected);
    for (what, mutant) in Program::mutants(&plan) {
        let without = program.guarded(&mutant);
        assert!(!without.violations(Mode::Spin).is_empty(), "{what} is missing and the checker does not see it");
    }
    for triple in ["x86_64", "aarch64"] {
        program.guarded(&plan).compile(&support::isa(triple));
    }
    let (everything, _) = program.accept(Mode::All);
    program.guarded(&everything).compile(&support::isa("x86_64"));
}

/// A loop around a call, the callee being function 1 with its body.
fn calling(loop_body: &str, callee: &str) -> Program {
    Program::new(0, &[loop_body, callee])
}

const BARE: &str = "
ENTRY
    jump block1
block1:
    v3 = ATOMIC v2
    brif v3, block2, block1
block2:
    return v1";

const LEAF: &str = "
ENTRY
    return v1";

/// Calls itself, so it cannot be inlined; reads nothing.
const RECURSIVE: &str = "
ENTRY
    brif v1, block1, block2
block1:
    v3 = call fn1(v0, v1)
    return v3
block2:
    return v1";

const READER: &str = "
ENTRY
    v3 = ATOMIC v2
    return v3";

/// Waits for a word, with one call on every turn.
const CALL_EACH_TURN: &str = "
ENTRY
    jump block1
block1:
    v3 = call fn1(v0, v1)
    v4 = ATOMIC v2
    brif v4, block2, block1
block2:
    return v1";

#[test]
fn a_bare_spin_is_guarded() {
    expect(&Program::new(0, &[BARE]), "0: [block1 guarded 16384]");
}

#[test]
fn exchanges_and_compare_exchanges_spin_as_loads_do() {
    for read in ["v3 = atomic_rmw.i32 little user2 xchg v2, v1", "v3 = atomic_cas.i32 little user2 v2, v1, v1"] {
        expect(&Program::new(0, &[&BARE.replace("v3 = ATOMIC v2", read)]), "0: [block1 guarded 16384]");
    }
}

#[test]
fn plain_loads_stores_and_fences_mark_nothing() {
    let quiet = [
        "v3 = PLAIN v2",
        "v3 = load.i32 notrap aligned v0+64",
        "atomic_store little user2 v1, v2\n    v3 = iconst.i32 1",
        "fence\n    v3 = iconst.i32 1",
    ];
    for quiet in quiet {
        expect(&Program::new(0, &[&BARE.replace("v3 = ATOMIC v2", quiet)]), "0: [block1 no-atomic-read]");
    }
}

#[test]
fn a_test_and_a_set_are_two_cycles_and_one_guard() {
    let body = "
ENTRY
    jump block1
block1:
    v3 = ATOMIC v2
    brif v3, block1, block2
block2:
    v4 = atomic_rmw.i32 little user2 xchg v2, v1
    brif v4, block1, block3
block3:
    return v1";
    expect(&Program::new(0, &[body]), "0: [block1 guarded 16384]");
}

#[test]
fn an_import_on_every_turn_polls() {
    expect(&Program::new(2, &[CALL_EACH_TURN]), "2: [block1 polls]");
}

#[test]
fn a_wait_on_every_turn_polls_and_a_wake_up_does_not() {
    let wait = "
ENTRY
    v9 = iconst.i64 -1
    jump block1
block1:
    v3 = ATOMIC v2
    v5 = call fn20(v0, v1, v9, v3, v9)
    brif v5, block2, block1
block2:
    return v1";
    expect(&Program::new(0, &[wait]), "0: [block1 polls]");
    let notify = wait.replace("v5 = call fn20(v0, v1, v9, v3, v9)", "v5 = call fn21(v0, v1, v9, v3)");
    expect(&Program::new(0, &[&notify]), "0: [block1 guarded 16384]");
}

#[test]
fn a_wait_on_one_cycle_leaves_the_other() {
    let body = "
ENTRY
    v9 = iconst.i64 -1
    jump block1
block1:
    v3 = ATOMIC v2
    brif v3, block2, block1
block2:
    v5 = call fn20(v0, v1, v9, v3, v9)
    brif v5, block3, block1
block3:
    return v1";
    expect(&Program::new(0, &[body]), "0: [block1 guarded 16384]");
}

#[test]
fn a_callee_on_every_turn_is_made_to_poll() {
    expect(&calling(CALL_EACH_TURN, LEAF), "0: [block1 calls]\n1: called-in-spin-loop");
    expect(&calling(CALL_EACH_TURN, RECURSIVE), "0: [block1 calls]\n1: called-in-spin-loop");
}

#[test]
fn a_callee_that_reads_polls_for_that_reason() {
    expect(&calling(CALL_EACH_TURN, READER), "0: [block1 calls]\n1: reads-atomically");
}

#[test]
fn a_read_cannot_hide_in_a_callee() {
    let body = CALL_EACH_TURN.replace("v4 = ATOMIC v2", "v4 = iadd v3, v3");
    expect(&calling(&body, READER), "0: [block1 no-atomic-read]\n1: reads-atomically");
    // Nor behind another one.
    let through = "
ENTRY
    v3 = call fn2(v0, v1)
    return v3";
    let program = Program::new(0, &[&body, through, READER]);
    expect(&program, "0: [block1 no-atomic-read]\n1:\n2: reads-atomically");
}

#[test]
fn a_callee_that_reads_but_runs_in_no_cycle_does_not_poll() {
    let once = "
ENTRY
    v3 = call fn1(v0, v1)
    return v3";
    expect(&calling(once, READER), "0:\n1:");
    expect(&calling(once, BARE), "0:\n1: [block1 guarded 16384]");
}

#[test]
fn a_bounded_try_in_a_callee_polls_on_entry() {
    let body = CALL_EACH_TURN.replace("v4 = ATOMIC v2", "v4 = iadd v3, v3");
    let bounded = "
ENTRY
    v9 = iconst.i32 10
    jump block1(v9)
block1(v3: i32):
    v4 = ATOMIC v2
    brif v4, block3, block2
block2:
    v5 = iadd v3, v4
    brif v5, block1(v5), block3
block3:
    return v1";
    expect(&calling(&body, bounded), "0: [block1 no-atomic-read]\n1: reads-atomically [block1 guarded 16384]");
}

#[test]
fn a_log_call_on_a_cold_path_does_not_excuse_the_hot_cycle() {
    let body = "
ENTRY
    jump block1
block1:
    v3 = ATOMIC v2
    brif v3, block2, block3
block2:
    v4 = call fn1(v0, v1)
    jump block3
block3:
    v5 = ATOMIC v2
    brif v5, block4, block1
block4:
    return v1";
    expect(&calling(body, LEAF), "0: [block1 guarded 16384]\n1:");
}

#[test]
fn a_call_between_test_and_set_is_skipped_by_one_cycle() {
    let body = "
ENTRY
    jump block1
block1:
    v3 = ATOMIC v2
    brif v3, block1, block2
block2:
    v4 = call fn1(v0, v1)
    v5 = atomic_rmw.i32 little user2 xchg v2, v4
    brif v5, block1, block3
block3:
    return v1";
    expect(&calling(body, LEAF), "0: [block1 guarded 16384]\n1:");
}

#[test]
fn calls_on_both_arms_both_poll() {
    let body = "
ENTRY
    jump block1
block1:
    v3 = ATOMIC v2
    brif v3, block2, block3
block2:
    v4 = call fn1(v0, v1)
    jump block4
block3:
    v5 = call fn2(v0, v1)
    jump block4
block4:
    brif v3, block1, block5
block5:
    return v1";
    let program = Program::new(0, &[body, LEAF, LEAF]);
    expect(&program, "0: [block1 calls]\n1: called-in-spin-loop\n2: called-in-spin-loop");
    // An import on one arm: the other still needs its callee.
    let program = Program::new(2, &[&body.replace("fn2", "fn3"), LEAF]);
    expect(&program, "2: [block1 calls]\n3: called-in-spin-loop");
}

#[test]
fn of_several_calls_on_every_turn_one_polls() {
    let body = CALL_EACH_TURN.replace("v4 = ATOMIC v2", "v5 = call fn2(v0, v1)\n    v4 = ATOMIC v2");
    expect(&Program::new(0, &[&body, LEAF, LEAF]), "0: [block1 calls]\n1: called-in-spin-loop\n2:");
    // One that reads polls anyway, and serves.
    let program = Program::new(0, &[&body, LEAF, READER]);
    expect(&program, "0: [block1 calls]\n1:\n2: reads-atomically");
    // A call on some turns only is no help to one on all.
    let sometimes = "
ENTRY
    jump block1
block1:
    v3 = ATOMIC v2
    brif v3, block2, block3
block2:
    v4 = call fn1(v0, v1)
    jump block3
block3:
    v5 = call fn2(v0, v1)
    brif v5, block4, block1
block4:
    return v1";
    expect(&Program::new(0, &[sometimes, LEAF, LEAF]), "0: [block1 calls]\n1:\n2: called-in-spin-loop");
}

#[test]
fn one_poll_serves_the_loops_around_it() {
    // The inner loop's callee is on every turn of the outer one, whose own callee then need not poll.
    let body = "
ENTRY
    jump block1
block1:
    v3 = ATOMIC v2
    jump block2
block2:
    v4 = call fn1(v0, v1)
    v5 = ATOMIC v2
    brif v5, block3, block2
block3:
    v6 = call fn2(v0, v1)
    brif v6, block1, block4
block4:
    return v1";
    let program = Program::new(0, &[body, LEAF, LEAF]);
    let (plan, summary) = program.accept(Mode::Spin);
    assert_eq!(summary, "0: [block1 calls] [block2 calls]\n1: called-in-spin-loop\n2:\n");
    assert_eq!(Program::mutants(&plan).len(), 1);
}

#[test]
fn nested_spins_are_each_judged_by_themselves() {
    let body = "
ENTRY
    jump block1
block1:
    v3 = atomic_rmw.i32 little user2 xchg v2, v1
    brif v3, block2, block4
block2:
    v4 = ATOMIC v2
    brif v4, block3, block2
block3:
    jump block1
block4:
    return v1";
    expect(&Program::new(0, &[body]), "0: [block1 guarded 16384] [block2 guarded 16384]");
    // An inner loop that only counts.
    let backoff = body.replace("v4 = ATOMIC v2", "v4 = iadd v1, v1");
    expect(&Program::new(0, &[&backoff]), "0: [block1 guarded 16384] [block2 no-atomic-read]");
}

#[test]
fn two_spins_in_one_function() {
    let body = "
ENTRY
    brif v1, block1, block2
block1:
    v3 = ATOMIC v2
    brif v3, block3, block1
block2:
    v4 = ATOMIC v2
    brif v4, block3, block2
block3:
    jump block4
block4:
    v5 = ATOMIC v2
    brif v5, block5, block4
block5:
    return v1";
    expect(&Program::new(0, &[body]), "0: [block1 guarded 16384] [block2 guarded 16384] [block4 guarded 16384]");
}

#[test]
fn a_copying_loop_around_a_spin() {
    let body = "
ENTRY
    v9 = iconst.i64 0
    jump block1(v9)
block1(v3: i64):
    jump block2
block2:
    v4 = ATOMIC v2
    brif v4, block3, block2
block3:
    v5 = iadd v3, v9
    brif v5, block1(v5), block4
block4:
    return v1";
    let (plan, summary) = Program::new(0, &[body]).accept(Mode::Spin);
    assert_eq!(summary, "0: [block1 guarded 16384] [block2 guarded 16384]\n");
    assert_eq!(plan.functions[0].loops.iter().map(|natural| natural.depth).collect::<Vec<_>>(), [1, 2]);
}

#[test]
fn a_dispatch_table_may_name_the_header_several_times() {
    let body = "
ENTRY
    v9 = iconst.i32 5
    jump block1(v9, v1)
block1(v3: i32, v4: i32):
    v5 = ATOMIC v2
    br_table v5, block1(v5, v4), [block2, block1(v4, v5), block1(v5, v5), block3, block2]
block2:
    jump block1(v3, v5)
block3:
    return v4";
    expect(&Program::new(0, &[body]), "0: [block1 guarded 16384]");
}

#[test]
fn both_sides_of_one_branch_may_go_back() {
    let body = "
ENTRY
    jump block1(v1)
block1(v3: i32):
    v4 = ATOMIC v2
    brif v4, block1(v4), block1(v3)";
    expect(&Program::new(0, &[body]), "0: [block1 guarded 16384]");
}

#[test]
fn a_big_body_has_a_shorter_interval() {
    let sizes = [(0, 16384), (14, 16384), (15, 8192), (40, 4096), (64, 2048), (127, 1024), (255, 512), (600, 256)];
    for (more, interval) in sizes {
        let chain: String = (0..more)
            .map(|at| format!("    v{} = iadd v{}, v3\n", at + 10, if at == 0 { 3 } else { at + 9 }))
            .collect();
        // The read and the chain are all values of the loop but one that keeps the loop from being a watched wait.
        let body = BARE.replace("v3 = ATOMIC v2\n", &format!("v3 = ATOMIC v2\n    v4 = ATOMIC v2\n{chain}"));
        let (plan, _) = Program::new(0, &[&body]).accept(Mode::Spin);
        let natural = &plan.functions[0].loops[0];
        assert_eq!((natural.size, natural.guard.unwrap().interval), (more + 2, interval));
    }
}

#[test]
fn recursion_and_tail_recursion_poll_on_entry() {
    let call = "
ENTRY
    v3 = ATOMIC v2
    brif v3, block1, block2
block1:
    v4 = call fn0(v0, v3)
    return v4
block2:
    return v1";
    expect(&Program::new(0, &[call]), "0: reads-atomically");
    let tail = call.replace("v4 = call fn0(v0, v3)\n    return v4", "return_call fn0(v0, v3)");
    expect(&Program::new(0, &[&tail]), "0: reads-atomically");
    let mutual = call.replace("fn0", "fn1");
    let back = "
ENTRY
    return_call fn0(v0, v1)";
    expect(&Program::new(0, &[&mutual, back]), "0: reads-atomically\n1:");
}

/// Calls function 1, or whatever is at `v2`, and looks, until the call ends as it should.
fn trying(call: &str, returned: &str, thrown: &str) -> String {
    format!(
        "
ENTRY
    v9 = iconst.i64 0
    jump block1(v9, v1)
block1(v3: i64, v4: i32):
    v5 = ATOMIC v2
    {call}(v0, v5), sig0, {returned}, [ default: {thrown} ]
block2(v6: i32):
    return v6
block3(v7: i64):
    v8 = ireduce.i32 v7
    return v8"
    )
}

#[test]
fn a_handler_that_goes_back_closes_a_loop() {
    let thrown = trying("try_call fn1", "block2(ret0)", "block1(exn0, v5)");
    expect(&Program::new(0, &[&thrown, RECURSIVE]), "0: [block1 calls]\n1: called-in-spin-loop");
    let both = trying("try_call fn1", "block1(v3, ret0)", "block1(exn0, v5)");
    expect(&Program::new(0, &[&both, RECURSIVE]), "0: [block1 calls]\n1: called-in-spin-loop");
    let import = thrown.replace("fn1", "fn0");
    expect(&Program::new(1, &[&import]), "1: [block1 polls]");
}

#[test]
fn the_edges_of_a_call_that_may_throw_go_through_a_latch() {
    for (returned, thrown) in [
        ("block2(ret0)", "block1(exn0, v5)"),
        ("block1(v3, ret0)", "block3(exn0)"),
        ("block1(v3, ret0)", "block1(exn0, v5)"),
        ("block1(v3, ret0)", "block1(exn1, v4)"),
    ] {
        let unknown = trying("try_call_indirect v2", returned, thrown);
        expect(&Program::new(0, &[&unknown]), "0: [block1 guarded 16384]");
    }
}

#[test]
fn a_throw_leaves_the_call_before_its_poll() {
    // The callee calls the host only where it does not throw.
    let callee = "
ENTRY
    brif v1, block1, block2
block1:
    call fn22(v0, v2)
    trap user1
block2:
    v3 = call fn0(v0, v1)
    return v3";
    let caller = trying("try_call fn2", "block2(ret0)", "block1(exn0, v5)");
    expect(&Program::new(1, &[&caller, callee]), "1: [block1 calls]\n2: called-in-spin-loop");
}

#[test]
fn a_read_before_a_throw_counts() {
    let callee = "
ENTRY
    v3 = ATOMIC v2
    brif v3, block1, block2
block1:
    return v3
block2:
    call fn22(v0, v2)
    trap user1";
    let caller = trying("try_call fn1", "block2(ret0)", "block1(exn0, v4)").replace("v5 = ATOMIC v2", "v5 = PLAIN v2");
    expect(&Program::new(0, &[&caller, callee]), "0: [block1 no-atomic-read]\n1: reads-atomically");
}

#[test]
fn what_runs_below_a_recursion_polls_if_it_reads() {
    let recursive = RECURSIVE.replace("v3 = call fn1(v0, v1)", "v3 = call fn0(v0, v1)\n    v4 = call fn1(v0, v1)");
    expect(&Program::new(0, &[&recursive, READER]), "0:\n1: reads-atomically");
}

#[test]
fn a_cycle_without_a_header_is_cut() {
    let body = "
ENTRY
    brif v1, block1, block2
block1:
    v3 = ATOMIC v2
    brif v3, block2, block3
block2:
    v4 = iadd v1, v1
    jump block1
block3:
    return v1";
    let (plan, _) = Program::new(0, &[body]).accept(Mode::Spin);
    assert!(plan.functions[0].loops[0].irreducible);
    expect(&Program::new(0, &[body]), "0: [block1 guarded 16384]");
    // With parameters, inside a loop that has a header, and with an edge back to each of three entries.
    let tangled = "
ENTRY
    jump block1(v1)
block1(v3: i32):
    br_table v3, block2(v3), [block3, block4(v1)]
block2(v4: i32):
    brif v4, block3, block4(v4)
block3:
    v5 = ATOMIC v2
    brif v5, block4(v5), block2(v5)
block4(v6: i32):
    br_table v6, block5, [block3, block2(v6), block1(v6)]
block5:
    return v1";
    let program = Program::new(0, &[tangled]);
    let (plan, _) = program.accept(Mode::Spin);
    assert!(plan.functions[0].loops.iter().any(|natural| natural.irreducible));
    assert!(plan.functions[0].loops.iter().any(|natural| !natural.irreducible));
    for triple in ["x86_64", "aarch64"] {
        program.guarded(&plan).compile(&support::isa(triple));
    }
}

#[test]
fn a_cycle_without_a_header_that_polls_or_does_not_read_is_left() {
    let body = "
ENTRY
    brif v1, block1, block2
block1:
    v3 = PLAIN v2
    brif v3, block2, block3
block2:
    v4 = iadd v1, v1
    jump block1
block3:
    return v1";
    expect(&Program::new(0, &[body]), "0:");
    let polls = body.replace("PLAIN", "ATOMIC").replace("v4 = iadd v1, v1", "v4 = call fn0(v0, v1)");
    expect(&Program::new(1, &[&polls]), "1:");
}

#[test]
fn the_entry_block_may_be_all_there_is_before_a_spin() {
    // The latch needs the instance context, which only the entry block has as a parameter.
    let body = "
block0(v0: i64, v1: i32):
    jump block1(v0, v1)
block1(v3: i64, v4: i32):
    v2 = load.i64 notrap aligned readonly can_move v3+24
    v5 = ATOMIC v2
    brif v5, block2, block1(v3, v5)
block2:
    return v4";
    expect(&Program::new(0, &[body]), "0: [block1 guarded 16384]");
}

#[test]
fn unreachable_code_is_not_guarded() {
    let body = "
ENTRY
    return v1
block1:
    v3 = ATOMIC v2
    jump block1";
    expect(&Program::new(0, &[body]), "0:");
}

#[test]
fn with_guards_off_the_plan_only_tells() {
    let program = Program::new(0, &[BARE, READER, &BARE.replace("ATOMIC", "PLAIN")]);
    let (plan, summary) = program.accept(Mode::Off);
    assert_eq!(summary, "0: [block1 unguarded]\n1:\n2: [block1 no-atomic-read]\n");
    assert_eq!(program.guarded(&plan).text(), program.text());
    assert_eq!(plan.totals().guarded, 0);
}

#[test]
fn everything_is_stoppable_in_all_mode() {
    let tree = "
ENTRY
    v3 = call fn2(v0, v1)
    v4 = call fn2(v0, v3)
    return v4";
    let program = Program::new(0, &[&BARE.replace("ATOMIC", "PLAIN"), tree, LEAF]);
    let (plan, summary) = program.accept(Mode::All);
    assert_eq!(summary, "0: [block1 guarded 16384]\n1: makes-calls\n2:\n");
    for (what, mutant) in Program::mutants(&plan) {
        assert!(!program.guarded(&mutant).violations(Mode::All).is_empty(), "{what}");
    }
}
