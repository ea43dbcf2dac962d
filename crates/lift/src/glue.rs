//! The functions that connect guest code with what is outside it: import stubs, host entries, host adapters, reference
//! stubs, the poll thunk. What each one does is told in [`spinwise_model::symbol`].
//!
//! Invariants: no instruction of them has a wasm offset; each function type has at most one entry, adapter and reference
//! stub, under the smallest index of a type equal to it. Code that may call a reference to a host's function of a type has
//! the adapter and the stub of that type: only final types that stand alone can be a host's.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    AbiParam, Function, InstBuilder, Signature, StackSlotData, StackSlotKind, UserFuncName, Value, types,
};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use spinwise_model::context::{ImportedFunction, InstanceHeader, Layout, ReferenceContext, SLOT_SIZE, ThreadContext};
use spinwise_model::index::{FuncIndex, TypeIndex};
use spinwise_model::module::Module;
use spinwise_model::symbol::{Builtin, NS_FUNC, NS_HOST_ADAPTER, NS_HOST_ENTRY, NS_POLL_THUNK, NS_REFERENCE_STUB};
use spinwise_model::trap::TrapCode;
use spinwise_model::types::{FuncType, ValType};

use crate::abi::{CONSTANT, CONTEXT, cell_flags, clif_type, guest_signature, trap};
use crate::func::import_builtin;
use crate::{Config, exceptions};

/// All the glue a module needs: stubs by function index, entries and adapters by type index, the thunk.
pub(crate) fn glue(module: &Module, layout: &Layout, config: &Config) -> Vec<Function> {
    let mut scratch = FunctionBuilderContext::new();
    let imported = (0..module.imported_functions).map(FuncIndex);
    let stubs = imported.clone().map(Glue::ImportStub);
    let entries = distinct_types(module, module.defined_functions()).into_iter().map(Glue::HostEntry);
    let called = module.open_call_types().filter(|ty| module.types.stands_alone(*ty));
    let called = distinct(module, called);
    let adapters = &distinct_types(module, imported) | &called;
    let adapters = adapters.into_iter().map(Glue::HostAdapter);
    let referred = &distinct_types(module, only_hosts_refer_to(module)) | &called;
    let references = referred.into_iter().map(Glue::ReferenceStub);
    let all = stubs.chain(entries).chain(adapters).chain(references).chain([Glue::PollThunk]);
    all.map(|glue| build(glue, module, layout, config, &mut scratch)).collect()
}

/// Functions to which references exist, though code takes none.
fn only_hosts_refer_to(module: &Module) -> impl Iterator<Item = FuncIndex> {
    let taken = |func: &FuncIndex| module.address_taken.binary_search(func).is_ok();
    module.escaped.iter().copied().filter(move |func| !module.is_imported(*func) && !taken(func))
}

/// The types of these functions, as [`distinct`] gives them.
fn distinct_types(module: &Module, functions: impl Iterator<Item = FuncIndex>) -> BTreeSet<TypeIndex> {
    distinct(module, functions.map(|func| module.functions[func.index()].ty))
}

/// Function types, each under the smallest index of a type equal to it.
fn distinct(module: &Module, types: impl Iterator<Item = TypeIndex>) -> BTreeSet<TypeIndex> {
    let mut first = BTreeMap::new();
    for (index, ty) in module.types.functions() {
        first.entry(ty).or_insert(index);
    }
    types.map(|ty| first[module.types.func(ty)]).collect()
}

#[derive(Clone, Copy)]
enum Glue {
    ImportStub(FuncIndex),
    HostEntry(TypeIndex),
    HostAdapter(TypeIndex),
    ReferenceStub(TypeIndex),
    PollThunk,
}

fn build(
    glue: Glue,
    module: &Module,
    layout: &Layout,
    config: &Config,
    scratch: &mut FunctionBuilderContext,
) -> Function {
    let ty = |index: TypeIndex| module.types.func(index);
    let (namespace, index, signature) = match glue {
        Glue::ImportStub(func) => (NS_FUNC, func.0, guest_signature(module.func_type(func))),
        Glue::HostEntry(index) => (NS_HOST_ENTRY, index.0, entry_signature(config)),
        Glue::HostAdapter(index) => (NS_HOST_ADAPTER, index.0, guest_signature(ty(index))),
        Glue::ReferenceStub(index) => (NS_REFERENCE_STUB, index.0, guest_signature(ty(index))),
        Glue::PollThunk => (NS_POLL_THUNK, 0, thunk_signature(config)),
    };
    let mut function = Function::with_name_signature(UserFuncName::user(namespace, index), signature);
    let mut b = FunctionBuilder::new(&mut function, scratch);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    b.seal_block(block);
    let params = b.block_params(block).to_vec();
    match glue {
        Glue::ImportStub(func) => leave(&mut b, layout.imported_function(func), &params),
        Glue::ReferenceStub(_) => leave(&mut b, ReferenceContext::TARGET, &params),
        Glue::HostEntry(index) => host_entry(&mut b, ty(index), &params),
        Glue::HostAdapter(index) => host_adapter(&mut b, config, ty(index), &params),
        Glue::PollThunk => {
            let poll = import_builtin(&mut b, Builtin::Poll, config);
            b.ins().call(poll, &params);
            b.ins().return_(&[]);
        }
    }
    b.finalize(config.frontend);
    function
}

/// `fn(vmctx, code, args) -> exception`
fn entry_signature(config: &Config) -> Signature {
    let mut signature = Signature::new(config.host_call_conv);
    signature.params = vec![AbiParam::new(types::I64); 3];
    signature.returns = vec![AbiParam::new(types::I64)];
    signature
}

/// `fn(thread, site)`
fn thunk_signature(config: &Config) -> Signature {
    let mut signature = Signature::new(config.thunk_call_conv);
    signature.params = vec![AbiParam::new(types::I64), AbiParam::new(types::I32)];
    signature
}

/// Leaves guest code: checks the host's headroom, says who calls, and becomes the function that the context has at an offset:
/// what an import resolved to, or what a reference is to. It keeps no frame of its own, so that tail calls through it need no
/// stack; whoever ran meanwhile looks itself whether the thread was interrupted.
fn leave(b: &mut FunctionBuilder<'_>, target: i32, params: &[Value]) {
    let vmctx = params[0];
    let thread = b.ins().load(types::I64, CONSTANT, vmctx, InstanceHeader::THREAD);
    let limit = b.ins().load(types::I64, CONTEXT, thread, ThreadContext::STACK_LIMIT);
    let stack = b.ins().get_stack_pointer(types::I64);
    let overflow = b.ins().icmp(IntCC::UnsignedLessThan, stack, limit);
    b.ins().trapnz(overflow, trap(TrapCode::StackOverflow));
    b.ins().store(CONTEXT, vmctx, thread, ThreadContext::CALLER);

    let code = b.ins().load(types::I64, CONSTANT, vmctx, target + ImportedFunction::CODE);
    let callee = b.ins().load(types::I64, CONSTANT, vmctx, target + ImportedFunction::VMCTX);
    let signature = b.func.signature.clone();
    let signature = b.import_signature(signature);
    let mut args = params.to_vec();
    args[0] = callee;
    b.ins().return_call_indirect(signature, code, &args);
}

/// Enters guest code: parameters come and results go through the slots at `args`. Here what is thrown comes to an end.
fn host_entry(b: &mut FunctionBuilder<'_>, ty: &FuncType, params: &[Value]) {
    let &[vmctx, code, slots] = params else { unreachable!("an entry has three parameters") };
    let mut args = vec![vmctx];
    args.extend(load_slots(b, slots, &ty.params));
    let signature = b.import_signature(guest_signature(ty));
    let (returned, thrown) = (b.create_block(), b.create_block());
    let results: Vec<_> = ty.results.iter().map(|ty| b.append_block_param(returned, clif_type(*ty))).collect();
    let exception = b.append_block_param(thrown, types::I64);
    let table = exceptions::table(b.func, signature, returned, thrown);
    b.ins().try_call_indirect(code, &args, table);

    b.switch_to_block(returned);
    b.seal_block(returned);
    store_slots(b, slots, &ty.results, &results);
    let nothing = b.ins().iconst(types::I64, 0);
    b.ins().return_(&[nothing]);

    b.set_cold_block(thrown);
    b.switch_to_block(thrown);
    b.seal_block(thrown);
    b.ins().return_(&[exception]);
}

/// Calls a host function through the runtime.
fn host_adapter(b: &mut FunctionBuilder<'_>, config: &Config, ty: &FuncType, params: &[Value]) {
    let count = ty.params.len().max(ty.results.len()).max(1);
    let size = u32::try_from(count).expect("validation bounds parameters and results") * SLOT_SIZE.cast_unsigned();
    let slot = b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, size, 4));
    let slots = b.ins().stack_addr(types::I64, slot, 0);
    store_slots(b, slots, &ty.params, &params[1..]);
    let host_call = import_builtin(b, Builtin::HostCall, config);
    let call = b.ins().call(host_call, &[params[0], slots]);
    let answer = b.inst_results(call)[0];
    let (failed, returned) = (b.create_block(), b.create_block());
    b.ins().brif(answer, failed, &[], returned, &[]);

    b.set_cold_block(failed);
    b.switch_to_block(failed);
    b.seal_block(failed);
    let status = b.ins().icmp_imm_u(IntCC::Equal, answer, 1);
    b.ins().trapnz(status, trap(TrapCode::Pending));
    let throw = import_builtin(b, Builtin::HostThrow, config);
    b.ins().call(throw, &[answer]);
    // It does not return.
    b.ins().trap(trap(TrapCode::Unreachable));

    b.switch_to_block(returned);
    b.seal_block(returned);
    let results = load_slots(b, slots, &ty.results);
    b.ins().return_(&results);
}

fn load_slots(b: &mut FunctionBuilder<'_>, slots: Value, types: &[ValType]) -> Vec<Value> {
    slot_offsets().zip(types).map(|(at, ty)| b.ins().load(clif_type(*ty), cell_flags(*ty), slots, at)).collect()
}

fn store_slots(b: &mut FunctionBuilder<'_>, slots: Value, types: &[ValType], values: &[Value]) {
    for ((at, ty), value) in slot_offsets().zip(types).zip(values) {
        b.ins().store(cell_flags(*ty), *value, slots, at);
    }
}

fn slot_offsets() -> impl Iterator<Item = i32> {
    (0..).map(|slot| slot * SLOT_SIZE)
}
