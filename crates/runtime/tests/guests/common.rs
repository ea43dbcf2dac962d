//! From text to a program, and a watchdog for tests that could hang.

use std::io::{self, Write};
use std::process::abort;
use std::sync::Arc;
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use cranelift_codegen::ir::UserFuncName;
use cranelift_codegen::isa::CallConv;
use spinwise_emit::{Input, OptLevel, Target};
use spinwise_guard::Mode;
use spinwise_model::symbol::BORDER;
use spinwise_model::trap::TrapCode;
use spinwise_runtime::{
    Error, Extern, Func, Imports, Instance, Options, Process, Program, Store, Val, builtin_address,
};

/// Translates a module without guards but those asked for.
pub(crate) fn program_with(text: &str, mode: Mode) -> Arc<Program> {
    let bytes = wat::parse_str(text).expect("text that parses");
    let target = Target { opt: OptLevel::Speed, verifier: true, ..Target::default() };
    let isa = spinwise_emit::isa(&target, false).expect("this machine");
    let thunk = CallConv::PreserveAll;
    let config = spinwise_lift::Config {
        frontend: isa.frontend_config(),
        host_call_conv: isa.default_call_conv(),
        thunk_call_conv: thunk,
        features: spinwise_lift::Features::default(),
        relaxed: spinwise_lift::Relaxed::DETERMINISTIC,
    };
    let lifted = spinwise_lift::lift(&bytes, &config).expect("a valid module");
    let (module, mut functions, mut glue) = (lifted.module, lifted.functions, lifted.glue);
    let plan = spinwise_guard::plan(&module, &functions, mode);
    for (func, plan) in functions.iter_mut().zip(&plan.functions) {
        spinwise_guard::insert(func, plan, thunk);
    }
    if mode != Mode::Off {
        for func in &mut glue {
            if matches!(&func.name, UserFuncName::User(name) if BORDER.contains(&name.namespace)) {
                spinwise_guard::insert_boundary_poll(func, thunk);
            }
        }
    }
    let inputs = functions.into_iter().chain(glue).map(|func| Input { symbol: func.name.to_string(), func });
    let compiled = spinwise_emit::compile(&*isa, inputs.collect(), &|_| ()).expect("code");
    let image = spinwise_emit::load(&isa, &module, compiled, &builtin_address).expect("executable memory");
    Program::new(Arc::new(module), Arc::new(image))
}

/// Translates a module as users get it.
pub(crate) fn program(text: &str) -> Arc<Program> {
    program_with(text, Mode::Spin)
}

pub(crate) fn process() -> Process {
    Process::new(&Options::default()).expect("a process")
}

/// A process with one store.
pub(crate) fn store() -> Store {
    Store::new(&process()).expect("a store")
}

/// An instance with imports by name.
pub(crate) fn instantiate(store: &mut Store, text: &str, imports: &[(&str, &str, Extern)]) -> Result<Instance, Error> {
    let program = program(text);
    let imports = named(imports).resolve(&program.module)?;
    Instance::new(store, &program, &imports)
}

pub(crate) fn named(imports: &[(&str, &str, Extern)]) -> Imports {
    let mut all = Imports::new();
    for (module, field, what) in imports {
        all.define(*module, *field, what.clone());
    }
    all
}

pub(crate) fn func(func: Func) -> Extern {
    Extern::Func(func)
}

/// The only result, an i32.
pub(crate) fn i32_of(results: &[Val]) -> i32 {
    match results {
        [Val::I32(value)] => *value,
        other => panic!("expected one i32, not {other:?}"),
    }
}

/// The trap's code, its function's name and its wasm offset.
pub(crate) fn place<T>(result: Result<T, Error>) -> (TrapCode, String, Option<u32>) {
    let error = result.err().expect("an error");
    let trap = error.trap().unwrap_or_else(|| panic!("expected a trap, not {error:?}"));
    let frame = trap.frames.first().unwrap_or_else(|| panic!("no frames: {trap:?}"));
    (trap.code, frame.function.clone(), frame.wasm_offset)
}

/// Runs a test that could hang; after so many seconds it fails, by ending the whole test program.
pub(crate) fn within<T: Send + 'static>(seconds: u64, test: impl FnOnce() -> T + Send + 'static) -> T {
    let (done, finished) = mpsc::channel();
    let worker = thread::spawn(move || {
        let result = test();
        let _nobody_listens_any_more = done.send(());
        result
    });
    if finished.recv_timeout(Duration::from_secs(seconds)) == Err(RecvTimeoutError::Timeout) {
        let _last_words = writeln!(io::stderr(), "{:?} hangs after {seconds} s", thread::current().name());
        abort();
    }
    match worker.join() {
        Ok(result) => result,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}
