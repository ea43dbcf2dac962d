//! What a reference is to: tests, casts, branches on them; `i31`; comparison.
//!
//! Invariant: the low bits of a reference say whether it is an object before anything is loaded through it; an object's first
//! word says of which type. A type that can have no subtypes is compared by that word alone; of any other, only an object of
//! a type that is not that very one asks the runtime.
//!
//! Cost: up to three tests and a load; the call for a subtype's object.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, BlockArg, InstBuilder, Value, types};
use spinwise_model::context::{FuncRef, InstanceHeader};
use spinwise_model::heap::{ARRAY, HOST, I31, KIND, NO_OBJECT, STRUCT, WORD};
use spinwise_model::index::TypeIndex;
use spinwise_model::symbol::Builtin;
use spinwise_model::trap::TrapCode;
use spinwise_model::types::{CompositeType, HeapType, RefType};
use wasmparser::Operator;

use crate::abi::{CONSTANT, CONTEXT, trap};
use crate::control;
use crate::func::FuncCx;
use crate::reference::pop_non_null;
use crate::types::{heap_type, ref_type};

/// Lifts an operator on what references are to; `false` if it is not one.
pub(crate) fn translate(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    use Operator as Op;
    let to = |nullable, heap| RefType { nullable, heap: heap_type(heap).expect("validated heap type") };
    match *op {
        Op::RefTestNonNull { hty } => test(cx, to(false, hty)),
        Op::RefTestNullable { hty } => test(cx, to(true, hty)),
        Op::RefCastNonNull { hty } => cast(cx, to(false, hty)),
        Op::RefCastNullable { hty } => cast(cx, to(true, hty)),
        Op::BrOnCast { relative_depth, to_ref_type, .. } => {
            let reference = cx.pop();
            let is = is(cx, reference, ref_type(to_ref_type).expect("validated reference type"));
            control::branch_if(cx, relative_depth, is, Some(reference));
            cx.push(reference);
        }
        Op::BrOnCastFail { relative_depth, to_ref_type, .. } => {
            let reference = cx.pop();
            let is = is(cx, reference, ref_type(to_ref_type).expect("validated reference type"));
            control::branch_unless(cx, relative_depth, is, Some(reference));
            cx.push(reference);
        }
        // The reference stays as it is.
        Op::AnyConvertExtern | Op::ExternConvertAny => {}
        Op::RefI31 => {
            let value = cx.pop();
            let shifted = cx.b.ins().ishl_imm_u(value, 1);
            let tagged = cx.b.ins().bor_imm_u(shifted, I31.cast_signed());
            let reference = cx.b.ins().uextend(types::I64, tagged);
            cx.push(reference);
        }
        Op::I31GetS => {
            let bits = i31(cx);
            let value = cx.b.ins().sshr_imm_u(bits, 1);
            cx.push(value);
        }
        Op::I31GetU => {
            let bits = i31(cx);
            let value = cx.b.ins().ushr_imm_u(bits, 1);
            cx.push(value);
        }
        Op::RefEq => {
            let (one, other) = cx.pop2();
            let same = cx.b.ins().icmp(IntCC::Equal, one, other);
            cx.push(same);
        }
        _ => return false,
    }
    true
}

/// Pops an `i31`: its 32 bits.
fn i31(cx: &mut FuncCx<'_, '_>) -> Value {
    let reference = pop_non_null(cx);
    cx.b.ins().ireduce(types::I32, reference)
}

fn test(cx: &mut FuncCx<'_, '_>, to: RefType) {
    let reference = cx.pop();
    let is = is(cx, reference, to);
    cx.push(is);
}

fn cast(cx: &mut FuncCx<'_, '_>, to: RefType) {
    let reference = cx.pop();
    let is = is(cx, reference, to);
    cx.b.ins().trapz(is, trap(TrapCode::CastFailure));
    cx.push(reference);
}

/// Whether a reference is of a type of its hierarchy: an `i8`.
fn is(cx: &mut FuncCx<'_, '_>, reference: Value, to: RefType) -> Value {
    use HeapType as H;
    match to.heap {
        H::Any | H::Func | H::Extern | H::Exn => {
            if to.nullable || cx.known.non_null {
                cx.b.ins().iconst(types::I8, 1)
            } else {
                cx.b.ins().icmp_imm_u(IntCC::NotEqual, reference, 0)
            }
        }
        H::None | H::NoFunc | H::NoExtern | H::NoExn => {
            if to.nullable {
                cx.b.ins().icmp_imm_u(IntCC::Equal, reference, 0)
            } else {
                cx.b.ins().iconst(types::I8, 0)
            }
        }
        H::I31 => {
            let bit = cx.b.ins().band_imm_u(reference, I31.cast_signed());
            let is_i31 = cx.b.ins().icmp_imm_u(IntCC::NotEqual, bit, 0);
            or_null(cx, is_i31, reference, to)
        }
        H::Eq => {
            let bits = cx.b.ins().band_imm_u(reference, NO_OBJECT.cast_signed());
            let comparable = cx.b.ins().icmp_imm_u(IntCC::NotEqual, bits, HOST.cast_signed());
            if to.nullable {
                return comparable;
            }
            let exists = cx.b.ins().icmp_imm_u(IntCC::NotEqual, reference, 0);
            cx.b.ins().band(comparable, exists)
        }
        H::Struct => by_word(cx, reference, to, |cx, word, _| of_kind(cx, word, STRUCT)),
        H::Array => by_word(cx, reference, to, |cx, word, _| of_kind(cx, word, ARRAY)),
        H::Type(ty) => by_word(cx, reference, to, |cx, word, done| of_type(cx, reference, word, ty, done)),
    }
}

fn or_null(cx: &mut FuncCx<'_, '_>, is: Value, reference: Value, to: RefType) -> Value {
    if !to.nullable {
        return is;
    }
    let null = cx.b.ins().icmp_imm_u(IntCC::Equal, reference, 0);
    cx.b.ins().bor(is, null)
}

/// Looks at what a reference is to, where it is to something that has a type: `look` gets the word that says which, and a
/// block to which it may give the answer early.
fn by_word(
    cx: &mut FuncCx<'_, '_>,
    reference: Value,
    to: RefType,
    look: impl FnOnce(&mut FuncCx<'_, '_>, Value, Block) -> Value,
) -> Value {
    let is_func = is_func(cx, to.heap);
    let done = cx.b.create_block();
    let answer = cx.b.append_block_param(done, types::I8);
    if !cx.known.non_null {
        let null = constant(cx, to.nullable);
        unless(cx, reference, done, null);
    }
    if !is_func && !cx.known.object {
        let bits = cx.b.ins().band_imm_u(reference, NO_OBJECT.cast_signed());
        let object = cx.b.ins().icmp_imm_u(IntCC::Equal, bits, 0);
        let no = constant(cx, false);
        unless(cx, object, done, no);
    }
    let at = if is_func { FuncRef::TYPE_ID } else { WORD };
    let word = cx.b.ins().load(types::I32, CONTEXT, reference, at);
    let last = look(cx, word, done);
    cx.b.ins().jump(done, &[BlockArg::Value(last)]);
    cx.b.switch_to_block(done);
    cx.b.seal_block(done);
    answer
}

fn is_func(cx: &FuncCx<'_, '_>, heap: HeapType) -> bool {
    matches!(heap, HeapType::Type(ty) if matches!(cx.module.types[ty].composite, CompositeType::Func(_)))
}

fn of_kind(cx: &mut FuncCx<'_, '_>, word: Value, kind: u32) -> Value {
    let found = cx.b.ins().band_imm_u(word, i64::from(KIND));
    cx.b.ins().icmp_imm_u(IntCC::Equal, found, i64::from(kind))
}

fn of_type(cx: &mut FuncCx<'_, '_>, reference: Value, word: Value, ty: TypeIndex, done: Block) -> Value {
    let wanted = type_word(cx, ty);
    let same = cx.b.ins().icmp(IntCC::Equal, word, wanted);
    if cx.module.types[ty].is_final {
        return same;
    }
    let differs = cx.b.ins().icmp(IntCC::NotEqual, word, wanted);
    let yes = constant(cx, true);
    unless(cx, differs, done, yes);
    let is = if is_func(cx, HeapType::Type(ty)) {
        cx.call_builtin(Builtin::IsSubtype, &[cx.vmctx, word, wanted])
    } else {
        let ty = cx.immediate(ty.0);
        cx.call_builtin(Builtin::ObjectIs, &[cx.vmctx, reference, ty])
    };
    let is = is.expect("it answers");
    cx.b.ins().ireduce(types::I8, is)
}

/// What the runtime calls a type: [`InstanceHeader::type_ids`].
pub(crate) fn type_word(cx: &mut FuncCx<'_, '_>, ty: TypeIndex) -> Value {
    let ids = cx.load_context(types::I64, CONSTANT, InstanceHeader::TYPE_IDS);
    let at = i32::try_from(ty.0 * 4).expect("validation bounds the number of types");
    cx.b.ins().load(types::I32, CONSTANT, ids, at)
}

/// Goes to a block with an answer unless a condition holds.
fn unless(cx: &mut FuncCx<'_, '_>, condition: Value, done: Block, answer: Value) {
    let next = cx.b.create_block();
    cx.b.ins().brif(condition, next, &[], done, &[BlockArg::Value(answer)]);
    cx.b.switch_to_block(next);
    cx.b.seal_block(next);
}

fn constant(cx: &mut FuncCx<'_, '_>, answer: bool) -> Value {
    cx.b.ins().iconst(types::I8, i64::from(answer))
}
