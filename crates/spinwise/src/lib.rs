//! Spinwise translates WebAssembly to native code so that no guest thread can spin out of reach.
//!
//! ```
//! use spinwise::{Config, Instance, Options, Process, Store, Val};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let wasm = spinwise::binary_form(
//!     br#"(module (func (export "add") (param i32 i32) (result i32) (i32.add (local.get 0) (local.get 1))))"#.to_vec(),
//! )?;
//! let program = spinwise::program(&wasm, &Config::default())?;
//! let process = Process::new(&Options::default())?;
//! let mut store = Store::new(&process)?;
//! let instance = Instance::new(&mut store, &program, &[])?;
//! let sum = instance.call(&mut store, "add", &[Val::I32(40), Val::I32(2)])?;
//! assert!(matches!(sum[..], [Val::I32(42)]));
//! # Ok(())
//! # }
//! ```
//!
//! [`pipeline`] holds the order of all stages; [`config::Config`] what can be chosen. What runs is
//! [`spinwise_runtime`], re-exported here as far as hosts need it. [`script`] runs WebAssembly spec scripts.

pub mod config;
mod error;
mod explain;
mod input;
pub mod pipeline;
pub mod script;
mod sections;

use std::sync::Arc;

pub use config::Config;
pub use error::Error;
pub use explain::{clif as clif_text, json as explain_json, text as explain_text};
pub use input::binary_form;
pub use pipeline::{Progress, Translation, object, quiet, translate};
pub use spinwise_emit::Error as EmitError;
pub use spinwise_model::{module, trap::TrapCode, types};
pub use spinwise_runtime::{
    AnyRef, Caller, Error as RunError, Exception, Extern, Func, Global, Imports, Instance, LinkError, Memory, Object,
    Options, Process, Program, Store, Table, Tag, Trap, Val, wasi,
};
pub use spinwise_team::{Overrides as WaitOverrides, Policy as WaitPolicy};

/// What a threaded WASI command imports: WASI preview 1, `wasi.thread-spawn` (with an argument of 64 bits for a module that
/// imports it so), and a new memory wherever it asks for one.
///
/// # Errors
/// If a memory cannot be had.
pub fn wasi_imports(context: &Arc<wasi::WasiCtx>, module: &module::Module) -> Result<Imports, RunError> {
    let mut imports = Imports::new();
    for (name, func) in wasi::imports_for(context, module) {
        imports.define(wasi::MODULE, name, Extern::Func(func));
    }
    imports.define("wasi", "thread-spawn", Extern::Func(spinwise_runtime::thread_spawn()));
    for import in &module.imports {
        match import.entity {
            module::Entity::Memory(index) => {
                let memory = Memory::new(module.memories[index.index()])?;
                imports.define(&import.module, &import.field, Extern::Memory(memory));
            }
            module::Entity::Function(index)
                if (import.module.as_str(), import.field.as_str()) == ("wasi", "thread-spawn")
                    && module.func_type(index).params == [types::ValType::I64] =>
            {
                let spawn = Extern::Func(spinwise_runtime::thread_spawn64());
                imports.define("wasi", "thread-spawn", spawn);
            }
            _ => {}
        }
    }
    Ok(imports)
}

/// Translates a module and places its code in memory, ready to be instantiated by any number of threads.
///
/// # Errors
/// If the module is not acceptable or its code cannot be generated.
pub fn program(wasm: &[u8], config: &Config) -> Result<Arc<Program>, Error> {
    program_with_progress(wasm, config, &quiet)
}

/// [`program`], telling `progress` about each compiled function.
///
/// # Errors
/// As [`program`].
pub fn program_with_progress(wasm: &[u8], config: &Config, progress: Progress<'_>) -> Result<Arc<Program>, Error> {
    let (module, image) = with_jobs(config.jobs, || pipeline::load(wasm, config, progress))??;
    Ok(Program::new(Arc::new(module), Arc::new(image)))
}

/// Tells profilers the names of a program's functions: appends them to `/tmp/perf-PID.map`, which `perf` reads.
///
/// # Errors
/// If the file cannot be written.
pub fn perf_map(program: &Program) -> std::io::Result<std::path::PathBuf> {
    spinwise_emit::perf_map(&program.image, &program.module.func_names())
}

/// Runs compiler work on that many threads; `None`: as many as the machine has.
///
/// # Errors
/// If the threads cannot be started.
pub fn with_jobs<T: Send>(jobs: Option<usize>, work: impl FnOnce() -> T + Send) -> Result<T, Error> {
    match jobs {
        None => Ok(work()),
        Some(jobs) => Ok(rayon::ThreadPoolBuilder::new().num_threads(jobs).build()?.install(work)),
    }
}
