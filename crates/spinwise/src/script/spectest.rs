//! The host module `spectest` that scripts import from, as the reference interpreter defines it.

use std::collections::BTreeMap;

use spinwise_model::types::{FuncType, GlobalType, MemoryType, RefType, TableType, ValType};
use spinwise_runtime::{Error, Extern, Func, Global, Memory, Table, Val};

/// What `spectest` exports.
pub(super) fn exports() -> Result<BTreeMap<String, Extern>, Error> {
    let mut exports = BTreeMap::new();
    let prints: &[(&str, &[ValType])] = &[
        ("print", &[]),
        ("print_i32", &[ValType::I32]),
        ("print_i64", &[ValType::I64]),
        ("print_f32", &[ValType::F32]),
        ("print_f64", &[ValType::F64]),
        ("print_i32_f32", &[ValType::I32, ValType::F32]),
        ("print_f64_f64", &[ValType::F64, ValType::F64]),
    ];
    for (name, params) in prints {
        let ty = FuncType { params: params.to_vec(), results: Vec::new() };
        let func = Func::host(ty, |_caller, _args| Ok(Vec::new()));
        exports.insert((*name).to_owned(), Extern::Func(func));
    }
    let globals = [
        ("global_i32", Val::I32(666)),
        ("global_i64", Val::I64(666)),
        ("global_f32", Val::F32(666.6f32.to_bits())),
        ("global_f64", Val::F64(666.6f64.to_bits())),
    ];
    for (name, value) in globals {
        let global = Global::new(GlobalType { content: value.ty(), mutable: false }, &value)?;
        exports.insert(name.to_owned(), Extern::Global(global));
    }
    for (name, table64) in [("table", false), ("table64", true)] {
        let table = Table::new(TableType { table64, ..TableType::new(RefType::FUNC, 10, Some(20)) })?;
        exports.insert(name.to_owned(), Extern::Table(table));
    }
    for (name, shared) in [("memory", false), ("shared_memory", true)] {
        let memory = Memory::new(MemoryType { shared, ..MemoryType::new(1, Some(2)) })?;
        exports.insert(name.to_owned(), Extern::Memory(memory));
    }
    Ok(exports)
}
