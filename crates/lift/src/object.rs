//! Structures and arrays.
//!
//! Invariants: an object never moves, and is reached only behind a test for null and, in an array, of the index. Memory of a
//! new one is zero before anything else can see it. A call that may collect comes before the values it does not know of are
//! stored, and those live on (see [`crate::traced`]).
//!
//! Cost: an allocation is a call; a field is one access, an element two tests more.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Value, types};
use spinwise_model::heap::{ELEMENTS, LENGTH, size_of};
use spinwise_model::index::TypeIndex;
use spinwise_model::symbol::Builtin;
use spinwise_model::trap::TrapCode;
use spinwise_model::types::{FieldType, HeapType, RefType, StorageType, ValType};
use wasmparser::Operator;

use crate::abi::{CONTEXT, LANES, cell_flags, clif_type, trap};
use crate::func::FuncCx;
use crate::reference::{check_non_null, pop_non_null};

/// Lifts an operator on structures or arrays; `false` if it is not one.
pub(crate) fn translate(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    use Operator as Op;
    match *op {
        Op::StructNew { struct_type_index } => struct_new(cx, TypeIndex(struct_type_index)),
        Op::StructNewDefault { struct_type_index } => {
            let object = new_struct(cx, TypeIndex(struct_type_index));
            push_new(cx, object, TypeIndex(struct_type_index));
        }
        Op::StructGet { struct_type_index, field_index } | Op::StructGetU { struct_type_index, field_index } => {
            struct_get(cx, TypeIndex(struct_type_index), field_index, false);
        }
        Op::StructGetS { struct_type_index, field_index } => {
            struct_get(cx, TypeIndex(struct_type_index), field_index, true);
        }
        Op::StructSet { struct_type_index, field_index } => {
            let value = cx.pop_canonical();
            let object = pop_non_null(cx);
            let (field, offset) = field(cx, TypeIndex(struct_type_index), field_index);
            store(cx, field.storage, value, object, offset);
        }
        Op::ArrayNew { array_type_index } => array_new(cx, TypeIndex(array_type_index)),
        Op::ArrayNewDefault { array_type_index } => {
            let length = cx.pop();
            let array = new_array(cx, TypeIndex(array_type_index), length);
            push_new(cx, array, TypeIndex(array_type_index));
        }
        Op::ArrayNewFixed { array_type_index, array_size } => {
            array_new_fixed(cx, TypeIndex(array_type_index), array_size);
        }
        Op::ArrayNewData { array_type_index, array_data_index } => {
            new_from_segment(cx, Builtin::ArrayNewData, TypeIndex(array_type_index), array_data_index);
        }
        Op::ArrayNewElem { array_type_index, array_elem_index } => {
            new_from_segment(cx, Builtin::ArrayNewElem, TypeIndex(array_type_index), array_elem_index);
        }
        Op::ArrayGet { array_type_index } | Op::ArrayGetU { array_type_index } => {
            array_get(cx, TypeIndex(array_type_index), false);
        }
        Op::ArrayGetS { array_type_index } => array_get(cx, TypeIndex(array_type_index), true),
        Op::ArraySet { array_type_index } => {
            let value = cx.pop_canonical();
            let storage = cx.module.types.element(TypeIndex(array_type_index)).storage;
            let element = element(cx, storage);
            store(cx, storage, value, element, ELEMENTS);
        }
        Op::ArrayLen => {
            let array = pop_non_null(cx);
            let length = cx.b.ins().load(types::I32, CONTEXT, array, LENGTH);
            cx.push(length);
        }
        Op::ArrayFill { array_type_index } => array_fill(cx, TypeIndex(array_type_index)),
        Op::ArrayCopy { .. } => {
            let (source, length) = cx.pop2();
            let from = cx.pop();
            let destination = cx.pop();
            let to = cx.pop();
            check_non_null(cx, to);
            check_non_null(cx, from);
            cx.call_fallible(Builtin::ArrayCopy, &[cx.vmctx, to, destination, from, source, length]);
        }
        Op::ArrayInitData { array_data_index, .. } => init_from_segment(cx, Builtin::ArrayInitData, array_data_index),
        Op::ArrayInitElem { array_elem_index, .. } => init_from_segment(cx, Builtin::ArrayInitElem, array_elem_index),
        _ => return false,
    }
    true
}

/// The type of a reference to an object that was just made.
fn push_new(cx: &mut FuncCx<'_, '_>, object: Value, ty: TypeIndex) {
    cx.push_typed(object, ValType::Ref(RefType { nullable: false, heap: HeapType::Type(ty) }));
}

fn struct_new(cx: &mut FuncCx<'_, '_>, ty: TypeIndex) {
    let (fields, layout) = cx.module.types.structure(ty);
    cx.charge(fields.len());
    let values = cx.pop_many(fields.len());
    let object = new_struct(cx, ty);
    for ((field, offset), value) in fields.iter().zip(&layout.offsets).zip(values) {
        store(cx, field.storage, value, object, offset.cast_signed());
    }
    push_new(cx, object, ty);
}

/// A new structure of zeros and nulls.
fn new_struct(cx: &mut FuncCx<'_, '_>, ty: TypeIndex) -> Value {
    let ty = cx.immediate(ty.0);
    let object = cx.call_builtin(Builtin::StructNew, &[cx.vmctx, ty]).expect("it returns the object");
    cx.b.ins().trapz(object, trap(TrapCode::Pending));
    object
}

fn struct_get(cx: &mut FuncCx<'_, '_>, ty: TypeIndex, index: u32, signed: bool) {
    let object = pop_non_null(cx);
    let (field, offset) = field(cx, ty, index);
    load(cx, field.storage, object, offset, signed);
}

/// A field of a structure, and where it lies.
fn field(cx: &FuncCx<'_, '_>, ty: TypeIndex, index: u32) -> (FieldType, i32) {
    let (fields, layout) = cx.module.types.structure(ty);
    (fields[index as usize], layout.offsets[index as usize].cast_signed())
}

/// A new array of zeros or nulls.
fn new_array(cx: &mut FuncCx<'_, '_>, ty: TypeIndex, length: Value) -> Value {
    let ty = cx.immediate(ty.0);
    let array = cx.call_builtin(Builtin::ArrayNew, &[cx.vmctx, ty, length]).expect("it returns the array");
    cx.b.ins().trapz(array, trap(TrapCode::Pending));
    array
}

fn array_new(cx: &mut FuncCx<'_, '_>, ty: TypeIndex) {
    let length = cx.pop();
    let value = cx.pop_canonical();
    let array = new_array(cx, ty, length);
    // The array is used after the next call.
    push_new(cx, array, ty);
    let start = cx.immediate(0);
    fill(cx, array, start, length, value);
}

fn array_new_fixed(cx: &mut FuncCx<'_, '_>, ty: TypeIndex, count: u32) {
    let storage = cx.module.types.element(ty).storage;
    cx.charge(count as usize);
    let values = cx.pop_many(count as usize);
    let length = cx.immediate(count);
    let array = new_array(cx, ty, length);
    let size = size_of(storage).cast_signed();
    // Validation allows 10,000.
    for (at, value) in (0..).map(|index| ELEMENTS + index * size).zip(values) {
        store(cx, storage, value, array, at);
    }
    push_new(cx, array, ty);
}

fn new_from_segment(cx: &mut FuncCx<'_, '_>, builtin: Builtin, ty: TypeIndex, segment: u32) {
    let (source, length) = cx.pop2();
    let (index, segment) = (cx.immediate(ty.0), cx.immediate(segment));
    let array = cx.call_builtin(builtin, &[cx.vmctx, index, segment, source, length]).expect("it returns the array");
    cx.b.ins().trapz(array, trap(TrapCode::Pending));
    push_new(cx, array, ty);
}

fn init_from_segment(cx: &mut FuncCx<'_, '_>, builtin: Builtin, segment: u32) {
    let (source, length) = cx.pop2();
    let destination = cx.pop();
    let array = pop_non_null(cx);
    let segment = cx.immediate(segment);
    cx.call_fallible(builtin, &[cx.vmctx, array, destination, segment, source, length]);
}

fn array_get(cx: &mut FuncCx<'_, '_>, ty: TypeIndex, signed: bool) {
    let storage = cx.module.types.element(ty).storage;
    let element = element(cx, storage);
    load(cx, storage, element, ELEMENTS, signed);
}

/// Pops an array and an index: [`ELEMENTS`] bytes before the element's address, behind the tests.
fn element(cx: &mut FuncCx<'_, '_>, storage: StorageType) -> Value {
    let index = cx.pop();
    let array = pop_non_null(cx);
    let length = cx.b.ins().load(types::I32, CONTEXT, array, LENGTH);
    let outside = cx.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, index, length);
    cx.b.ins().trapnz(outside, trap(TrapCode::ArrayOutOfBounds));
    let index = cx.b.ins().uextend(types::I64, index);
    let offset = cx.b.ins().ishl_imm_u(index, i64::from(size_of(storage).ilog2()));
    cx.b.ins().iadd(array, offset)
}

fn array_fill(cx: &mut FuncCx<'_, '_>, _ty: TypeIndex) {
    let length = cx.pop();
    let value = cx.pop_canonical();
    let start = cx.pop();
    let array = pop_non_null(cx);
    fill(cx, array, start, length, value);
}

/// Sets elements to a value.
fn fill(cx: &mut FuncCx<'_, '_>, array: Value, start: Value, length: Value, value: Value) {
    let (low, high) = bits(cx, value);
    cx.call_fallible(Builtin::ArrayFill, &[cx.vmctx, array, start, length, low, high]);
}

/// The bits of a value, as two halves.
fn bits(cx: &mut FuncCx<'_, '_>, value: Value) -> (Value, Value) {
    let raw = MemFlagsData::new();
    let low = match cx.b.func.dfg.value_type(value) {
        types::I64 => value,
        types::I32 => cx.b.ins().uextend(types::I64, value),
        types::F64 => cx.b.ins().bitcast(types::I64, raw, value),
        types::F32 => {
            let bits = cx.b.ins().bitcast(types::I32, raw, value);
            cx.b.ins().uextend(types::I64, bits)
        }
        _ => {
            let lanes = cx.b.ins().bitcast(types::I64X2, LANES, value);
            return (cx.b.ins().extractlane(lanes, 0), cx.b.ins().extractlane(lanes, 1));
        }
    };
    (low, cx.b.ins().iconst(types::I64, 0))
}

/// Loads a field or an element, and pushes it.
fn load(cx: &mut FuncCx<'_, '_>, storage: StorageType, base: Value, offset: i32, signed: bool) {
    let b = &mut cx.b;
    let value = match (storage, signed) {
        (StorageType::I8, false) => b.ins().uload8(types::I32, CONTEXT, base, offset),
        (StorageType::I8, true) => b.ins().sload8(types::I32, CONTEXT, base, offset),
        (StorageType::I16, false) => b.ins().uload16(types::I32, CONTEXT, base, offset),
        (StorageType::I16, true) => b.ins().sload16(types::I32, CONTEXT, base, offset),
        (StorageType::Val(ty), _) => {
            let value = b.ins().load(clif_type(ty), cell_flags(ty), base, offset);
            return cx.push_typed(value, ty);
        }
    };
    cx.push(value);
}

fn store(cx: &mut FuncCx<'_, '_>, storage: StorageType, value: Value, base: Value, offset: i32) {
    match storage {
        StorageType::I8 => cx.b.ins().istore8(CONTEXT, value, base, offset),
        StorageType::I16 => cx.b.ins().istore16(CONTEXT, value, base, offset),
        StorageType::Val(ty) => cx.b.ins().store(cell_flags(ty), value, base, offset),
    };
}
