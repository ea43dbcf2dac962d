//! Small callees disappear into their callers, whole and with their source locations, within the budget.

mod common;

use common::{module, parse};
use cranelift_codegen::ir::{Function, Opcode};
use cranelift_codegen::settings::{self, Flags};
use cranelift_codegen::verify_function;
use spinwise_emit::{InlineBudget, inline};
use spinwise_model::index::FuncIndex;
use spinwise_model::module::Module;

/// Inlines, verifies every function, and names the pairs.
fn inlined(module: &Module, functions: &mut [Function], budget: InlineBudget) -> Vec<(u32, u32)> {
    let pairs = inline(module, functions, budget);
    for function in &*functions {
        verify_function(function, &Flags::new(settings::builder())).expect("valid after inlining");
    }
    assert!(pairs.is_sorted());
    pairs.into_iter().map(|(FuncIndex(callee), FuncIndex(caller))| (callee, caller)).collect()
}

/// (opcode, source location) of each instruction, in layout order.
fn located(func: &Function) -> Vec<(Opcode, u32)> {
    let insts = func.layout.blocks().flat_map(|block| func.layout.block_insts(block));
    insts.map(|inst| (func.dfg.insts[inst].opcode(), func.srcloc(inst).bits())).collect()
}

/// A function that calls function `callee` from each of its `sites`, at ascending locations from 0x100.
fn calls(index: u32, callee: u32, sites: u32) -> String {
    let lines: String =
        (0..sites).map(|site| format!("@{:04x} v{} = call fn0(v0, v1)\n", 0x100 + site, site + 2)).collect();
    format!(
        "function u0:{index}(i64, i32) -> i32 tail {{
            fn0 = colocated u0:{callee}(i64, i32) -> i32 tail
        block0(v0: i64, v1: i32):
            {lines}
            @01ff return v{}
        }}\n",
        sites + 1
    )
}

/// A loop behind a `nop`, a jump table, a division, a trap in a cold block and two returns: 0x10 to 0x2c.
const RICH: &str = "function u0:1(i64, i32) -> i32 tail {
    block0(v0: i64, v1: i32):
        @0010 v2 = iconst.i32 3
        @0012 br_table v1, block3, [block1(v2), block2]
    block1(v3: i32):
        @0014 nop
        @0016 v4 = atomic_load.i32 little user2 v0
        @0018 v5 = isub v3, v4
        @001a brif v5, block1(v5), block4
    block2:
        @001c v6 = udiv v2, v1
        @001e return v6
    block4:
        @0020 v7 = load.i32 little user2 v0
        @0022 trapz v7, user1
        @0024 return v7
    block3 cold:
        @002c trap user1
    }\n";

#[test]
fn inlined_instructions_keep_the_locations_of_their_callee() {
    let text = calls(0, 1, 2) + RICH;
    let mut functions = parse(&text);
    let before = located(&functions[1]);
    assert_eq!(inlined(&module(0, 2), &mut functions, InlineBudget::SPEED), [(1, 0)]);

    assert_eq!(located(&functions[1]), before, "the callee is as it was");
    let after = located(&functions[0]);
    for (opcode, location) in before {
        let opcode = if opcode == Opcode::Return { Opcode::Jump } else { opcode };
        let found = after.iter().filter(|found| **found == (opcode, location)).count();
        assert_eq!(found, 2, "{opcode} at {location:#x} in {after:x?}");
    }
    assert!(after.iter().all(|(_, location)| *location != u32::MAX), "{after:x?}");
    assert!(after.contains(&(Opcode::Jump, 0x100)), "the call has become a jump where it was");
    assert!(after.iter().all(|(opcode, _)| !opcode.is_call()));
}

#[test]
fn a_cold_block_of_the_callee_stays_cold() {
    let mut functions = parse(&(calls(0, 1, 1) + RICH));
    inlined(&module(0, 2), &mut functions, InlineBudget::SPEED);
    let layout = &functions[0].layout;
    let cold: Vec<_> = layout.blocks().filter(|block| layout.is_cold(*block)).collect();
    assert_eq!(cold.len(), 1);
    let last = layout.last_inst(cold[0]).expect("not empty");
    assert_eq!(functions[0].dfg.insts[last].opcode(), Opcode::Trap);
}

#[test]
fn several_results_and_tail_calls_survive() {
    let text = "
    function u0:0(i64, i32) -> i32, i64 tail {
        fn0 = colocated u0:1(i64, i32) -> i32, i64 tail
    block0(v0: i64, v1: i32):
        @0001 v2, v3 = call fn0(v0, v1)
        @0002 v4 = iadd v0, v3
        @0003 return_call fn0(v4, v2)
    }
    function u0:1(i64, i32) -> i32, i64 tail {
        sig0 = (i64, i32) -> i32, i64 tail
        fn0 = colocated u0:2 sig0
    block0(v0: i64, v1: i32):
        @0011 brif v1, block1, block2
    block1:
        @0012 return_call fn0(v0, v1)
    block2:
        @0013 v2 = load.i64 notrap aligned v0
        @0014 return_call_indirect sig0, v2(v0, v1)
    }
    function u0:2(i64, i32) -> i32, i64 tail {
    block0(v0: i64, v1: i32):
        @0021 brif v1, block1, block2
    block1:
        @0022 return v1, v0
    block2:
        @0023 trap user1
    }";
    let mut functions = parse(text);
    assert_eq!(inlined(&module(0, 3), &mut functions, InlineBudget::SPEED), [(1, 0), (2, 0), (2, 1)]);
    let caller = located(&functions[0]);
    // Once as a call that returns here, once in tail position.
    assert!(caller.contains(&(Opcode::CallIndirect, 0x14)), "{caller:x?}");
    assert!(caller.contains(&(Opcode::ReturnCallIndirect, 0x14)), "{caller:x?}");
    for location in [0x11, 0x12, 0x13, 0x21, 0x22, 0x23] {
        assert!(caller.iter().filter(|(_, found)| *found == location).count() >= 2, "{location:x} {caller:x?}");
    }
    let callee = located(&functions[1]);
    assert!(callee.contains(&(Opcode::Return, 0x22)), "{callee:x?}");
}

/// Calls function 1 with a handler.
const TRIES: &str = "function u0:0(i64, i32) -> i32 tail {
        sig0 = (i64, i32) -> i32 tail
        fn0 = colocated u0:1 sig0
    block0(v0: i64, v1: i32):
        @0101 try_call fn0(v0, v1), sig0, block1(ret0), [ default: block2(exn0) ]
    block1(v2: i32):
        @0102 return v2
    block2(v3: i64) cold:
        @0103 v4 = ireduce.i32 v3
        @0104 return v4
    }\n";

#[test]
fn a_callee_without_calls_goes_into_a_call_with_a_handler() {
    let mut functions = parse(&(TRIES.to_owned() + RICH));
    let before = located(&functions[1]);
    assert_eq!(inlined(&module(0, 2), &mut functions, InlineBudget::SPEED), [(1, 0)]);
    let after = located(&functions[0]);
    for (opcode, location) in before {
        let opcode = if opcode == Opcode::Return { Opcode::Jump } else { opcode };
        assert_eq!(after.iter().filter(|found| **found == (opcode, location)).count(), 1, "{location:#x} {after:x?}");
    }
    assert!(after.iter().all(|(opcode, _)| !opcode.is_call()), "{after:x?}");
}

#[test]
fn calls_of_a_callee_get_the_handler_of_the_call_that_it_replaces() {
    let callee = "function u0:1(i64, i32) -> i32 tail {
        sig0 = (i64, i32) -> i32 tail
        fn0 = colocated u0:2 sig0
        fn1 = colocated u0:3 sig0
    block0(v0: i64, v1: i32):
        @0011 v2 = call fn0(v0, v1)
        @0012 v3 = load.i64 notrap aligned v0
        @0013 v4 = call_indirect sig0, v3(v0, v2)
        @0014 brif v4, block1, block2
    block1:
        @0015 return_call fn0(v0, v4)
    block2:
        @0016 try_call fn0(v0, v4), sig0, block3(ret0), [ default: block4(exn0) ]
    block3(v5: i32):
        @0017 return_call_indirect sig0, v3(v0, v5)
    block4(v6: i64) cold:
        @0018 v7 = ireduce.i32 v6
        @0019 return v7
    }
    function u0:2(i64, i32) -> i32 tail {
        sig0 = (i64, i32) -> i32 tail
        fn0 = colocated u0:2 sig0
    block0(v0: i64, v1: i32):
        @0021 return_call fn0(v0, v1)
    }";
    let mut functions = parse(&(TRIES.to_owned() + callee));
    assert_eq!(inlined(&module(0, 3), &mut functions, InlineBudget::SPEED), [(1, 0)]);
    let after = located(&functions[0]);
    for expected in [
        (Opcode::TryCall, 0x11),
        (Opcode::TryCallIndirect, 0x13),
        (Opcode::TryCall, 0x15),
        (Opcode::TryCall, 0x16),
        (Opcode::TryCallIndirect, 0x17),
        (Opcode::Jump, 0x17),
        (Opcode::Jump, 0x19),
    ] {
        assert_eq!(after.iter().filter(|found| **found == expected).count(), 1, "{expected:x?} in {after:x?}");
    }
    let plain = after.iter().filter(|(opcode, _)| matches!(opcode, Opcode::Call | Opcode::CallIndirect)).count();
    assert_eq!(plain, 0, "every call has the handler: {after:x?}");
}

#[test]
fn a_callee_that_calls_the_runtime_stays_out_of_a_call_with_a_handler() {
    let callee = "function u0:1(i64, i32) -> i32 tail {
        sig0 = (i64, i32) system_v
        fn0 = u1:6 sig0
    block0(v0: i64, v1: i32):
        call fn0(v0, v1)
        return v1
    }\n";
    let mut functions = parse(&(TRIES.to_owned() + callee));
    assert_eq!(inlined(&module(0, 2), &mut functions, InlineBudget::SPEED), []);
    let mut functions = parse(&(calls(0, 1, 1) + callee));
    assert_eq!(inlined(&module(0, 2), &mut functions, InlineBudget::SPEED), [(1, 0)], "a plain call takes it");
}

#[test]
fn callees_are_final_when_they_are_copied() {
    // 0 calls 1 calls 2 calls 3: everything ends up in 0, whatever the order in the slice.
    let leaf = "function u0:3(i64, i32) -> i32 tail {
        block0(v0: i64, v1: i32):
            @0077 v2 = iadd v1, v1
            return v2
        }\n";
    let mut functions = parse(&(calls(0, 1, 1) + &calls(1, 2, 1) + &calls(2, 3, 1) + leaf));
    functions.reverse();
    let pairs = inlined(&module(0, 4), &mut functions, InlineBudget::SPEED);
    assert_eq!(pairs, [(1, 0), (2, 0), (2, 1), (3, 0), (3, 1), (3, 2)]);
    for function in &functions {
        let located = located(function);
        assert!(located.contains(&(Opcode::Iadd, 0x77)), "{function}");
        assert!(located.iter().all(|(opcode, _)| !opcode.is_call()), "{function}");
    }
}

#[test]
fn recursion_stubs_glue_and_other_signatures_are_left_alone() {
    let tiny = |name: &str| {
        format!(
            "function {name}(i64, i32) -> i32 tail {{
            block0(v0: i64, v1: i32):
                return v1
            }}\n"
        )
    };
    // Import stub 0; 1 calls itself; 2 and 3 call each other; 4 calls them all; glue u4:0 calls 5, 4 calls glue.
    let text = tiny("u0:0")
        + &calls(1, 1, 1)
        + &calls(2, 3, 1)
        + &calls(3, 2, 1)
        + "function u0:4(i64, i32) -> i32 tail {
            fn0 = colocated u0:0(i64, i32) -> i32 tail
            fn1 = colocated u0:1(i64, i32) -> i32 tail
            fn2 = colocated u0:2(i64, i32) -> i32 tail
            fn3 = colocated u4:0(i64, i32) -> i32 tail
            fn4 = colocated u0:5(i64, i64) -> i32 tail
        block0(v0: i64, v1: i32):
            v2 = call fn0(v0, v1)
            v3 = call fn1(v0, v2)
            v4 = call fn2(v0, v3)
            v5 = call fn3(v0, v4)
            v6 = call fn4(v0, v0)
            return v6
        }\n"
        + &tiny("u0:5")
        + &calls(0, 5, 1).replace("u0:0(", "u4:0(");
    let mut functions = parse(&text);
    let before: Vec<_> = functions.iter().map(ToString::to_string).collect();
    assert_eq!(inlined(&module(1, 5), &mut functions, InlineBudget::SPEED), []);
    let after: Vec<_> = functions.iter().map(ToString::to_string).collect();
    assert_eq!(after, before);
}

#[test]
fn nothing_is_copied_into_a_cold_block() {
    let text = "
    function u0:0(i64, i32) -> i32 tail {
        fn0 = colocated u0:1(i64, i32) -> i32 tail
    block0(v0: i64, v1: i32):
        brif v1, block1, block2
    block1 cold:
        v2 = call fn0(v0, v1)
        return v2
    block2:
        return v1
    }
    function u0:1(i64, i32) -> i32 tail {
    block0(v0: i64, v1: i32):
        return v1
    }";
    assert_eq!(inlined(&module(0, 2), &mut parse(text), InlineBudget::SPEED), []);
}

/// Instructions of all functions.
fn total(functions: &[Function]) -> usize {
    functions.iter().map(|function| located(function).len()).sum()
}

#[test]
fn growth_stays_within_the_budget() {
    let size = located(&parse(RICH)[0]).len();
    let grow = |budget: InlineBudget, callers: u32| {
        let text: String = RICH.to_owned() + &(2..2 + callers).map(|caller| calls(caller, 1, 30)).collect::<String>();
        let mut functions = parse(&text);
        functions.extend(parse(&calls(0, 0, 1)));
        let before = total(&functions);
        inlined(&module(0, 2 + callers), &mut functions, budget);
        (before, total(&functions) - before)
    };
    let roomy = InlineBudget { callee: size, caller_growth: 1_000_000, module_growth_percent: 10_000 };
    let (_, everything) = grow(roomy, 10);
    assert_eq!(everything, 10 * 30 * size, "each call is replaced by a jump and the body");

    let (_, none) = grow(InlineBudget { callee: size - 1, ..roomy }, 10);
    assert_eq!(none, 0);
    let (_, capped) = grow(InlineBudget { caller_growth: 5 * size + 1, ..roomy }, 10);
    assert_eq!(capped, 10 * 5 * size);
    let (before, capped) = grow(InlineBudget { caller_growth: 5 * size, module_growth_percent: 25, ..roomy }, 10);
    assert!(capped <= (before / 4).max(5 * size) && capped > 0, "{capped} of {before}");
    assert_eq!(grow(InlineBudget::NONE, 10).1, 0);
}

#[test]
fn the_result_depends_on_the_module_alone() {
    let text: String = RICH.to_owned() + &calls(0, 2, 3) + &calls(2, 3, 2) + &calls(3, 1, 4);
    let run = || {
        let mut functions = parse(&text);
        let pairs = inlined(&module(0, 4), &mut functions, InlineBudget::SPEED);
        (pairs, functions.iter().map(ToString::to_string).collect::<Vec<_>>())
    };
    assert_eq!(run(), run());
}

#[test]
fn a_long_chain_of_calls_needs_no_deep_stack() {
    let length = 20_000;
    let text: String = (0..length).map(|index| calls(index, (index + 1) % length, 1)).collect();
    let chain = std::thread::Builder::new().stack_size(256 << 10).spawn(move || {
        let mut functions = parse(&text);
        // A cycle through everything: nothing may be copied.
        assert_eq!(inlined(&module(0, length), &mut functions, InlineBudget::SPEED), []);
        // Without its last link, everything but growth allows it.
        functions.pop();
        functions.extend(parse(&format!(
            "function u0:{}(i64, i32) -> i32 tail {{
            block0(v0: i64, v1: i32):
                return v1
            }}",
            length - 1
        )));
        inlined(&module(0, length), &mut functions, InlineBudget::SPEED).len()
    });
    let pairs = chain.expect("a thread").join().expect("no overflow");
    // All but the few that have become too large to be copied.
    assert!(pairs > length as usize / 5, "{pairs}");
}
