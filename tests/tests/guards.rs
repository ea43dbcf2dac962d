//! Every guard and entry poll of every fixture is needed: each is left out singly, and the checker must notice.

use std::fs;
use std::path::Path;

use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::CallConv;
use spinwise::Config;
use spinwise::config::GuardMode;
use spinwise::pipeline::{self, Stage};
use spinwise_guard::{FunctionPlan, Plan};

/// Sites that the property holds without: file, function, header offset (0 for an entry poll). The rule asks for them all
/// the same, since it looks at each function by itself. Each of these can run again and again only through
/// `pthread_create` or through another function that polls on entry, so that the cycle is cut there already.
const REDUNDANT: &[(&str, &str, u32)] = &[
    ("fixtures/guests/team.wasm", "free_exited", 0),
    ("fixtures/guests/team.wasm", "dlmalloc", 0),
    ("fixtures/guests/team.wasm", "dlfree", 0),
    ("fixtures/guests/traps.wasm", "free_exited", 0),
    ("fixtures/guests/traps.wasm", "dlmalloc", 0),
    ("fixtures/guests/traps.wasm", "dlfree", 0),
    ("fixtures/guests/wasi.wasm", "dlfree", 0),
    ("fixtures/guests/wasi_threads.wasm", "free_exited", 0),
    ("fixtures/guests/wasi_threads.wasm", "dlmalloc", 0),
    ("fixtures/guests/wasi_threads.wasm", "dlfree", 0),
];

/// A module before its guards, and what was planned for it.
struct Planned {
    module: spinwise::module::Module,
    functions: Vec<Function>,
    plan: Plan,
}

fn planned(path: &Path, guard: GuardMode) -> Planned {
    let wasm = spinwise::binary_form(fs::read(path).expect("readable")).expect("well-formed");
    let config = Config { guard, ..Config::default() };
    let translation = pipeline::translate(&wasm, &config).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let (functions, plan) = (translation.functions(Stage::Inlined), translation.plan().clone());
    Planned { module: translation.module().clone(), functions, plan }
}

/// Guests that are mostly their language's library: what another poll makes redundant there has often no name to list.
const LIBRARIES: [&str; 2] = ["fixtures/guests/exceptions", "fixtures/guests/rust"];

fn fixtures() -> Vec<std::path::PathBuf> {
    let folders = ["lift", "loops", "guard", "run"];
    let mut all: Vec<_> = folders.iter().flat_map(|f| tests::files(&format!("fixtures/{f}"), "wat")).collect();
    all.extend(tests::files("fixtures/guests", "wasm"));
    all
}

/// The module's functions guarded by a plan, one of them by another.
fn guarded(planned: &Planned, changed: usize, other: &FunctionPlan) -> Vec<Function> {
    let mut functions = planned.functions.clone();
    for (index, (func, plan)) in functions.iter_mut().zip(&planned.plan.functions).enumerate() {
        spinwise_guard::insert(func, if index == changed { other } else { plan }, CallConv::PreserveAll);
    }
    functions
}

/// The plan without one site, and where that is: header offset, or 0 for the entry.
fn without_each_site(plan: &FunctionPlan) -> Vec<(u32, FunctionPlan)> {
    let mut out = Vec::new();
    if plan.entry_poll.is_some() {
        out.push((0, FunctionPlan { entry_poll: None, ..plan.clone() }));
    }
    for at in (0..plan.loops.len()).filter(|at| plan.loops[*at].guard.is_some()) {
        let mut other = plan.clone();
        other.loops[at].guard = None;
        out.push((plan.loops[at].header_offset, other));
    }
    out
}

#[test]
fn every_site_is_needed() {
    let (mode, mut sites, mut missed) = (GuardMode::Spin, 0, Vec::new());
    let is_library = |path: &Path| LIBRARIES.iter().any(|folder| path.starts_with(tests::root().join(folder)));
    for path in fixtures().into_iter().filter(|path| !is_library(path)) {
        let planned = planned(&path, mode);
        let name = tests::relative(&path);
        let names = planned.module.func_names();
        for (index, plan) in planned.plan.functions.iter().enumerate() {
            for (offset, other) in without_each_site(plan) {
                sites += 1;
                let functions = guarded(&planned, index, &other);
                let caught = spinwise_guard::check(&planned.module, &functions, mode).is_err();
                let function = names[plan.function as usize].as_str();
                if caught == REDUNDANT.contains(&(&name, function, offset)) {
                    missed.push(format!("{name}: {function} at 0x{offset:x}: caught {caught}"));
                }
            }
        }
    }
    println!("{sites} sites left out singly, {} of them redundant", REDUNDANT.len());
    assert!(sites > 60, "only {sites} sites");
    assert!(missed.is_empty(), "{}", missed.join("\n"));
}

#[test]
fn whole_plans_pass() {
    for path in fixtures() {
        for mode in [GuardMode::Spin, GuardMode::All] {
            let planned = planned(&path, mode);
            let functions = guarded(&planned, usize::MAX, &planned.plan.functions[0]);
            let checked = spinwise_guard::check(&planned.module, &functions, mode);
            assert!(checked.is_ok(), "{}: {mode:?}: {checked:?}", path.display());
        }
    }
}
