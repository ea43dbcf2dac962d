//! The order of all stages, in one place: parse → lift → inline → analyse → guard → emit → load.
//!
//! No stage knows another; values are handed on here. A module's functions are never all in memory at once: what must be
//! known of the whole module is found in two passes that look at each function and let it go again, and then each one is
//! made for the last time, compiled and dropped.
//!
//! ```text
//! translate   1. parse; lift each body: validates it      → module, outlines
//!             2. decide what is inlined; lift what is copied → inlining
//!             3. lift → inline each function; look at it  → plan
//! compile     4. lift → inline → guard → compile each function
//! ```
//!
//! Everything is deterministic: the same bytes and settings give the same result, whatever the number of compiler
//! threads.

use std::cmp::Reverse;
use std::sync::atomic::{AtomicUsize, Ordering};

use cranelift_codegen::Context;
use cranelift_codegen::ir;
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa, TargetIsa};
use rayon::prelude::*;
use spinwise_emit::{Compiled, Compiler, InlineBudget, Inlining, Input, Outline};
use spinwise_guard::{CheckReport, Checker, Plan, Planner};
use spinwise_lift::Source;
use spinwise_model::image::CodeImage;
use spinwise_model::index::FuncIndex;
use spinwise_model::module::Module;
use spinwise_model::symbol;

use crate::config::{Config, GuardMode, OptLevel, RelaxedSimd};
use crate::error::Error;

/// A module of which everything is decided: each of its functions can be made at any time, on any thread.
#[derive(Debug)]
pub struct Translation<'a> {
    source: Source<'a>,
    inlining: Inlining,
    plan: Plan,
    thunk: CallConv,
    /// What the independent checker counted, where it ran.
    pub checked: Option<CheckReport>,
}

/// How far a function has come.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Lifted, not yet inlined.
    Lifted,
    /// Inlined, not yet guarded.
    Inlined,
    /// As it is compiled.
    Guarded,
}

/// Memory that making functions reuses, for one thread.
struct Scratch {
    lift: spinwise_lift::Scratch,
    context: Context,
}

impl Scratch {
    fn new() -> Self {
        Self { lift: spinwise_lift::Scratch::default(), context: Context::new() }
    }
}

/// Watches a translation: called with the functions done and the functions in all, from any compiler thread.
pub type Progress<'a> = &'a (dyn Fn(usize, usize) + Sync);

/// A [`Progress`] that looks away.
pub fn quiet(_done: usize, _all: usize) {}

/// The instruction set that a configuration asks for, for code in memory (`pic` off) or for an object (`pic` on).
///
/// # Errors
/// If the target is unknown or unsupported.
pub fn isa(config: &Config, module_shares_memory: bool, pic: bool) -> Result<OwnedTargetIsa, Error> {
    let target = spinwise_emit::Target {
        triple: config.target.clone(),
        cpu: config.cpu,
        opt: config.opt,
        // Forwarding one plain load to another would change what a racing guest can see.
        alias_analysis: !module_shares_memory,
        verifier: config.verify || cfg!(debug_assertions),
    };
    Ok(spinwise_emit::isa(&target, pic)?)
}

/// Bytes to all that must be known before any function can be finished.
///
/// # Errors
/// If the module is not acceptable, or if `verify` is on and the guard's promise does not hold.
pub fn translate<'a>(wasm: &'a [u8], config: &Config) -> Result<Translation<'a>, Error> {
    let isa = isa(config, true, false)?;
    let host = isa.default_call_conv();
    let thunk = thunk_convention(&*isa, host);
    let frontend = isa.frontend_config();
    let relaxed = match config.relaxed_simd {
        RelaxedSimd::Fast => spinwise_lift::Relaxed::fast(&*isa),
        RelaxedSimd::Deterministic => spinwise_lift::Relaxed::DETERMINISTIC,
    };
    let lift_config = spinwise_lift::Config {
        frontend,
        host_call_conv: host,
        thunk_call_conv: thunk,
        features: config.features,
        relaxed,
    };
    let (source, outlines) = Source::survey(wasm, &lift_config, |func| Outline::new(&func))?;

    let budget = match config.opt {
        OptLevel::None => InlineBudget::NONE,
        OptLevel::Speed => InlineBudget::SPEED,
        OptLevel::Size => InlineBudget::SIZE,
    };
    let mut inlining = Inlining::decide(source.module(), &outlines, budget);
    drop(outlines);
    let copied = inlining.copied().par_iter();
    let bodies = copied.map_init(spinwise_lift::Scratch::default, |scratch, position| source.lift(*position, scratch));
    inlining.lend(bodies.collect::<Vec<_>>());

    let undecided = Plan { mode: config.guard, functions: Vec::new() };
    let mut this = Translation { source, inlining, plan: undecided, thunk, checked: None };
    let planner = Planner::new(this.module(), config.guard);
    let seen = this.map(Stage::Inlined, |_, func| planner.see(&func));
    this.plan = planner.plan(seen);
    if config.verify || cfg!(debug_assertions) {
        this.checked = Some(this.check()?);
    }
    Ok(this)
}

impl Translation<'_> {
    /// What the module declares.
    #[must_use]
    pub fn module(&self) -> &Module {
        self.source.module()
    }

    /// What is guarded, and why.
    #[must_use]
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// (callee, caller) pairs of calls that are inlined, ascending.
    #[must_use]
    pub fn inlined(&self) -> &[(FuncIndex, FuncIndex)] {
        self.inlining.pairs()
    }

    /// All defined functions, in index order, as they are after a stage.
    #[must_use]
    pub fn functions(&self, stage: Stage) -> Vec<ir::Function> {
        self.map(stage, |_, func| func)
    }

    /// Import stubs, host entries, host adapters, reference stubs and the poll thunk, with their guards.
    #[must_use]
    pub fn glue(&self) -> Vec<ir::Function> {
        let mut glue = self.source.glue();
        if self.plan.mode != GuardMode::Off {
            let borders = glue.iter_mut().filter(|func| polls_at_boundary(func));
            borders.for_each(|func| spinwise_guard::insert_boundary_poll(func, self.thunk));
        }
        glue
    }

    /// A defined function, by its position among them.
    fn function(&self, position: usize, stage: Stage, scratch: &mut Scratch) -> ir::Function {
        let func = self.source.lift(position, &mut scratch.lift);
        if stage == Stage::Lifted {
            return func;
        }
        let mut func = self.inlining.apply(position, func, &mut scratch.context);
        if stage == Stage::Guarded {
            spinwise_guard::insert(&mut func, &self.plan.functions[position], self.thunk);
        }
        func
    }

    /// Makes each defined function and hands it on, with its position; the answers come in index order.
    fn map<T: Send>(&self, stage: Stage, work: impl Fn(usize, ir::Function) -> T + Sync) -> Vec<T> {
        largest_first(self.source.body_sizes(), |position, scratch| {
            work(position, self.function(position, stage, scratch))
        })
    }

    /// Proves that the guards suffice.
    fn check(&self) -> Result<CheckReport, Error> {
        if self.plan.mode != GuardMode::Off {
            let glue = self.glue();
            let mut borders = glue.iter().filter(|func| polls_at_boundary(func));
            borders.try_for_each(spinwise_guard::check_boundary).map_err(Error::Boundary)?;
        }
        let checker = Checker::new(self.module(), self.plan.mode);
        let views =
            self.map(Stage::Guarded, |position, func| checker.see(self.plan.functions[position].function, &func));
        checker.check(views).map_err(Error::Guard)
    }

    /// Guarded functions and glue to machine code, all on the current thread pool.
    fn compile(&self, isa: &dyn TargetIsa, progress: Progress<'_>) -> Result<Vec<Compiled>, Error> {
        let names = self.module().func_names();
        let defined = &names[self.module().imported_functions as usize..];
        let glue = self.glue();
        let (done, all) = (AtomicUsize::new(0), glue.len() + defined.len());
        let compiler = Compiler::new(isa);
        let compile = |func, symbol, context: &mut Context| {
            let compiled = compiler.compile(Input { func, symbol }, context);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1, all);
            compiled
        };
        let functions = largest_first(self.source.body_sizes(), |position, scratch| {
            let func = self.function(position, Stage::Guarded, scratch);
            compile(func, defined[position].clone(), &mut scratch.context)
        });
        let glue: Vec<_> = glue
            .into_par_iter()
            .map_init(Context::new, |context, func| {
                let symbol = glue_name(&func, &names);
                compile(func, symbol, context)
            })
            .collect();
        glue.into_iter().chain(functions).map(|compiled| Ok(compiled?)).collect()
    }
}

/// Does `work` for each position of `sizes`, the largest first, so that no thread is left with a large one in the end;
/// the answers come in the order of positions.
fn largest_first<T: Send>(
    sizes: impl Iterator<Item = usize>,
    work: impl Fn(usize, &mut Scratch) -> T + Sync,
) -> Vec<T> {
    let mut order: Vec<(usize, usize)> = sizes.enumerate().collect();
    order.sort_by_key(|(_, size)| Reverse(*size));
    let next = AtomicUsize::new(0);
    let answers = rayon::broadcast(|_| {
        let mut scratch = Scratch::new();
        let mut answers = Vec::new();
        while let Some((position, _)) = order.get(next.fetch_add(1, Ordering::Relaxed)) {
            answers.push((*position, work(*position, &mut scratch)));
        }
        answers
    });
    let mut answers: Vec<_> = answers.into_iter().flatten().collect();
    answers.sort_unstable_by_key(|(position, _)| *position);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// What profilers and backtraces call a piece of glue.
fn glue_name(func: &ir::Function, names: &[String]) -> String {
    let ir::UserFuncName::User(name) = &func.name else { return String::from("spinwise glue") };
    match name.namespace {
        symbol::NS_FUNC => format!("import {}", names[name.index as usize]),
        symbol::NS_HOST_ENTRY => format!("host entry {}", name.index),
        symbol::NS_HOST_ADAPTER => format!("host adapter {}", name.index),
        symbol::NS_REFERENCE_STUB => format!("reference stub {}", name.index),
        _ => String::from("poll thunk"),
    }
}

/// Bytes to code in this process's memory, ready to run.
///
/// # Errors
/// As [`translate`]; also if code generation fails or there is no executable memory.
pub fn load(wasm: &[u8], config: &Config, progress: Progress<'_>) -> Result<(Module, CodeImage), Error> {
    let translation = translate(wasm, config)?;
    let isa = isa(config, translation.module().has_shared_memory(), false)?;
    let compiled = translation.compile(&*isa, progress)?;
    let module = translation.source.into_module();
    let image = spinwise_emit::load(&isa, &module, compiled, &spinwise_runtime::builtin_address)?;
    Ok((module, image))
}

/// Bytes to a relocatable object for the configuration's target.
///
/// # Errors
/// As [`translate`]; also if code generation fails or the target's object format cannot hold the result.
pub fn object(wasm: &[u8], config: &Config, progress: Progress<'_>) -> Result<Vec<u8>, Error> {
    let translation = translate(wasm, config)?;
    let isa = isa(config, translation.module().has_shared_memory(), true)?;
    let compiled = translation.compile(&*isa, progress)?;
    let guards = crate::explain::json(&translation).to_string();
    let module = translation.source.into_module();
    let prefix = object_prefix(&module);
    let tables = spinwise_emit::Tables { guards: guards.as_bytes(), metadata: &metadata(wasm, config) };
    Ok(spinwise_emit::object(&isa, &module, compiled, &prefix, tables)?)
}

/// The prefix of an object's global symbols: the module's own name, else `guest`.
fn object_prefix(module: &Module) -> String {
    module.name.clone().filter(|name| !name.is_empty()).unwrap_or_else(|| String::from("guest"))
}

/// Everything of the module but its code, which a runtime needs to instantiate it: version and settings as one JSON
/// line, then the module without its code and custom sections, as WebAssembly sections.
fn metadata(wasm: &[u8], config: &Config) -> Vec<u8> {
    let settings = serde_json::json!({
        "version": 1,
        "spinwise": env!("CARGO_PKG_VERSION"),
        "guard": format!("{:?}", config.guard).to_lowercase(),
    });
    let mut bytes = format!("{settings}\n").into_bytes();
    bytes.extend_from_slice(&crate::sections::without_code(wasm));
    bytes
}

/// Whether a piece of glue is a border between guest code and the rest, where threads poll.
fn polls_at_boundary(func: &ir::Function) -> bool {
    match &func.name {
        ir::UserFuncName::User(name) => symbol::BORDER.contains(&name.namespace),
        ir::UserFuncName::Testcase(_) => false,
    }
}

/// `PreserveAll` keeps the guest's registers over the cold call; on riscv64 without vectors its thunk would trap.
fn thunk_convention(isa: &dyn TargetIsa, host: CallConv) -> CallConv {
    match isa.triple().architecture {
        target_lexicon::Architecture::Riscv64(_) => host,
        _ => CallConv::PreserveAll,
    }
}
