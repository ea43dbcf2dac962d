//! Calls of functions and through tables.
//!
//! Invariant: a callee's first argument is the instance context it belongs to. A direct call of an imported function goes
//! to this module's import stub, which leaves guest code for it; an indirect one finds code and context in the reference.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Inst, InstBuilder, Value, types};
use spinwise_model::context::{FuncRef, InstanceHeader};
use spinwise_model::index::{FuncIndex, TableIndex, TypeIndex};
use spinwise_model::trap::TrapCode;
use wasmparser::Operator;

use crate::abi::{CONSTANT, CONTEXT, trap};
use crate::func::FuncCx;
use crate::table;

/// Lifts a call; `false` if the operator is not one.
pub(crate) fn translate(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    match op {
        Operator::Call { function_index } => call(cx, FuncIndex(*function_index)),
        Operator::CallIndirect { type_index, table_index } => {
            call_indirect(cx, TableIndex(*table_index), TypeIndex(*type_index));
        }
        _ => return false,
    }
    true
}

fn call(cx: &mut FuncCx<'_, '_>, func: FuncIndex) {
    let args = arguments(cx, cx.module.functions[func.index()].ty, cx.vmctx);
    let callee = cx.function(func);
    let call = cx.b.ins().call(callee, &args);
    push_results(cx, call);
}

fn call_indirect(cx: &mut FuncCx<'_, '_>, table: TableIndex, ty: TypeIndex) {
    let offset = cx.offset();
    cx.facts.indirect_calls.push((offset, (table, ty)));
    let index = cx.pop();
    let element = table::element(cx, table, index, TrapCode::UndefinedElement);
    let reference = cx.b.ins().load(types::I64, CONTEXT, element, 0);
    cx.b.ins().trapz(reference, trap(TrapCode::UninitializedElement));

    let ids = cx.load_context(types::I64, CONSTANT, InstanceHeader::TYPE_IDS);
    let at = i32::try_from(ty.0 * 4).expect("validation bounds the number of types");
    let expected = cx.b.ins().load(types::I32, CONSTANT, ids, at);
    // Constant, but only once the reference is known not to be null: these loads must stay behind the check.
    let fixed = CONTEXT.with_readonly();
    let actual = cx.b.ins().load(types::I32, fixed, reference, FuncRef::TYPE_ID);
    let differs = cx.b.ins().icmp(IntCC::NotEqual, actual, expected);
    cx.b.ins().trapnz(differs, trap(TrapCode::IndirectCallTypeMismatch));

    let code = cx.b.ins().load(types::I64, fixed, reference, FuncRef::CODE);
    let vmctx = cx.b.ins().load(types::I64, fixed, reference, FuncRef::VMCTX);
    let args = arguments(cx, ty, vmctx);
    let signature = cx.signature(ty);
    let call = cx.b.ins().call_indirect(signature, code, &args);
    push_results(cx, call);
}

/// Pops the arguments of a callee and puts its context before them.
fn arguments(cx: &mut FuncCx<'_, '_>, ty: TypeIndex, vmctx: Value) -> Vec<Value> {
    let count = cx.module.types.func(ty).params.len();
    cx.charge(count);
    let mut args = cx.pop_many(count);
    args.insert(0, vmctx);
    args
}

fn push_results(cx: &mut FuncCx<'_, '_>, call: Inst) {
    let results = cx.b.inst_results(call);
    cx.stack.extend_from_slice(results);
    let count = results.len();
    cx.charge(count);
}
