//! From wasmparser's types to ours. `None`: a type of a proposal that is not supported, which validation rejects first.

use spinwise_model::types::{FuncType, GlobalType, MemoryType, TableType, ValType};
use wasmparser::{CompositeInnerType, RefType, SubType};

pub(crate) fn val_type(ty: wasmparser::ValType) -> Option<ValType> {
    match ty {
        wasmparser::ValType::I32 => Some(ValType::I32),
        wasmparser::ValType::I64 => Some(ValType::I64),
        wasmparser::ValType::F32 => Some(ValType::F32),
        wasmparser::ValType::F64 => Some(ValType::F64),
        wasmparser::ValType::V128 => Some(ValType::V128),
        wasmparser::ValType::Ref(ty) => ref_type(ty),
    }
}

fn ref_type(ty: RefType) -> Option<ValType> {
    if ty == RefType::FUNCREF {
        Some(ValType::FuncRef)
    } else if ty == RefType::EXTERNREF {
        Some(ValType::ExternRef)
    } else {
        None
    }
}

pub(crate) fn func_type(ty: &SubType) -> Option<FuncType> {
    let CompositeInnerType::Func(ty) = &ty.composite_type.inner else { return None };
    let list = |types: &[wasmparser::ValType]| types.iter().map(|ty| val_type(*ty)).collect::<Option<_>>();
    Some(FuncType { params: list(ty.params())?, results: list(ty.results())? })
}

pub(crate) fn table_type(ty: wasmparser::TableType) -> Option<TableType> {
    Some(TableType { element: ref_type(ty.element_type)?, min: ty.initial, max: ty.maximum })
}

pub(crate) fn memory_type(ty: wasmparser::MemoryType) -> MemoryType {
    MemoryType { min: ty.initial, max: ty.maximum, shared: ty.shared, memory64: ty.memory64 }
}

pub(crate) fn global_type(ty: wasmparser::GlobalType) -> Option<GlobalType> {
    Some(GlobalType { content: val_type(ty.content_type)?, mutable: ty.mutable })
}
