//! Calls of functions, through tables and by reference, tail calls too.
//!
//! Invariants: a callee's first argument is the instance context it belongs to. A direct call of an imported function goes
//! to this module's import stub, which leaves guest code for it; an indirect one finds code and context in the reference.
//! A tail call gives up its function's frame before the callee runs, so a chain of them needs no stack; its result type is
//! the function's own, as validation has seen to.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{self, Block, Inst, InstBuilder, MemFlagsData, Value, types};
use spinwise_model::context::FuncRef;
use spinwise_model::index::{FuncIndex, TableIndex, TypeIndex};
use spinwise_model::symbol::Builtin;
use spinwise_model::trap::TrapCode;
use spinwise_model::types::HeapType;
use wasmparser::Operator;

use crate::abi::{CONTEXT, trap};
use crate::cast::type_word;
use crate::control::{label, push_params};
use crate::func::FuncCx;
use crate::{exceptions, reference, table};

/// Lifts a call; `false` if the operator is not one.
pub(crate) fn translate(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    let (kind, callee) = match *op {
        Operator::Call { function_index } => (Kind::Call, direct(cx, FuncIndex(function_index))),
        Operator::ReturnCall { function_index } => (Kind::Tail, direct(cx, FuncIndex(function_index))),
        Operator::CallIndirect { type_index, table_index } => {
            (Kind::Call, in_table(cx, TableIndex(table_index), TypeIndex(type_index)))
        }
        Operator::ReturnCallIndirect { type_index, table_index } => {
            (Kind::Tail, in_table(cx, TableIndex(table_index), TypeIndex(type_index)))
        }
        Operator::CallRef { type_index } => (Kind::Call, by_reference(cx, TypeIndex(type_index))),
        Operator::ReturnCallRef { type_index } => (Kind::Tail, by_reference(cx, TypeIndex(type_index))),
        _ => return false,
    };
    call(cx, kind, callee);
    true
}

/// Whether the function goes on after a call.
#[derive(Clone, Copy)]
pub(crate) enum Kind {
    /// It takes the results.
    Call,
    /// It is over: the callee returns to its caller.
    Tail,
}

/// What is called, with its context.
pub(crate) struct Callee {
    ty: TypeIndex,
    code: Code,
    vmctx: Value,
}

/// Where the code is.
enum Code {
    Known(ir::FuncRef),
    At(Value),
}

/// A function of the module's index space.
fn direct(cx: &mut FuncCx<'_, '_>, func: FuncIndex) -> Callee {
    let ty = cx.module.functions[func.index()].ty;
    Callee { ty, code: Code::Known(cx.function(func)), vmctx: cx.vmctx }
}

/// Pops a table index: the function there, of that type.
fn in_table(cx: &mut FuncCx<'_, '_>, table: TableIndex, ty: TypeIndex) -> Callee {
    let offset = cx.offset();
    cx.facts.indirect_calls.push((offset, (table, ty)));
    let index = cx.pop();
    let element = table::element(cx, table, index, TrapCode::UndefinedElement);
    let reference = cx.b.ins().load(types::I64, CONTEXT, element, 0);
    cx.b.ins().trapz(reference, trap(TrapCode::UninitializedElement));

    check_type(cx, table, reference, ty);
    referenced(cx, reference, ty)
}

/// Traps unless a reference out of a table, not null, is to a function of a type: of that very one, or else of a subtype, where
/// there can be any.
fn check_type(cx: &mut FuncCx<'_, '_>, table: TableIndex, reference: Value, ty: TypeIndex) {
    let all = &cx.module.types;
    if let HeapType::Type(element) = cx.module.tables[table.index()].element.heap
        && all.is_subtype(element, ty)
    {
        return;
    }
    let is_final = all[ty].is_final;
    let expected = type_word(cx, ty);
    // Constant, but only once the reference is known not to be null: these loads must stay behind the check.
    let actual = cx.b.ins().load(types::I32, BEHIND_CHECK, reference, FuncRef::TYPE_ID);
    let differs = cx.b.ins().icmp(IntCC::NotEqual, actual, expected);
    if is_final {
        cx.b.ins().trapnz(differs, trap(TrapCode::IndirectCallTypeMismatch));
        return;
    }
    let (other, fits) = (cx.b.create_block(), cx.b.create_block());
    cx.b.set_cold_block(other);
    cx.b.ins().brif(differs, other, &[], fits, &[]);
    cx.b.switch_to_block(other);
    cx.b.seal_block(other);
    let is_subtype = cx.call_builtin(Builtin::IsSubtype, &[cx.vmctx, actual, expected]).expect("it answers");
    cx.b.ins().trapz(is_subtype, trap(TrapCode::IndirectCallTypeMismatch));
    cx.b.ins().jump(fits, &[]);
    cx.b.switch_to_block(fits);
    cx.b.seal_block(fits);
}

/// Pops a reference: the function it is to, of that type.
fn by_reference(cx: &mut FuncCx<'_, '_>, ty: TypeIndex) -> Callee {
    cx.facts.reference_calls.insert(ty);
    let reference = reference::pop_non_null(cx);
    referenced(cx, reference, ty)
}

/// What a reference that is not null refers to: a function of that type.
pub(crate) fn referenced(cx: &mut FuncCx<'_, '_>, reference: Value, ty: TypeIndex) -> Callee {
    let code = cx.b.ins().load(types::I64, BEHIND_CHECK, reference, FuncRef::CODE);
    let vmctx = cx.b.ins().load(types::I64, BEHIND_CHECK, reference, FuncRef::VMCTX);
    Callee { ty, code: Code::At(code), vmctx }
}

/// Pops the arguments of a callee and calls it.
pub(crate) fn call(cx: &mut FuncCx<'_, '_>, kind: Kind, callee: Callee) {
    let Callee { ty, code, vmctx } = callee;
    let args = arguments(cx, ty, vmctx);
    cx.charge_crossing();
    let signature = cx.signature(ty);
    match kind {
        Kind::Call => match exceptions::pad(cx) {
            Some(pad) => try_call(cx, ty, code, &args, pad),
            None => {
                let call = match code {
                    Code::Known(func) => cx.b.ins().call(func, &args),
                    Code::At(code) => cx.b.ins().call_indirect(signature, code, &args),
                };
                push_results(cx, ty, call);
            }
        },
        // Its frame is gone when the callee throws: no handler of this function is.
        Kind::Tail => {
            match code {
                Code::Known(func) => cx.b.ins().return_call(func, &args),
                Code::At(code) => cx.b.ins().return_call_indirect(signature, code, &args),
            };
            cx.dead = Some(0);
        }
    }
}

/// A call that ends its block: it returns to the next one, or goes to a pad with what was thrown.
fn try_call(cx: &mut FuncCx<'_, '_>, callee: TypeIndex, code: Code, args: &[Value], pad: Block) {
    let results = &cx.module.types.func(callee).results;
    let signature = cx.signature(callee);
    let next = label(cx, results);
    let table = exceptions::table(cx.b.func, signature, next, pad);
    match code {
        Code::Known(func) => cx.b.ins().try_call(func, args, table),
        Code::At(code) => cx.b.ins().try_call_indirect(code, args, table),
    };
    cx.b.switch_to_block(next);
    cx.b.seal_block(next);
    push_params(cx, next, results.len());
}

/// Flags of a load of what never changes from a reference that must first be known not to be null.
const BEHIND_CHECK: MemFlagsData = CONTEXT.with_readonly();

/// Pops the arguments of a callee and puts its context before them.
fn arguments(cx: &mut FuncCx<'_, '_>, ty: TypeIndex, vmctx: Value) -> Vec<Value> {
    let count = cx.module.types.func(ty).params.len();
    cx.charge(count);
    let mut args = cx.pop_many(count);
    args.insert(0, vmctx);
    args
}

fn push_results(cx: &mut FuncCx<'_, '_>, ty: TypeIndex, call: Inst) {
    let results = cx.b.inst_results(call).to_vec();
    cx.charge(results.len());
    for (value, ty) in results.into_iter().zip(&cx.module.types.func(ty).results) {
        cx.push_typed(value, *ty);
    }
}
