//! The order of all stages, in one place: parse → lift → inline → analyse → guard → emit → load.
//!
//! No stage knows another; values are handed on here. Everything is deterministic: the same bytes and settings give the
//! same result, whatever the number of compiler threads.

use cranelift_codegen::ir;
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa, TargetIsa};
use rayon::prelude::*;
use spinwise_emit::{Compiled, InlineBudget, Input};
use spinwise_guard::{CheckReport, Plan};
use spinwise_model::image::CodeImage;
use spinwise_model::index::FuncIndex;
use spinwise_model::module::Module;
use spinwise_model::symbol;

use crate::config::{Config, GuardMode, OptLevel, RelaxedSimd};
use crate::error::Error;

/// A module with its guarded functions: all that the code generator needs.
#[derive(Debug)]
pub struct Translation {
    /// What the module declares.
    pub module: Module,
    /// Its defined functions, inlined and guarded, in index order.
    pub functions: Vec<ir::Function>,
    /// Import stubs, host entries, host adapters, reference stubs and the poll thunk.
    pub glue: Vec<ir::Function>,
    /// What was guarded, and why.
    pub plan: Plan,
    /// (callee, caller) pairs of calls that were inlined.
    pub inlined: Vec<(FuncIndex, FuncIndex)>,
    /// What the independent checker counted, where it ran.
    pub checked: Option<CheckReport>,
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

/// A point between two stages, for those who want to look at the functions there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Stage {
    /// Lifted, not yet inlined.
    Lifted,
    /// Inlined, not yet guarded.
    Inlined,
}

/// Bytes to guarded functions.
///
/// # Errors
/// If the module is not acceptable, or if `verify` is on and the guard's promise does not hold.
pub fn translate(wasm: &[u8], config: &Config) -> Result<Translation, Error> {
    translate_watched(wasm, config, &mut |_, _| ())
}

/// [`translate`], showing the defined functions at each [`Stage`].
///
/// # Errors
/// As [`translate`].
pub fn translate_watched(
    wasm: &[u8],
    config: &Config,
    watch: &mut dyn FnMut(Stage, &[ir::Function]),
) -> Result<Translation, Error> {
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
    let spinwise_lift::Lifted { module, mut functions, mut glue } = spinwise_lift::lift(wasm, &lift_config)?;

    watch(Stage::Lifted, &functions);
    let budget = match config.opt {
        OptLevel::None => InlineBudget::NONE,
        OptLevel::Speed => InlineBudget::SPEED,
        OptLevel::Size => InlineBudget::SIZE,
    };
    let inlined = spinwise_emit::inline(&module, &mut functions, budget);
    watch(Stage::Inlined, &functions);
    let plan = spinwise_guard::plan(&module, &functions, config.guard);
    functions.par_iter_mut().zip(&plan.functions).for_each(|(func, plan)| spinwise_guard::insert(func, plan, thunk));
    if config.guard != GuardMode::Off {
        glue.iter_mut()
            .filter(|func| polls_at_boundary(func))
            .for_each(|func| spinwise_guard::insert_boundary_poll(func, thunk));
    }

    let checked = if config.verify || cfg!(debug_assertions) {
        let mut boundary = glue.iter().filter(|func| config.guard != GuardMode::Off && polls_at_boundary(func));
        boundary.try_for_each(spinwise_guard::check_boundary).map_err(Error::Boundary)?;
        Some(spinwise_guard::check(&module, &functions, config.guard).map_err(Error::Guard)?)
    } else {
        None
    };
    Ok(Translation { module, functions, glue, plan, inlined, checked })
}

/// Guarded functions to machine code, all on the current thread pool.
fn compile(
    translation: Translation,
    isa: &dyn TargetIsa,
    progress: Progress<'_>,
) -> Result<(Module, Vec<Compiled>), Error> {
    let Translation { module, functions, glue, .. } = translation;
    let names = module.func_names();
    let inputs: Vec<Input> = glue
        .into_iter()
        .map(|func| Input { symbol: glue_name(&func, &names), func })
        .chain(
            functions
                .into_iter()
                .zip(&names[module.imported_functions as usize..])
                .map(|(func, name)| Input { func, symbol: name.clone() }),
        )
        .collect();
    let all = inputs.len();
    let compiled = spinwise_emit::compile(isa, inputs, &|done| progress(done, all))?;
    Ok((module, compiled))
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
    let isa = isa(config, translation.module.has_shared_memory(), false)?;
    let (module, compiled) = compile(translation, &*isa, progress)?;
    let image = spinwise_emit::load(&isa, &module, compiled, &spinwise_runtime::builtin_address)?;
    Ok((module, image))
}

/// Bytes to a relocatable object for the configuration's target.
///
/// # Errors
/// As [`translate`]; also if code generation fails or the target's object format cannot hold the result.
pub fn object(wasm: &[u8], config: &Config, progress: Progress<'_>) -> Result<Vec<u8>, Error> {
    let translation = translate(wasm, config)?;
    let isa = isa(config, translation.module.has_shared_memory(), true)?;
    let guards = crate::explain::json(&translation).to_string();
    let prefix = object_prefix(&translation.module);
    let (module, compiled) = compile(translation, &*isa, progress)?;
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
