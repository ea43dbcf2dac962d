//! References: where they come from, and what depends on whether they are null.
//!
//! Invariant: a reference is 64 bits, null is 0. What needs one that is not null tests it, unless validation knows already;
//! nothing relies on a fault at a low address.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use spinwise_model::index::FuncIndex;
use spinwise_model::trap::TrapCode;
use wasmparser::{AbstractHeapType, FuncValidator, HeapType, Operator, ValType, ValidatorResources};

use crate::abi::trap;
use crate::control;
use crate::func::FuncCx;

/// What validation knows of the reference that an operator looks through.
#[derive(Clone, Copy, Default)]
pub(crate) struct Known {
    /// It is not null.
    pub(crate) non_null: bool,
    /// It is null or to an object of the heap.
    pub(crate) object: bool,
}

impl Known {
    pub(crate) fn new(op: &Operator<'_>, validator: &FuncValidator<ValidatorResources>) -> Self {
        use Operator as Op;
        let depth = match op {
            Op::CallRef { .. }
            | Op::ReturnCallRef { .. }
            | Op::RefAsNonNull
            | Op::RefTestNonNull { .. }
            | Op::RefTestNullable { .. }
            | Op::RefCastNonNull { .. }
            | Op::RefCastNullable { .. }
            | Op::BrOnCast { .. }
            | Op::BrOnCastFail { .. }
            | Op::I31GetS
            | Op::I31GetU
            | Op::StructGet { .. }
            | Op::StructGetS { .. }
            | Op::StructGetU { .. }
            | Op::ArrayLen => 0,
            Op::StructSet { .. } | Op::ArrayGet { .. } | Op::ArrayGetS { .. } | Op::ArrayGetU { .. } => 1,
            Op::ArraySet { .. } => 2,
            Op::ArrayFill { .. } | Op::ArrayInitData { .. } | Op::ArrayInitElem { .. } => 3,
            _ => return Self::default(),
        };
        let Some(Some(ValType::Ref(ty))) = validator.get_operand_type(depth) else { return Self::default() };
        let object = match ty.heap_type() {
            HeapType::Abstract { ty, .. } => matches!(ty, AbstractHeapType::Struct | AbstractHeapType::Array),
            HeapType::Concrete(_) | HeapType::Exact(_) => true,
        };
        Self { non_null: !ty.is_nullable(), object }
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
    if !cx.known.non_null {
        check_non_null(cx, reference);
    }
    reference
}

/// Traps if a reference is null.
pub(crate) fn check_non_null(cx: &mut FuncCx<'_, '_>, reference: Value) {
    cx.b.ins().trapz(reference, trap(TrapCode::NullReference));
}

fn ref_func(cx: &mut FuncCx<'_, '_>, func: FuncIndex) {
    cx.facts.referenced.insert(func);
    let position = cx.module.escaped_position(func).expect("validation wants the reference declared");
    let at = cx.layout.func_ref(position);
    let address = cx.b.ins().iadd_imm_u(cx.vmctx, i64::from(at));
    cx.push(address);
}
