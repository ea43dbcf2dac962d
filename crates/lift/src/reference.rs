//! References: where they come from, and what depends on whether they are null.
//!
//! Invariant: a reference is 64 bits, null is 0. What needs one that is not null tests it, unless validation knows already;
//! nothing relies on a fault at a low address.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use spinwise_model::index::FuncIndex;
use spinwise_model::trap::TrapCode;
use wasmparser::{FuncValidator, Operator, ValType, ValidatorResources};

use crate::abi::trap;
use crate::control;
use crate::func::FuncCx;

/// Whether validation knows that the reference that an operator needs is not null.
pub(crate) fn is_known_non_null(op: &Operator<'_>, validator: &FuncValidator<ValidatorResources>) -> bool {
    let depth = match op {
        Operator::CallRef { .. } | Operator::ReturnCallRef { .. } | Operator::RefAsNonNull => 0,
        _ => return false,
    };
    match validator.get_operand_type(depth) {
        Some(Some(ValType::Ref(ty))) => !ty.is_nullable(),
        _ => false,
    }
}

/// Lifts an operator on references; `false` if it is not one.
pub(crate) fn translate(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    match *op {
        Operator::RefNull { .. } => {
            let null = cx.b.ins().iconst(types::I64, 0);
            cx.push(null);
        }
        Operator::RefIsNull => {
            let reference = cx.pop();
            let null = cx.b.ins().icmp_imm_u(IntCC::Equal, reference, 0);
            cx.push(null);
        }
        Operator::RefFunc { function_index } => ref_func(cx, FuncIndex(function_index)),
        Operator::RefAsNonNull => {
            let reference = pop_non_null(cx);
            cx.push(reference);
        }
        Operator::BrOnNull { relative_depth } => {
            let reference = cx.pop();
            control::branch_unless(cx, relative_depth, reference, None);
            cx.push(reference);
        }
        Operator::BrOnNonNull { relative_depth } => {
            let reference = cx.pop();
            control::branch_if(cx, relative_depth, reference, Some(reference));
        }
        _ => return false,
    }
    true
}

/// Pops a reference, and traps if it is null.
pub(crate) fn pop_non_null(cx: &mut FuncCx<'_, '_>) -> Value {
    let reference = cx.pop();
    if !cx.known_non_null {
        cx.b.ins().trapz(reference, trap(TrapCode::NullReference));
    }
    reference
}

fn ref_func(cx: &mut FuncCx<'_, '_>, func: FuncIndex) {
    cx.facts.referenced.insert(func);
    let position = cx.module.escaped_position(func).expect("validation wants the reference declared");
    let at = cx.layout.func_ref(position);
    let address = cx.b.ins().iadd_imm_u(cx.vmctx, i64::from(at));
    cx.push(address);
}
