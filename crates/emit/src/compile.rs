//! CLIF → relocatable machine code, one function at a time, on any thread.
//!
//! Invariant: a function's code depends on its CLIF and the target alone, so that the bytes are the same whatever the
//! number of threads. Its CLIF is freed as soon as it is compiled.
//!
//! Cost: nearly all of a build's time; memory is the code so far, plus one working set for each thread.

use std::fmt;
use std::mem;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};

use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir::{self, ExternalName, LibCall, UserExternalName, UserFuncName};
use cranelift_codegen::isa::{OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::OptLevel;
use cranelift_codegen::{CompiledCode, Context, FinalizedMachExceptionHandler, FinalizedRelocTarget};
use rayon::iter::{IndexedParallelIterator, IntoParallelIterator, ParallelIterator};
use spinwise_model::trap::TrapCode;
use target_lexicon::Architecture;

use crate::crowd;
use crate::error::Error;
use crate::nesting;
use crate::orient;

/// The wasm offset of code that comes from no wasm operator.
pub const NO_OFFSET: u32 = u32::MAX;

/// The type by which CLIF's stack maps name a slot that holds a number and, behind it, as many references.
const COUNTED_REFERENCES: ir::Type = ir::types::I32;

/// One function to compile.
#[derive(Debug)]
pub struct Input {
    /// Its code, named by one of the namespaces of [`spinwise_model::symbol`].
    pub func: ir::Function,
    /// Its name for profilers, linkers and messages. Need not be unique.
    pub symbol: String,
}

/// One function's machine code, not yet placed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Compiled {
    /// Which function it is.
    pub name: UserExternalName,
    /// [`Input::symbol`].
    pub symbol: String,
    /// Machine code, constants included.
    pub code: Box<[u8]>,
    /// Alignment of its first byte: a power of two.
    pub alignment: u32,
    /// Places that need an address, ascending by offset.
    pub relocations: Box<[Relocation]>,
    /// Instructions that may trap, ascending by offset.
    pub traps: Box<[Trap]>,
    /// Calls that have a handler for exceptions, ascending by offset.
    pub handlers: Box<[Handler]>,
    /// From code to wasm: (code offset, wasm offset) pairs, ascending; each holds until the next.
    pub offsets: Box<[(u32, u32)]>,
    /// Calls during which a collector must find references in the frame, ascending by offset.
    pub stack_maps: Box<[StackMap]>,
}

/// Where references lie in a frame during one call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StackMap {
    /// Where the call returns to, in bytes from the start of the function.
    pub offset: u32,
    /// What the stack pointer is below the frame pointer, in bytes.
    pub frame: u32,
    /// Offsets from the stack pointer of references, ascending.
    pub references: Box<[u32]>,
    /// Offsets from the stack pointer of numbers, behind each of which lie as many references.
    pub counted: Box<[u32]>,
}

/// A place in a function's code that needs an address.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Relocation {
    /// Where, in bytes from the start of the function.
    pub offset: u32,
    /// How the address is encoded.
    pub kind: Reloc,
    /// What is added to it.
    pub addend: i64,
    /// Whose address.
    pub callee: Callee,
}

/// What code refers to.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Callee {
    /// A function of the module, its glue, or a builtin.
    Function(UserExternalName),
    /// A helper that Cranelift calls where the CPU lacks an instruction.
    Helper(LibCall),
    /// A place in the same function.
    Within(u32),
}

/// An instruction that may trap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Trap {
    /// Where, in bytes from the start of the function.
    pub offset: u32,
    /// [`TrapCode::raw`].
    pub code: u8,
    /// Byte offset of the wasm operator in the module, or [`NO_OFFSET`].
    pub wasm_offset: u32,
}

/// A call whose caller handles exceptions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Handler {
    /// Where the call returns to, in bytes from the start of the function.
    pub offset: u32,
    /// Where an exception goes on, likewise.
    pub handler: u32,
    /// What the stack pointer is below the frame pointer there, in bytes.
    pub frame: u32,
}

/// Compiles functions for one target, on any number of threads.
pub struct Compiler<'a> {
    isa: &'a dyn TargetIsa,
    /// The target with settings for two ways in which a hostile function keeps the code generator busy for minutes.
    linear: OnceLock<Result<OwnedTargetIsa, Error>>,
    plain: OnceLock<Result<OwnedTargetIsa, Error>>,
}

impl fmt::Debug for Compiler<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Compiler").field("triple", self.isa.triple()).finish_non_exhaustive()
    }
}

impl<'a> Compiler<'a> {
    /// A compiler for a target.
    #[must_use]
    pub fn new(isa: &'a dyn TargetIsa) -> Self {
        Self { isa, linear: OnceLock::new(), plain: OnceLock::new() }
    }

    /// Compiles one function. `context` lends its allocations.
    ///
    /// # Errors
    /// If the target cannot do what the function needs, or the function is too large for it.
    pub fn compile(&self, input: Input, context: &mut Context) -> Result<Compiled, Error> {
        let spared = if crowd::is_crowded(&input.func) {
            self.linear.get_or_init(|| crowd::with_linear_allocation(self.isa))
        } else if nesting::is_deep(&input.func) {
            self.plain.get_or_init(|| crowd::with_setting(self.isa, "opt_level", "none"))
        } else {
            return compile_one(self.isa, context, input);
        };
        spared.as_ref().map_err(Error::clone).and_then(|isa| compile_one(&**isa, context, input))
    }
}

/// Compiles functions on rayon's threads; the result is in the order of `inputs`.
///
/// `progress` is called after each function with how many are done, from any thread.
///
/// # Errors
/// The error of the first function, in input order, that cannot be compiled.
pub fn compile(
    isa: &dyn TargetIsa,
    inputs: Vec<Input>,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Vec<Compiled>, Error> {
    let compiler = Compiler::new(isa);
    let done = AtomicUsize::new(0);
    let results: Vec<_> = inputs
        .into_par_iter()
        .with_max_len(1)
        .map_init(Context::new, |context, input| {
            let result = compiler.compile(input, context);
            progress(done.fetch_add(1, Ordering::Relaxed) + 1);
            result
        })
        .collect();
    results.into_iter().collect()
}

/// Compiles one function. `context` lends its allocations.
pub(crate) fn compile_one(isa: &dyn TargetIsa, context: &mut Context, input: Input) -> Result<Compiled, Error> {
    let Input { func, symbol } = input;
    let UserFuncName::User(name) = func.name.clone() else {
        return Err(Error::Compile { function: symbol, reason: "has no index, always a bug".to_owned() });
    };
    if !has_vectors(isa) && uses_vectors(&func) {
        let reason = format!("uses vectors, which `{}` does not have", isa.triple());
        return Err(Error::Compile { function: symbol, reason });
    }
    context.clear();
    context.func = func;
    if isa.flags().opt_level() != OptLevel::None {
        orient::exits_first(context);
    }
    let compiled = context.compile(isa, &mut ControlPlane::default()).map(|_| ());
    compiled.map_err(|error| Error::compile(&symbol, &error.inner))?;
    let code = context.take_compiled_code().expect("just compiled");
    let func = mem::replace(&mut context.func, ir::Function::new());
    extract(isa, &code, &func.params, name, symbol)
}

/// Whether the target can compile vector instructions: only riscv64 may lack them, and Cranelift panics there.
fn has_vectors(isa: &dyn TargetIsa) -> bool {
    !matches!(isa.triple().architecture, Architecture::Riscv64(_))
        || isa.isa_flags().iter().any(|flag| flag.name == "has_v" && flag.as_bool() == Some(true))
}

fn uses_vectors(func: &ir::Function) -> bool {
    func.dfg.values().any(|value| func.dfg.value_type(value).is_vector())
}

/// Takes what linking needs out of Cranelift's result, which is many times as large.
fn extract(
    isa: &dyn TargetIsa,
    code: &CompiledCode,
    params: &ir::function::FunctionParameters,
    name: UserExternalName,
    symbol: String,
) -> Result<Compiled, Error> {
    let buffer = &code.buffer;
    let failed = |reason: String| Error::Compile { function: symbol.clone(), reason };

    let mut relocations = buffer
        .relocs()
        .iter()
        .map(|reloc| {
            let callee = match &reloc.target {
                FinalizedRelocTarget::Func(offset) => Callee::Within(*offset),
                FinalizedRelocTarget::ExternalName(ExternalName::User(name)) => {
                    Callee::Function(params.user_named_funcs()[*name].clone())
                }
                FinalizedRelocTarget::ExternalName(ExternalName::LibCall(helper)) => Callee::Helper(*helper),
                FinalizedRelocTarget::ExternalName(other) => {
                    return Err(failed(format!("refers to {}, always a bug", other.display(None))));
                }
            };
            Ok(Relocation { offset: reloc.offset, kind: reloc.kind, addend: reloc.addend, callee })
        })
        .collect::<Result<Vec<_>, _>>()?;
    // A low half is found by the high half before it: the order of equal offsets must stay.
    relocations.sort_by_key(|reloc| reloc.offset);

    let locations = buffer.get_srclocs_sorted();
    let wasm_offset = |offset: u32| {
        let after = locations.partition_point(|location| location.start <= offset);
        let found = after.checked_sub(1).map(|at| &locations[at]).filter(|location| offset < location.end);
        found.map_or(NO_OFFSET, |location| location.loc.bits())
    };
    let mut traps = buffer
        .traps()
        .iter()
        .map(|trap| {
            let code = model_code(trap.code).ok_or_else(|| failed(format!("unknown trap {}", trap.code)))?;
            Ok(Trap { offset: trap.offset, code: code.raw(), wasm_offset: wasm_offset(trap.offset) })
        })
        .collect::<Result<Vec<_>, _>>()?;
    traps.sort_unstable_by_key(|trap| trap.offset);

    let mut handlers = Vec::new();
    for site in buffer.call_sites() {
        // Where a callee with handlers was inlined into a call with one, the callee's comes first.
        let (handler, frame) = match (site.exception_handlers.first(), site.frame_offset) {
            (None, _) => continue,
            (Some(FinalizedMachExceptionHandler::Default(handler)), Some(frame)) => (*handler, frame),
            (Some(other), _) => return Err(failed(format!("handles exceptions by {other:?}, always a bug"))),
        };
        handlers.push(Handler { offset: site.ret_addr, handler, frame });
    }
    handlers.sort_unstable_by_key(|handler| handler.offset);
    let stack_maps = buffer.user_stack_maps().iter().map(|(offset, frame, map)| {
        let of_type = |counted: bool| {
            let mut found: Vec<u32> = map
                .entries()
                .filter(|(ty, _)| (*ty == COUNTED_REFERENCES) == counted)
                .map(|(_, offset)| offset)
                .collect();
            found.sort_unstable();
            found.into_boxed_slice()
        };
        StackMap { offset: *offset, frame: *frame, references: of_type(false), counted: of_type(true) }
    });
    let mut stack_maps: Vec<StackMap> = stack_maps.collect();
    stack_maps.sort_unstable_by_key(|map| map.offset);

    let mut offsets: Vec<(u32, u32)> = Vec::with_capacity(locations.len());
    for location in locations.iter().filter(|location| !location.loc.is_default()) {
        if offsets.last().is_none_or(|last| last.1 != location.loc.bits()) {
            offsets.push((location.start, location.loc.bits()));
        }
    }

    Ok(Compiled {
        name,
        code: buffer.data().into(),
        alignment: buffer.alignment.max(isa.function_alignment().preferred),
        relocations: relocations.into(),
        traps: traps.into(),
        handlers: handlers.into(),
        offsets: offsets.into(),
        stack_maps: stack_maps.into(),
        symbol,
    })
}

/// The model's name for a trap code: its own travel as user codes, Cranelift's are mapped.
fn model_code(code: ir::TrapCode) -> Option<TrapCode> {
    match code {
        ir::TrapCode::STACK_OVERFLOW => Some(TrapCode::StackOverflow),
        ir::TrapCode::HEAP_OUT_OF_BOUNDS => Some(TrapCode::MemoryOutOfBounds),
        ir::TrapCode::INTEGER_OVERFLOW => Some(TrapCode::IntegerOverflow),
        ir::TrapCode::INTEGER_DIVISION_BY_ZERO => Some(TrapCode::IntegerDivideByZero),
        ir::TrapCode::BAD_CONVERSION_TO_INTEGER => Some(TrapCode::InvalidConversion),
        user => TrapCode::from_raw(user.as_raw().get()),
    }
}
