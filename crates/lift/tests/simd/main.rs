//! Every SIMD128 operator, and every relaxed one, against a reference in plain Rust that knows a lane at a time and no code generator.
//!
//! A table of cases ([`case`]) holds for each operator its text, its operands and its meaning. It is lifted as one
//! module, verified, compiled for all targets, and run on this host at its full level and at its least, with every pair
//! of edge values ([`lanes::Kind::edges`]) in every lane.

mod case;
mod float;
mod integer;
mod lanes;
mod machine;
mod memory;
mod operands;
mod relaxed;
mod scripts;
mod structure;
mod targets;

use std::collections::BTreeSet;

use case::{Table, WINDOW};
use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_codegen::{Context, verify_function};
use machine::Machine;
use scripts::Script;
use spinwise_lift::{Config, Relaxed, lift};
use wasmparser::{Parser, Payload};

fn table(choices: Relaxed) -> Table {
    let mut table = Table::default();
    integer::table(&mut table);
    float::table(&mut table);
    structure::table(&mut table);
    memory::table(&mut table);
    relaxed::table(&mut table, choices);
    table
}

/// One function a case, in order.
fn module(table: &Table) -> Vec<u8> {
    let functions: Vec<String> = table.0.iter().map(case::Case::text).collect();
    wat::parse_str(format!("(module (memory 1) {})", functions.join("\n"))).expect("the table is valid text")
}

fn compile(name: &str, function: &Function, isa: &dyn TargetIsa) {
    if let Err(errors) = verify_function(function, isa) {
        panic!("{name} for {}: {errors}\n{}", isa.triple(), function.display());
    }
    let mut context = Context::for_function(function.clone());
    if let Err(error) = context.compile(isa, &mut Default::default()) {
        panic!("{name} for {}: {:?}\n{}", isa.triple(), error.inner, function.display());
    }
}

/// Names of the operators that `wasmparser` counts as SIMD128, or as relaxed.
fn simd_operators() -> BTreeSet<&'static str> {
    macro_rules! names {
        ($(@$proposal:ident $op:ident $({ $($arg:ident: $argty:ty),* })? => $visit:ident ($($ann:tt)*))*) => {
            [$((stringify!($proposal), stringify!($op)),)*]
        };
    }
    let names = wasmparser::for_each_visit_simd_operator!(names);
    names
        .into_iter()
        .filter(|(proposal, _)| matches!(*proposal, "simd" | "relaxed_simd"))
        .map(|(_, name)| name)
        .collect()
}

#[test]
fn the_table_holds_every_operator() {
    let bytes = module(&table(Relaxed::DETERMINISTIC));
    let mut seen = BTreeSet::new();
    for payload in Parser::new(0).parse_all(&bytes) {
        if let Payload::CodeSectionEntry(body) = payload.expect("a valid module") {
            for op in body.get_operators_reader().expect("a body") {
                let text = format!("{:?}", op.expect("an operator"));
                seen.insert(text.split([' ', '{']).next().expect("a name").to_owned());
            }
        }
    }
    let all = simd_operators();
    assert_eq!(all.len(), 236 + 20, "SIMD128 has 236 operators, 20 are relaxed");
    let missing: Vec<_> = all.iter().filter(|name| !seen.contains(**name)).collect();
    assert!(missing.is_empty(), "no case for {missing:?}");
}

#[test]
fn every_operator_compiles_for_every_target() {
    let table = table(Relaxed::DETERMINISTIC);
    let bytes = module(&table);
    for (triple, features) in targets::ALL {
        for level in targets::LEVELS {
            let isa = targets::target(triple, features, level);
            let fast = targets::config(&isa);
            for config in [fast, Config { relaxed: Relaxed::DETERMINISTIC, ..fast }] {
                let lifted = lift(&bytes, &config).expect("a valid module");
                for (case, function) in table.0.iter().zip(&lifted.functions) {
                    compile(&format!("{} with {features:?} at {level}", case.name), function, &*isa);
                }
            }
        }
    }
}

/// Runs the whole table. Fails with all cases that went wrong, each at its first operands.
fn run(isa: OwnedTargetIsa, relaxed: Relaxed) {
    let table = table(relaxed);
    let config = Config { relaxed, ..targets::config(&isa) };
    let lifted = lift(&module(&table), &config).expect("a valid module");
    let mut machine = Machine::new(&lifted, isa);
    let mut calls = 0;
    let mut failures = Vec::new();
    for (function, case) in table.0.iter().enumerate() {
        for args in operands::operands(&case.params) {
            let mut expected_memory = pattern();
            *machine.memory = pattern();
            let expected = (case.reference)(&args, &mut expected_memory);
            let actual = machine.call(function, &args);
            calls += 1;
            let stored = if *machine.memory == expected_memory { "" } else { ", and memory differs" };
            if !case.allows(&args, expected, actual) || !stored.is_empty() {
                let name = &case.name;
                failures.push(format!("{name} of {args:032x?}: {actual:032x}, not {expected:032x}{stored}"));
                break;
            }
        }
    }
    assert!(failures.is_empty(), "{} cases:\n{}", failures.len(), failures.join("\n"));
    assert!(calls > 200_000, "only {calls} calls");
}

/// Bytes of all values and both signs, none beside its neighbour's.
fn pattern() -> [u8; WINDOW] {
    std::array::from_fn(|at| u8::try_from(at * 151 % 256).expect("below 256"))
}

#[test]
fn every_operator_is_right_with_the_host_s_features() {
    for level in targets::LEVELS {
        let isa = targets::host(true, level);
        let fast = Relaxed::fast(&*isa);
        run(isa, fast);
    }
}

#[test]
fn every_operator_is_right_at_the_architecture_s_least() {
    for level in targets::LEVELS {
        let isa = targets::host(false, level);
        let fast = Relaxed::fast(&*isa);
        run(isa, fast);
    }
}

#[test]
fn every_operator_is_right_with_the_host_s_features_and_no_choice() {
    for level in targets::LEVELS {
        run(targets::host(true, level), Relaxed::DETERMINISTIC);
    }
}

#[test]
fn the_specification_s_modules_are_accepted_and_refused() {
    let isas = [targets::host(true, "speed"), targets::host(false, "none")];
    let config = targets::config(&isas[0]);
    let (mut accepted, mut refused) = (0, 0);
    for Script { place, bytes, valid } in scripts::modules() {
        match (valid, bytes.map(|bytes| lift(&bytes, &config))) {
            (true, Some(Ok(lifted))) => {
                accepted += 1;
                for (isa, function) in isas.iter().flat_map(|isa| lifted.functions.iter().map(move |f| (isa, f))) {
                    compile(&place, function, &**isa);
                }
            }
            (false, None | Some(Err(_))) => refused += 1,
            (true, None) => panic!("{place}: malformed"),
            (true, Some(Err(error))) => panic!("{place}: {error}"),
            (false, Some(Ok(_))) => panic!("{place}: accepted"),
        }
    }
    assert!(accepted > 300 && refused > 600, "{accepted} accepted, {refused} refused");
}
