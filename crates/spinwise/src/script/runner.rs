//! Directives one after another; a script's threads as real threads that share only the memories they are lent.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::thread::{self, Scope, ScopedJoinHandle};

use spinwise_model::trap::TrapCode;
use spinwise_runtime::{Error as RunError, Extern, Imports, Instance, Options, Process, Program, Store, Val};
use wast::token::{Id, Span};
use wast::{QuoteWat, Wast, WastDirective, WastExecute, WastInvoke, WastThread, Wat};

use super::{Finding, Report, expect, spectest, values};
use crate::config::Config;

/// Why an action did not give values.
enum Failure {
    /// The module was rejected before it could run.
    Rejected(crate::Error),
    /// It was not linked, it trapped, or it could not run.
    Run(RunError),
    /// The script asks for something that is not there.
    Script(String),
    /// The script asks for something that we do not have, and says nothing about us by it.
    Skip(String),
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        Self::Run(error)
    }
}

impl From<crate::Error> for Failure {
    fn from(error: crate::Error) -> Self {
        Self::Rejected(error)
    }
}

impl Failure {
    fn text(&self) -> String {
        match self {
            Self::Rejected(error) => error.to_string(),
            Self::Run(error) => error.to_string(),
            Self::Script(message) | Self::Skip(message) => message.clone(),
        }
    }
}

/// What an instance exports, by name.
type Exports = BTreeMap<String, Extern>;

/// Runs a parsed script.
pub(super) fn run(script: Wast<'_>, text: &str, config: &Config) -> Report {
    thread::scope(|scope| run_thread(scope, text, config, BTreeMap::new(), script.directives))
}

/// Runs a script, or one thread of it with the instances it is lent.
fn run_thread<'scope, 'env>(
    scope: &'scope Scope<'scope, 'env>,
    text: &'env str,
    config: &'env Config,
    lent: BTreeMap<String, Exports>,
    directives: Vec<WastDirective<'env>>,
) -> Report {
    match Runner::new(scope, text, config) {
        Ok(runner) => Runner { instances: lent, ..runner }.all(directives),
        Err(error) => {
            let message = format!("cannot start: {error}");
            Report { failed: vec![Finding { line: 1, message }], ..Report::default() }
        }
    }
}

/// The state of a script, or of one of its threads.
struct Runner<'scope, 'env> {
    scope: &'scope Scope<'scope, 'env>,
    text: &'env str,
    config: &'env Config,
    store: Store,
    definitions: BTreeMap<String, Arc<Program>>,
    last_definition: Option<Arc<Program>>,
    instances: BTreeMap<String, Exports>,
    last: Exports,
    registered: BTreeMap<String, Exports>,
    threads: BTreeMap<String, ScopedJoinHandle<'scope, Report>>,
    report: Report,
}

impl<'scope, 'env> Runner<'scope, 'env> {
    fn new(scope: &'scope Scope<'scope, 'env>, text: &'env str, config: &'env Config) -> Result<Self, RunError> {
        let mut registered = BTreeMap::new();
        registered.insert("spectest".to_owned(), spectest::exports()?);
        Ok(Self {
            scope,
            text,
            config,
            store: Store::new(&Process::new(&Options::default())?)?,
            definitions: BTreeMap::new(),
            last_definition: None,
            instances: BTreeMap::new(),
            last: Exports::new(),
            registered,
            threads: BTreeMap::new(),
            report: Report::default(),
        })
    }

    fn all(mut self, directives: Vec<WastDirective<'env>>) -> Report {
        for directive in directives {
            let line = self.line(directive.span());
            let assertion = is_assertion(&directive);
            match self.step(directive) {
                Ok(()) if assertion => self.report.passed += 1,
                Ok(()) => {}
                Err(Failure::Skip(message)) => self.report.skipped.push(Finding { line, message }),
                Err(failure) => self.fail(line, failure.text()),
            }
        }
        // A thread that the script never waits for still counts.
        for (_, thread) in std::mem::take(&mut self.threads) {
            self.join(thread);
        }
        self.report
    }

    fn line(&self, span: Span) -> usize {
        span.linecol_in(self.text).0 + 1
    }

    fn fail(&mut self, line: usize, message: String) {
        self.report.failed.push(Finding { line, message });
    }

    fn join(&mut self, thread: ScopedJoinHandle<'scope, Report>) {
        match thread.join() {
            Ok(report) => self.report.add(report),
            Err(_) => self.fail(0, String::from("a script thread panicked")),
        }
    }

    fn step(&mut self, directive: WastDirective<'env>) -> Result<(), Failure> {
        match directive {
            WastDirective::Module(mut module) => {
                let name = module_name(&module);
                let program = self.program(&mut module)?;
                self.keep(name, &program)
            }
            WastDirective::ModuleDefinition(mut module) => {
                let program = self.program(&mut module)?;
                if let Some(name) = module_name(&module) {
                    self.definitions.insert(name, Arc::clone(&program));
                }
                self.last_definition = Some(program);
                Ok(())
            }
            WastDirective::ModuleInstance { instance, module, .. } => {
                let program = match module {
                    Some(id) => self.definitions.get(id.name()),
                    None => self.last_definition.as_ref(),
                };
                let program =
                    program.cloned().ok_or_else(|| Failure::Script(String::from("no such module definition")))?;
                self.keep(instance.map(|id| id.name().to_owned()), &program)
            }
            WastDirective::Register { name, module, .. } => {
                let exports = self.exports(module)?.clone();
                self.registered.insert(name.to_owned(), exports);
                Ok(())
            }
            WastDirective::Invoke(invoke) => self.invoke(&invoke).map(drop),
            WastDirective::AssertReturn { exec, results, .. } => {
                let values = self.execute(exec)?;
                let right =
                    values.len() == results.len() && values.iter().zip(&results).all(|(v, e)| values::matches(v, e));
                if right { Ok(()) } else { Err(Failure::Script(format!("got {values:?}, expected {results:?}"))) }
            }
            WastDirective::AssertTrap { exec, message, .. } => {
                let outcome = self.execute(exec);
                self.trapped(outcome, expect::codes(message), message)
            }
            WastDirective::AssertExhaustion { call, message, .. } => {
                let outcome = self.invoke(&call);
                self.trapped(outcome, &[TrapCode::StackOverflow], message)
            }
            WastDirective::AssertInvalid { mut module, .. } | WastDirective::AssertMalformed { mut module, .. } => {
                match self.program(&mut module) {
                    Err(Failure::Rejected(_)) => Ok(()),
                    Err(other) => Err(other),
                    Ok(_) => Err(Failure::Script(String::from("the module was accepted"))),
                }
            }
            WastDirective::AssertUnlinkable { module, message, .. } => {
                let program = self.program(&mut QuoteWat::Wat(module))?;
                match self.instantiate(&program) {
                    Err(Failure::Run(RunError::Link(_))) => Ok(()),
                    // Before segments were applied one by one, those that do not fit kept a module from being linked.
                    Err(Failure::Run(RunError::Trap(trap))) if expect::codes(message).contains(&trap.code) => Ok(()),
                    Err(other) => Err(Failure::Script(format!("not a link error: {}", other.text()))),
                    Ok(_) => Err(Failure::Script(String::from("the module was linked"))),
                }
            }
            WastDirective::Thread(thread) => self.spawn(thread),
            WastDirective::Wait { thread, .. } => {
                let thread = self.threads.remove(thread.name());
                let thread = thread.ok_or_else(|| Failure::Script(String::from("no such thread")))?;
                self.join(thread);
                Ok(())
            }
            WastDirective::AssertInvalidCustom { .. } | WastDirective::AssertMalformedCustom { .. } => {
                Err(Failure::Skip(String::from("custom sections do not reach the compiler")))
            }
            WastDirective::AssertException { exec, .. } => match self.execute(exec) {
                Err(Failure::Run(RunError::Exception(_))) => Ok(()),
                Err(other) => Err(Failure::Script(format!("no exception: {}", other.text()))),
                Ok(values) => Err(Failure::Script(format!("no exception, but {values:?}"))),
            },
            WastDirective::AssertSuspension { .. } => Err(Failure::Skip(String::from("suspensions are not supported"))),
        }
    }

    /// A module as code. What the text parser rejects counts as rejected, as what validation rejects does.
    fn program(&self, module: &mut QuoteWat<'_>) -> Result<Arc<Program>, Failure> {
        let wasm = module.encode().map_err(|e| crate::Error::Text(crate::input::one_line(&e.to_string())))?;
        Ok(crate::program(&wasm, self.config)?)
    }

    /// Instantiates, and remembers the instance under its name and as the last one.
    fn keep(&mut self, name: Option<String>, program: &Arc<Program>) -> Result<(), Failure> {
        let instance = self.instantiate(program)?;
        let exports: Exports = program
            .module
            .exports
            .iter()
            .filter_map(|export| Some((export.name.clone(), instance.export(&export.name)?)))
            .collect();
        if let Some(name) = name {
            self.instances.insert(name, exports.clone());
        }
        self.last = exports;
        Ok(())
    }

    fn instantiate(&mut self, program: &Arc<Program>) -> Result<Instance, Failure> {
        let mut imports = Imports::new();
        for import in &program.module.imports {
            // Several engines' scripts rely on a named instance being registered under its name.
            let from = self.registered.get(&import.module).or_else(|| self.instances.get(&import.module));
            if let Some(found) = from.and_then(|exports| exports.get(&import.field)) {
                imports.define(&import.module, &import.field, found.clone());
            }
        }
        let imports = imports.resolve(&program.module)?;
        Ok(Instance::new(&mut self.store, program, &imports)?)
    }

    fn exports(&self, module: Option<Id<'_>>) -> Result<&Exports, Failure> {
        let Some(id) = module else { return Ok(&self.last) };
        self.instances.get(id.name()).ok_or_else(|| Failure::Script(format!("no instance ${}", id.name())))
    }

    fn execute(&mut self, action: WastExecute<'_>) -> Result<Vec<Val>, Failure> {
        match action {
            WastExecute::Invoke(invoke) => self.invoke(&invoke),
            WastExecute::Wat(module) => {
                let program = self.program(&mut QuoteWat::Wat(module))?;
                self.instantiate(&program).map(|_| Vec::new())
            }
            WastExecute::Get { module, global, .. } => match self.exports(module)?.get(global).cloned() {
                Some(Extern::Global(global)) => Ok(vec![global.get(&mut self.store)?]),
                _ => Err(Failure::Script(format!("no global `{global}`"))),
            },
        }
    }

    fn invoke(&mut self, invoke: &WastInvoke<'_>) -> Result<Vec<Val>, Failure> {
        let Some(Extern::Func(func)) = self.exports(invoke.module)?.get(invoke.name).cloned() else {
            return Err(Failure::Script(format!("no function `{}`", invoke.name)));
        };
        let args: Result<Vec<_>, _> = invoke.args.iter().map(values::argument).collect();
        Ok(func.call(&mut self.store, &args.map_err(Failure::Skip)?)?)
    }

    /// An action must have trapped with one of these codes.
    fn trapped(&self, outcome: Result<Vec<Val>, Failure>, codes: &[TrapCode], message: &str) -> Result<(), Failure> {
        if codes.is_empty() {
            return Err(Failure::Script(format!("unknown trap message `{message}`")));
        }
        match outcome {
            Err(Failure::Run(RunError::Trap(trap))) if codes.contains(&trap.code) => Ok(()),
            Err(other) => Err(Failure::Script(format!("expected `{message}`, got `{}`", other.text()))),
            Ok(values) => Err(Failure::Script(format!("expected `{message}`, got {values:?}"))),
        }
    }

    /// Starts a script thread: it sees nothing of this one but the memories of the instance it is lent.
    fn spawn(&mut self, thread: WastThread<'env>) -> Result<(), Failure> {
        let mut lent = BTreeMap::new();
        if let Some(id) = thread.shared_module {
            let memories = self.exports(Some(id))?.iter().filter(|(_, e)| matches!(e, Extern::Memory(_)));
            let memories: Exports = memories.map(|(name, e)| (name.clone(), e.clone())).collect();
            lent.insert(id.name().to_owned(), memories);
        }
        let name = thread.name.name().to_owned();
        let Self { scope, text, config, .. } = *self;
        let handle = scope.spawn(move || run_thread(scope, text, config, lent, thread.directives));
        self.threads.insert(name, handle);
        Ok(())
    }
}

fn module_name(module: &QuoteWat<'_>) -> Option<String> {
    match module {
        QuoteWat::Wat(Wat::Module(module)) => module.id.map(|id| id.name().to_owned()),
        _ => module.name().map(|id| id.name().to_owned()),
    }
}

/// Whether a directive counts as an assertion.
fn is_assertion(directive: &WastDirective<'_>) -> bool {
    matches!(
        directive,
        WastDirective::AssertReturn { .. }
            | WastDirective::AssertTrap { .. }
            | WastDirective::AssertExhaustion { .. }
            | WastDirective::AssertException { .. }
            | WastDirective::AssertInvalid { .. }
            | WastDirective::AssertMalformed { .. }
            | WastDirective::AssertUnlinkable { .. }
    )
}
