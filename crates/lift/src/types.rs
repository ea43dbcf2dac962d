//! From wasmparser's types to ours. `None`: a type of a proposal that is not supported, which validation rejects first.

use spinwise_model::index::TypeIndex;
use spinwise_model::types::{
    CompositeType, FieldType, FuncType, GlobalType, HeapType, MemoryType, RefType, StorageType, SubType, TableType,
    ValType,
};
use wasmparser::{AbstractHeapType, CompositeInnerType};

pub(crate) fn val_type(ty: wasmparser::ValType) -> Option<ValType> {
    Some(match ty {
        wasmparser::ValType::I32 => ValType::I32,
        wasmparser::ValType::I64 => ValType::I64,
        wasmparser::ValType::F32 => ValType::F32,
        wasmparser::ValType::F64 => ValType::F64,
        wasmparser::ValType::V128 => ValType::V128,
        wasmparser::ValType::Ref(ty) => ValType::Ref(ref_type(ty)?),
    })
}

pub(crate) fn ref_type(ty: wasmparser::RefType) -> Option<RefType> {
    Some(RefType { nullable: ty.is_nullable(), heap: heap_type(ty.heap_type())? })
}

pub(crate) fn heap_type(ty: wasmparser::HeapType) -> Option<HeapType> {
    match ty {
        wasmparser::HeapType::Abstract { shared: false, ty } => Some(match ty {
            AbstractHeapType::Any => HeapType::Any,
            AbstractHeapType::Eq => HeapType::Eq,
            AbstractHeapType::I31 => HeapType::I31,
            AbstractHeapType::Struct => HeapType::Struct,
            AbstractHeapType::Array => HeapType::Array,
            AbstractHeapType::None => HeapType::None,
            AbstractHeapType::Func => HeapType::Func,
            AbstractHeapType::NoFunc => HeapType::NoFunc,
            AbstractHeapType::Extern => HeapType::Extern,
            AbstractHeapType::NoExtern => HeapType::NoExtern,
            AbstractHeapType::Exn => HeapType::Exn,
            AbstractHeapType::NoExn => HeapType::NoExn,
            AbstractHeapType::Cont | AbstractHeapType::NoCont => return None,
        }),
        wasmparser::HeapType::Concrete(index) => Some(HeapType::Type(TypeIndex(index.as_module_index()?))),
        wasmparser::HeapType::Abstract { shared: true, .. } | wasmparser::HeapType::Exact(_) => None,
    }
}

pub(crate) fn sub_type(ty: &wasmparser::SubType) -> Option<SubType> {
    let supertype = match ty.supertype_idxs[..] {
        [] => None,
        [index] => Some(TypeIndex(index.unpack().as_module_index()?)),
        _ => return None,
    };
    Some(SubType { is_final: ty.is_final, supertype, composite: composite_type(&ty.composite_type.inner)? })
}

fn composite_type(ty: &CompositeInnerType) -> Option<CompositeType> {
    let list = |types: &[wasmparser::ValType]| types.iter().map(|ty| val_type(*ty)).collect::<Option<_>>();
    Some(match ty {
        CompositeInnerType::Func(ty) => {
            CompositeType::Func(FuncType { params: list(ty.params())?, results: list(ty.results())? })
        }
        CompositeInnerType::Struct(ty) => {
            CompositeType::Struct(ty.fields.iter().map(field_type).collect::<Option<_>>()?)
        }
        CompositeInnerType::Array(ty) => CompositeType::Array(field_type(&ty.0)?),
        CompositeInnerType::Cont(_) => return None,
    })
}

fn field_type(ty: &wasmparser::FieldType) -> Option<FieldType> {
    let storage = match ty.element_type {
        wasmparser::StorageType::I8 => StorageType::I8,
        wasmparser::StorageType::I16 => StorageType::I16,
        wasmparser::StorageType::Val(ty) => StorageType::Val(val_type(ty)?),
    };
    Some(FieldType { storage, mutable: ty.mutable })
}

pub(crate) fn table_type(ty: wasmparser::TableType) -> Option<TableType> {
    Some(TableType { element: ref_type(ty.element_type)?, min: ty.initial, max: ty.maximum, table64: ty.table64 })
}

pub(crate) fn memory_type(ty: wasmparser::MemoryType) -> MemoryType {
    let wasmparser::MemoryType { memory64, shared, initial, maximum, page_size_log2 } = ty;
    let page_size_log2 = page_size_log2.map_or(MemoryType::PAGE_LOG2, |log2| log2.try_into().expect("validated"));
    MemoryType { min: initial, max: maximum, shared, memory64, page_size_log2 }
}

pub(crate) fn global_type(ty: wasmparser::GlobalType) -> Option<GlobalType> {
    Some(GlobalType { content: val_type(ty.content_type)?, mutable: ty.mutable })
}
