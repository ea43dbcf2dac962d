//! `spinwise run`: translates a module and runs it as a WASI command, or calls one of its exports.

use std::ffi::OsString;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use spinwise::module::Entity;
use spinwise::wasi::WasiCtx;
use spinwise::{Extern, Instance, Options, Process, Program, RunError, Store, Val};

use crate::args::{RunArgs, WaitPolicy};
use crate::exit::{BAD_MODULE, Failure, INTERRUPTED, IO, NO_INPUT, TIMEOUT, TRAP, USAGE, say};
use crate::progress::Progress;
use crate::{files, settings, values};

/// How long threads have to arrive after a timeout or Ctrl-C, before the process ends hard.
const GRACE: Duration = Duration::from_secs(2);

/// Runs the command.
pub(crate) fn run(args: &RunArgs) -> Result<(), Failure> {
    let config = settings::config(&args.translation);
    let wasi = wasi(args)?;
    let wasm = settings::module(&args.input)?;
    let progress = Progress::new();
    let program = spinwise::program_with_progress(&wasm, &config, &|done, all| progress.update(done, all))?;
    drop((progress, wasm));
    if perf_map_asked()? {
        spinwise::perf_map(&program)
            .map_err(|error| Failure::new(IO, format!("cannot write the perf map: {error}")))?;
    }

    let options = Options { wait: wait_policy(args.wait_policy), ..Options::default() };
    let process = Process::new(&options).map_err(|error| Failure::new(USAGE, error))?;
    let imports = spinwise::wasi_imports(&wasi, &program.module).map_err(failure)?;
    let imports = imports.resolve(&program.module).map_err(failure)?;
    let watch = Watch::start(&process, args.timeout)?;
    let outcome = execute(&process, &program, &imports, args);
    watch.finish(&process, outcome)
}

/// Instantiates and runs to the end of all threads.
fn execute(process: &Process, program: &Arc<Program>, imports: &[Extern], args: &RunArgs) -> Result<(), Failure> {
    let mut store = Store::new(process).map_err(failure)?;
    let instance = Instance::new(&mut store, program, imports).map_err(failure)?;
    let Some(name) = &args.invoke else {
        if program.module.export("_start").is_none() {
            return Err(Failure::new(BAD_MODULE, "the module exports no `_start`: name a function with --invoke"));
        }
        let code = process.run(&mut store, &instance, "_start").map_err(failure)?;
        // A process's code has eight bits.
        return if code == 0 {
            Ok(())
        } else {
            Err(Failure { code: (code & 0xff).to_le_bytes()[0], message: String::new() })
        };
    };
    let values = arguments(program, name, &args.args)?;
    if program.module.export("_initialize").is_some() && name != "_initialize" {
        instance.call(&mut store, "_initialize", &[]).map_err(failure)?;
    }
    let results = instance.call(&mut store, name, &values);
    let ended = process.end_reason();
    process.end(RunError::Exit(0));
    process.join_all();
    let results = match (results, ended) {
        (Err(RunError::Exit(0)), _) => Vec::new(),
        (results, _) => results.map_err(failure)?,
    };
    let text: String = results.iter().map(|value| values::print(value) + "\n").collect();
    files::write("-".as_ref(), text.as_bytes())
}

/// Whether the environment asks for a perf map.
fn perf_map_asked() -> Result<bool, Failure> {
    match std::env::var_os("SPINWISE_PERF_MAP") {
        None => Ok(false),
        Some(value) if value == "1" => Ok(true),
        Some(value) if value == "0" => Ok(false),
        Some(value) => Err(Failure::new(USAGE, format!("SPINWISE_PERF_MAP={}: it may be 0 or 1", value.display()))),
    }
}

/// The arguments of `--invoke`, one a parameter.
fn arguments(program: &Program, name: &str, args: &[OsString]) -> Result<Vec<Val>, Failure> {
    let module = &program.module;
    let Some(Entity::Function(func)) = module.export(name) else {
        return Err(Failure::new(BAD_MODULE, format!("the module exports no function `{name}`")));
    };
    let params = &module.func_type(func).params;
    if params.len() != args.len() {
        let plural = if params.len() == 1 { "" } else { "s" };
        let message = format!("`{name}` takes {} argument{plural}, {} given", params.len(), args.len());
        return Err(Failure::new(USAGE, message));
    }
    let parse = |(arg, ty): (&OsString, _)| values::parse(&arg.to_string_lossy(), ty);
    let values: Result<Vec<_>, String> = args.iter().zip(params.iter().copied()).map(parse).collect();
    values.map_err(|message| Failure::new(USAGE, message))
}

/// What the guest sees of this process.
fn wasi(args: &RunArgs) -> Result<Arc<WasiCtx>, Failure> {
    let usage = |message: String| Failure::new(USAGE, message);
    let mut builder = WasiCtx::builder().inherit_stdio();
    if args.invoke.is_none() {
        let name = args.input.file_name().unwrap_or(args.input.as_os_str());
        let all = std::iter::once(name).chain(args.args.iter().map(OsString::as_os_str));
        for arg in all {
            let arg = arg.to_str().ok_or_else(|| usage(format!("argument {} is not UTF-8", arg.display())))?;
            builder = builder.arg(arg);
        }
    }
    for pair in &args.env {
        let (name, value) = pair.split_once('=').ok_or_else(|| usage(format!("--env {pair}: write NAME=VALUE")))?;
        builder = builder.env(name, value);
    }
    for (flag, list, read_only) in [("--dir", &args.dir, false), ("--dir-ro", &args.dir_ro, true)] {
        for dir in list {
            let (host, guest) = dir.split_once("::").unwrap_or((dir, dir));
            if !Path::new(host).is_dir() {
                return Err(Failure::new(NO_INPUT, format!("{flag} {host}: no such directory")));
            }
            builder = builder.preopen(host, guest, read_only);
        }
    }
    builder.build().map(Arc::new).map_err(|error| Failure::new(IO, error))
}

fn wait_policy(policy: Option<WaitPolicy>) -> spinwise::WaitOverrides {
    let policy = policy.map(|policy| match policy {
        WaitPolicy::Passive => spinwise::WaitPolicy::Passive,
        WaitPolicy::Active => spinwise::WaitPolicy::Active,
        WaitPolicy::Hybrid => spinwise::WaitPolicy::Hybrid,
    });
    spinwise::WaitOverrides { policy, ..spinwise::WaitOverrides::default() }
}

/// How an error of a run ends the command.
fn failure(error: RunError) -> Failure {
    match &error {
        RunError::Trap(trap) => {
            let mut message = format!("trap: {trap}");
            for run in trap.frames[1.min(trap.frames.len())..].chunk_by(|a, b| a == b) {
                message += &format!("\n    called from {}", run[0]);
                if run.len() > 1 {
                    message += &format!(" ({} times)", run.len());
                }
            }
            Failure::new(TRAP, message)
        }
        RunError::Exit(code) => Failure { code: (code & 0xff).to_le_bytes()[0], message: String::new() },
        RunError::Link(_) => Failure::new(BAD_MODULE, error),
        RunError::Host(_) | RunError::Exception(_) => Failure::new(TRAP, error),
        RunError::Resource(_) | RunError::Usage(_) => Failure::new(BAD_MODULE, error),
    }
}

/// Ends the process on Ctrl-C or when its time is over; ends the command where threads do not follow.
struct Watch {
    /// The exit code of what ended the process from outside; 0 while nothing has.
    cause: Arc<AtomicU8>,
}

impl Watch {
    fn start(process: &Process, timeout: Option<Duration>) -> Result<Self, Failure> {
        let failed =
            |what: &str, error: &dyn std::fmt::Display| Failure::new(IO, format!("cannot watch {what}: {error}"));
        let cause = Arc::new(AtomicU8::new(0));
        let cancel = {
            let (process, cause) = (process.clone(), Arc::clone(&cause));
            move |code: u8| {
                if !process.has_ended() && cause.compare_exchange(0, code, Ordering::SeqCst, Ordering::SeqCst).is_ok() {
                    process.cancel();
                }
            }
        };
        let on_interrupt = cancel.clone();
        ctrlc::set_handler(move || on_interrupt(INTERRUPTED)).map_err(|e| failed("for Ctrl-C", &e))?;
        if let Some(timeout) = timeout {
            let wait = move || {
                std::thread::sleep(timeout);
                cancel(TIMEOUT);
            };
            std::thread::Builder::new().name("timeout".into()).spawn(wait).map_err(|e| failed("the time", &e))?;
        }
        let follow = {
            let (process, cause) = (process.clone(), Arc::clone(&cause));
            move || end_hard_if_stuck(&process, &cause)
        };
        std::thread::Builder::new().name("end".into()).spawn(follow).map_err(|e| failed("for the end", &e))?;
        Ok(Self { cause })
    }

    /// The outcome, unless the process was ended from outside.
    fn finish(self, process: &Process, outcome: Result<(), Failure>) -> Result<(), Failure> {
        match self.cause.load(Ordering::SeqCst) {
            0 => outcome,
            code => {
                report(process);
                Err(Failure { code, message: String::new() })
            }
        }
    }
}

/// Waits for the end of the process; if threads have not followed after the grace time, ends the command around them.
fn end_hard_if_stuck(process: &Process, cause: &AtomicU8) {
    use rustix::event::{PollFd, PollFlags, poll};
    let mut end = [PollFd::from_borrowed_fd(process.end_descriptor(), PollFlags::IN)];
    while !process.has_ended() {
        // Whatever ended the wait, the process says whether it is over.
        let _ = poll(&mut end, None);
    }
    if process.settle(GRACE) {
        return;
    }
    let outcome = process.end_reason().map(failure);
    let code = match (cause.load(Ordering::SeqCst), outcome) {
        (0, Some(Failure { code, message })) => {
            if !message.is_empty() {
                say(&format!("spinwise: {message}"));
            }
            code
        }
        (code, _) => code,
    };
    report(process);
    std::process::exit(code.into());
}

/// A line a thread: where it was interrupted, or which function it did not leave.
fn report(process: &Process) {
    for trap in process.interruptions() {
        let place = trap.frames.first().map_or_else(|| String::from("outside guest code"), ToString::to_string);
        say(&format!("interrupted: {place}"));
    }
    for straggler in process.stragglers() {
        let place = straggler.frame.map_or_else(|| String::from("a host function"), |frame| frame.to_string());
        say(&format!("not stoppable: {place}"));
    }
}
