//! One function body: its state while it is lifted, and the loop over its operators.
//!
//! Invariant: an operator is validated before it is lifted, so lifting never meets an ill-typed stack. Operators of dead
//! code are validated only. No recursion: nesting lives in `control`.
//!
//! Cost: linear in the body, apart from what SSA construction needs for locals (see [`crate::locals`]) and for operands
//! carried by branches and calls, which [`FuncCx::charge`] bounds.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use cranelift_codegen::ir::{
    ExtFuncData, ExternalName, FuncRef, Function, InstBuilder, MemFlagsData, SigRef, SourceLoc, Type, UserExternalName,
    UserFuncName, Value, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use spinwise_model::context::{InstanceHeader, Layout};
use spinwise_model::index::{FuncIndex, TableIndex, TypeIndex};
use spinwise_model::module::Module;
use spinwise_model::symbol::{Builtin, NS_BUILTIN, NS_FUNC};
use spinwise_model::trap::TrapCode;
use wasmparser::{
    FuncToValidate, FuncValidatorAllocations, FunctionBody, Operator, OperatorsReader, ValidatorResources,
};

use crate::abi::{CONSTANT, builtin_signature, guest_signature, trap};
use crate::control::Frame;
use crate::locals::Locals;
use crate::reference::Known;
use crate::{
    Config, atomics, bulk, call, cast, control, global, locals, memory, numeric, object, reference, simd, table,
    traced, wide,
};

/// Operands that the branches and calls of one function may carry in sum, and that its stack may hold, in dead code too.
/// A body of the largest size that names one operand in each of its bytes stays below; only multi-value types repeated
/// for their own sake reach it.
pub(crate) const MAX_OPERANDS: usize = 1 << 24;

/// One body.
pub(crate) struct Body<'a> {
    pub(crate) index: FuncIndex,
    pub(crate) validate: FuncToValidate<ValidatorResources>,
    pub(crate) code: FunctionBody<'a>,
}

impl Body<'_> {
    /// What validates it, anew.
    fn validate(&self) -> FuncToValidate<ValidatorResources> {
        let FuncToValidate { ref resources, index, ty, features } = self.validate;
        FuncToValidate { resources: resources.clone(), index, ty, features }
    }
}

/// What only the code tells about a module.
#[derive(Default)]
pub(crate) struct Facts {
    /// Functions named by `ref.func`.
    pub(crate) referenced: BTreeSet<FuncIndex>,
    /// Tables that the code writes.
    pub(crate) written_tables: BTreeSet<TableIndex>,
    /// Indirect calls, by the offset of their operators.
    pub(crate) indirect_calls: Vec<(u32, (TableIndex, TypeIndex))>,
    /// The types of calls by reference.
    pub(crate) reference_calls: BTreeSet<TypeIndex>,
}

/// Why a body cannot be lifted.
pub(crate) enum Failure {
    /// It is malformed, invalid, or needs a feature.
    Wasm(wasmparser::Error),
    /// Its branches and calls carry more than [`MAX_OPERANDS`] operands.
    Operands { offset: u64 },
    /// Validation admits an operator that no family lifts.
    Operator { name: String, offset: u64 },
}

impl fmt::Debug for Scratch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Scratch").finish_non_exhaustive()
    }
}

impl From<wasmparser::Error> for Failure {
    fn from(error: wasmparser::Error) -> Self {
        Self::Wasm(error)
    }
}

/// Memory reused from body to body.
#[derive(Default)]
pub struct Scratch {
    builder: FunctionBuilderContext,
    validator: FuncValidatorAllocations,
}

/// The function being lifted: where it has got to, and what it may look up.
pub(crate) struct FuncCx<'a, 'b> {
    /// The CLIF being built.
    pub(crate) b: FunctionBuilder<'b>,
    /// The module's tables.
    pub(crate) module: &'a Module,
    /// Where things lie in the instance context.
    pub(crate) layout: &'a Layout,
    /// Target and conventions.
    pub(crate) config: &'a Config,
    /// The instance context.
    pub(crate) vmctx: Value,
    /// The operand stack; see [`crate::stack`].
    pub(crate) stack: Vec<Value>,
    /// The open constructs; see [`crate::control`].
    pub(crate) control: Vec<Frame>,
    /// The places in [`FuncCx::control`] of constructs whose body, the code that is being lifted, they handle exceptions of.
    pub(crate) tries: Vec<usize>,
    /// In dead code: how many constructs were opened in it.
    pub(crate) dead: Option<usize>,
    /// What is known of the reference that the operator looks through.
    pub(crate) known: Known,
    /// Whether there are values that the collector must find.
    pub(crate) traces: bool,
    /// Parameters and locals.
    pub(crate) locals: Locals,
    /// What the code has told so far.
    pub(crate) facts: Facts,
    signatures: BTreeMap<TypeIndex, SigRef>,
    callees: BTreeMap<(u32, u32), FuncRef>,
    operands: usize,
}

/// Validates and lifts one body.
pub(crate) fn lift_body(
    module: &Module,
    layout: &Layout,
    config: &Config,
    body: &Body<'_>,
    scratch: &mut Scratch,
) -> Result<(Function, Facts), Failure> {
    let Body { index, code, .. } = body;
    let mut validator = body.validate().into_validator(std::mem::take(&mut scratch.validator));
    let mut reader = code.get_binary_reader();
    validator.read_locals(&mut reader)?;
    let mut reader = OperatorsReader::new(reader);

    let ty = module.functions[index.index()].ty;
    let name = UserFuncName::user(NS_FUNC, index.0);
    let mut function = Function::with_name_signature(name, guest_signature(module.types.func(ty)));
    // Given back only in the end: a builder that is dropped half-way leaves it unusable.
    let mut builder = std::mem::take(&mut scratch.builder);
    let mut b = FunctionBuilder::new(&mut function, &mut builder);
    b.set_srcloc(location(reader.original_position()));
    let entry = b.create_block();
    b.append_block_params_for_function_params(entry);
    b.switch_to_block(entry);
    b.seal_block(entry);
    let vmctx = b.block_params(entry)[0];
    let locals = Locals::declare(&mut b, module, ty, entry, code)?;
    let mut cx = FuncCx {
        b,
        module,
        layout,
        config,
        vmctx,
        stack: Vec::new(),
        control: vec![Frame::body(ty)],
        tries: Vec::new(),
        dead: None,
        known: Known::default(),
        traces: false,
        locals,
        facts: Facts::default(),
        signatures: BTreeMap::new(),
        callees: BTreeMap::new(),
        operands: 0,
    };
    while !reader.eof() {
        let (op, offset) = reader.read_with_offset()?;
        cx.known = Known::new(&op, &validator);
        validator.op(offset, &op)?;
        cx.b.set_srcloc(location(offset));
        if !translate(&mut cx, &op) {
            return Err(Failure::Operator { name: format!("{op:?}"), offset });
        }
        if cx.operands.max(validator.operand_stack_height() as usize) > MAX_OPERANDS {
            return Err(Failure::Operands { offset });
        }
    }
    reader.finish()?;
    let facts = std::mem::take(&mut cx.facts);
    let references = cx.locals.references();
    cx.b.finalize(config.frontend);
    if let Some(slot) = references {
        traced::name_everywhere(&mut function, slot);
    }
    scratch.builder = builder;
    scratch.validator = validator.into_allocations();
    Ok((function, facts))
}

/// Lifts one operator; `false` if no family knows it.
fn translate(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    control::translate(cx, op)
        || cx.dead.is_some()
        || locals::translate(cx, op)
        || numeric::translate(cx, op)
        || memory::translate(cx, op)
        || call::translate(cx, op)
        || global::translate(cx, op)
        || atomics::translate(cx, op)
        || bulk::translate(cx, op)
        || table::translate(cx, op)
        || reference::translate(cx, op)
        || object::translate(cx, op)
        || cast::translate(cx, op)
        || simd::translate(cx, op)
        || wide::translate(cx, op)
}

/// The source location of an offset. Modules are shorter than 4 GiB.
fn location(offset: u64) -> SourceLoc {
    SourceLoc::new(u32::try_from(offset).expect("longer modules are rejected before"))
}

impl FuncCx<'_, '_> {
    /// The byte offset of the operator being lifted.
    pub(crate) fn offset(&self) -> u32 {
        self.b.srcloc().bits()
    }

    /// Counts operands carried by a branch or a call. A body whose sum is too large is rejected after the operator.
    pub(crate) fn charge(&mut self, operands: usize) {
        self.operands = self.operands.saturating_add(operands);
    }

    /// Loads a field of the instance context.
    pub(crate) fn load_context(&mut self, ty: Type, flags: MemFlagsData, at: i32) -> Value {
        self.b.ins().load(ty, flags, self.vmctx, at)
    }

    /// The address of the thread context.
    pub(crate) fn thread(&mut self) -> Value {
        self.load_context(types::I64, CONSTANT, InstanceHeader::THREAD)
    }

    /// An `i32` constant: an index or another small immediate of a builtin.
    pub(crate) fn immediate(&mut self, value: u32) -> Value {
        self.b.ins().iconst(types::I32, i64::from(value))
    }

    /// An index, a length or a count of either index type, zero-extended to 64 bits.
    pub(crate) fn pop_u64(&mut self) -> Value {
        let v = self.pop();
        self.zero_extended(v)
    }

    /// An integer of either index type, zero-extended to 64 bits.
    pub(crate) fn zero_extended(&mut self, v: Value) -> Value {
        if self.b.func.dfg.value_type(v) == types::I64 { v } else { self.b.ins().uextend(types::I64, v) }
    }

    /// The guest signature of a type.
    pub(crate) fn signature(&mut self, ty: TypeIndex) -> SigRef {
        let (b, module) = (&mut self.b, self.module);
        *self.signatures.entry(ty).or_insert_with(|| b.import_signature(guest_signature(module.types.func(ty))))
    }

    /// A function of the module.
    pub(crate) fn function(&mut self, func: FuncIndex) -> FuncRef {
        if let Some(callee) = self.callees.get(&(NS_FUNC, func.0)) {
            return *callee;
        }
        let signature = self.signature(self.module.functions[func.index()].ty);
        let callee = import(&mut self.b, UserExternalName::new(NS_FUNC, func.0), signature, true);
        self.callees.insert((NS_FUNC, func.0), callee);
        callee
    }

    /// Calls a builtin. The result is its only one.
    pub(crate) fn call_builtin(&mut self, builtin: Builtin, args: &[Value]) -> Option<Value> {
        let key = (NS_BUILTIN, builtin.index());
        let callee = if let Some(callee) = self.callees.get(&key) {
            *callee
        } else {
            let callee = import_builtin(&mut self.b, builtin, self.config);
            self.callees.insert(key, callee);
            callee
        };
        self.charge_crossing();
        let call = self.b.ins().call(callee, args);
        self.b.inst_results(call).first().copied()
    }

    /// Calls a builtin that returns a status, and traps if it failed.
    pub(crate) fn call_fallible(&mut self, builtin: Builtin, args: &[Value]) {
        let status = self.call_builtin(builtin, args).expect("a status is a result");
        self.b.ins().trapnz(status, trap(TrapCode::Pending));
    }
}

/// Makes a builtin callable from a function.
pub(crate) fn import_builtin(b: &mut FunctionBuilder<'_>, builtin: Builtin, config: &Config) -> FuncRef {
    let signature = b.import_signature(builtin_signature(builtin, config.host_call_conv));
    import(b, UserExternalName::new(NS_BUILTIN, builtin.index()), signature, false)
}

fn import(b: &mut FunctionBuilder<'_>, name: UserExternalName, signature: SigRef, colocated: bool) -> FuncRef {
    let name = ExternalName::user(b.func.declare_imported_user_function(name));
    b.import_function(ExtFuncData { name, signature, colocated, patchable: false })
}
