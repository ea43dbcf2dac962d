//! The module's tables, and its bodies for lifting.
//!
//! Invariant: a section is validated before it is read, so what is read is well-formed and its indices are in range.
//!
//! Cost: one pass over the module; bodies are only delimited.

use std::collections::BTreeSet;

use spinwise_model::index::{FuncIndex, GlobalIndex, MemoryIndex, TableIndex, TagIndex, TypeIndex};
use spinwise_model::module::{
    ConstExpr, ConstOp, DataSegment, ElementMode, ElementSegment, Entity, Export, Function, Import, Module,
};
use wasmparser::{
    Data, DataKind, Element, ElementItems, ElementKind, ExternalKind, KnownCustom, Operator, Parser, Payload, Result,
    TableInit, TypeRef, ValidPayload, Validator, WasmFeatures,
};

use crate::func::Body;
use crate::names::Names;
use crate::types::{global_type, memory_type, sub_type, table_type};

/// Tables, and bodies in index order.
pub(crate) struct Parsed<'a> {
    pub(crate) module: Module,
    pub(crate) bodies: Vec<Body<'a>>,
}

/// Reads a module. All of it is valid then, apart from its bodies.
pub(crate) fn parse(bytes: &[u8], features: WasmFeatures) -> Result<Parsed<'_>> {
    let mut validator = Validator::new_with_features(features);
    let mut parser = Parser::new(0);
    parser.set_features(features);
    let mut parsed = Parsed { module: Module::default(), bodies: Vec::new() };
    let mut names = Names::default();
    for payload in parser.parse_all(bytes) {
        let payload = payload?;
        if let ValidPayload::Func(validate, code) = validator.payload(&payload)? {
            parsed.bodies.push(Body { index: FuncIndex(validate.index), validate, code });
        } else if let Payload::CustomSection(section) = payload {
            if let KnownCustom::Name(section) = section.as_known() {
                names = Names::read(section);
            }
        } else {
            read_section(&mut parsed.module, payload)?;
        }
    }
    let module = &mut parsed.module;
    for body in &parsed.bodies {
        let range = body.code.range();
        module.functions[body.index.index()].body = offset(range.start)..offset(range.end);
    }
    module.name = names.module;
    for (index, name) in names.functions {
        if let Some(function) = module.functions.get_mut(index as usize) {
            function.name = Some(name);
        }
    }
    note_references(module);
    Ok(parsed)
}

fn offset(at: u64) -> u32 {
    u32::try_from(at).expect("longer modules are rejected before")
}

fn read_section(module: &mut Module, payload: Payload<'_>) -> Result<()> {
    match payload {
        Payload::TypeSection(section) => {
            for group in section {
                module.types.push(group?.types().map(|ty| sub_type(ty).expect(VALIDATED)).collect());
            }
        }
        Payload::ImportSection(section) => {
            for import in section.into_imports() {
                read_import(module, import?);
            }
        }
        Payload::FunctionSection(section) => {
            for ty in section {
                module.functions.push(Function { ty: TypeIndex(ty?), name: None, body: 0..0 });
            }
        }
        Payload::TableSection(section) => {
            for table in section {
                let table = table?;
                module.tables.push(table_type(table.ty).expect(VALIDATED));
                module.table_inits.push(match &table.init {
                    TableInit::RefNull => None,
                    TableInit::Expr(init) => Some(const_expr(init)?),
                });
            }
        }
        Payload::MemorySection(section) => {
            for memory in section {
                module.memories.push(memory_type(memory?));
            }
        }
        Payload::TagSection(section) => {
            for tag in section {
                module.tags.push(TypeIndex(tag?.func_type_idx));
            }
        }
        Payload::GlobalSection(section) => {
            for global in section {
                let global = global?;
                module.globals.push(global_type(global.ty).expect(VALIDATED));
                module.global_inits.push(const_expr(&global.init_expr)?);
            }
        }
        Payload::ExportSection(section) => {
            for export in section {
                let export = export?;
                let entity = match export.kind {
                    ExternalKind::Func | ExternalKind::FuncExact => Entity::Function(FuncIndex(export.index)),
                    ExternalKind::Table => Entity::Table(TableIndex(export.index)),
                    ExternalKind::Memory => Entity::Memory(MemoryIndex(export.index)),
                    ExternalKind::Global => Entity::Global(GlobalIndex(export.index)),
                    ExternalKind::Tag => Entity::Tag(TagIndex(export.index)),
                };
                module.exports.push(Export { name: export.name.to_owned(), entity });
            }
        }
        Payload::StartSection { func, .. } => module.start = Some(FuncIndex(func)),
        Payload::ElementSection(section) => {
            for element in section {
                module.elements.push(element_segment(element?)?);
            }
        }
        Payload::DataSection(section) => {
            for data in section {
                module.data.push(data_segment(&data?)?);
            }
        }
        _ => {}
    }
    Ok(())
}

const VALIDATED: &str = "validation admits only supported types";

fn read_import(module: &mut Module, import: wasmparser::Import<'_>) {
    let entity = match import.ty {
        TypeRef::Func(ty) | TypeRef::FuncExact(ty) => {
            module.functions.push(Function { ty: TypeIndex(ty), name: None, body: 0..0 });
            Entity::Function(FuncIndex(next(&mut module.imported_functions)))
        }
        TypeRef::Table(ty) => {
            module.tables.push(table_type(ty).expect(VALIDATED));
            Entity::Table(TableIndex(next(&mut module.imported_tables)))
        }
        TypeRef::Memory(ty) => {
            module.memories.push(memory_type(ty));
            Entity::Memory(MemoryIndex(next(&mut module.imported_memories)))
        }
        TypeRef::Global(ty) => {
            module.globals.push(global_type(ty).expect(VALIDATED));
            Entity::Global(GlobalIndex(next(&mut module.imported_globals)))
        }
        TypeRef::Tag(tag) => {
            module.tags.push(TypeIndex(tag.func_type_idx));
            Entity::Tag(TagIndex(next(&mut module.imported_tags)))
        }
    };
    module.imports.push(Import { module: import.module.to_owned(), field: import.name.to_owned(), entity });
}

/// The index of the next import of a kind, counting it.
fn next(count: &mut u32) -> u32 {
    *count += 1;
    *count - 1
}

fn element_segment(element: Element<'_>) -> Result<ElementSegment> {
    let mode = match element.kind {
        ElementKind::Passive => ElementMode::Passive,
        ElementKind::Declared => ElementMode::Declared,
        ElementKind::Active { table_index, offset_expr } => {
            ElementMode::Active { table: TableIndex(table_index.unwrap_or(0)), offset: const_expr(&offset_expr)? }
        }
    };
    let items = match element.items {
        ElementItems::Functions(functions) => {
            functions.into_iter().map(|func| Ok(vec![ConstOp::RefFunc(FuncIndex(func?))])).collect::<Result<_>>()?
        }
        ElementItems::Expressions(_, items) => {
            items.into_iter().map(|item| const_expr(&item?)).collect::<Result<_>>()?
        }
    };
    Ok(ElementSegment { mode, items })
}

fn data_segment(data: &Data<'_>) -> Result<DataSegment> {
    let active = match &data.kind {
        DataKind::Passive => None,
        DataKind::Active { memory_index, offset_expr } => Some((MemoryIndex(*memory_index), const_expr(offset_expr)?)),
    };
    Ok(DataSegment { active, bytes: data.data.to_vec() })
}

fn const_expr(expr: &wasmparser::ConstExpr<'_>) -> Result<ConstExpr> {
    let mut ops = ConstExpr::new();
    for op in expr.get_operators_reader() {
        ops.push(match op? {
            Operator::I32Const { value } => ConstOp::I32(value),
            Operator::I64Const { value } => ConstOp::I64(value),
            Operator::F32Const { value } => ConstOp::F32(value.bits()),
            Operator::F64Const { value } => ConstOp::F64(value.bits()),
            Operator::V128Const { value } => ConstOp::V128(u128::from_le_bytes(*value.bytes())),
            Operator::RefNull { .. } => ConstOp::RefNull,
            Operator::RefFunc { function_index } => ConstOp::RefFunc(FuncIndex(function_index)),
            Operator::GlobalGet { global_index } => ConstOp::GlobalGet(GlobalIndex(global_index)),
            Operator::I32Add => ConstOp::I32Add,
            Operator::I32Sub => ConstOp::I32Sub,
            Operator::I32Mul => ConstOp::I32Mul,
            Operator::I64Add => ConstOp::I64Add,
            Operator::I64Sub => ConstOp::I64Sub,
            Operator::I64Mul => ConstOp::I64Mul,
            Operator::RefI31 => ConstOp::RefI31,
            Operator::StructNew { struct_type_index } => ConstOp::StructNew(TypeIndex(struct_type_index)),
            Operator::StructNewDefault { struct_type_index } => ConstOp::StructNewDefault(TypeIndex(struct_type_index)),
            Operator::ArrayNew { array_type_index } => ConstOp::ArrayNew(TypeIndex(array_type_index)),
            Operator::ArrayNewDefault { array_type_index } => ConstOp::ArrayNewDefault(TypeIndex(array_type_index)),
            Operator::ArrayNewFixed { array_type_index, array_size } => {
                ConstOp::ArrayNewFixed(TypeIndex(array_type_index), array_size)
            }
            // The reference stays as it is.
            Operator::AnyConvertExtern | Operator::ExternConvertAny => continue,
            Operator::End => break,
            op => unreachable!("validation admits no {op:?} in a constant expression"),
        });
    }
    Ok(ops)
}

/// Fills in which functions' references exist, as far as the sections tell. Code can only name the ones found here.
fn note_references(module: &mut Module) {
    let elements = module.elements.iter().flat_map(|segment| &segment.items);
    let inits = module.global_inits.iter().chain(module.table_inits.iter().flatten());
    let constants = elements.chain(inits).flatten();
    let taken: BTreeSet<FuncIndex> = constants
        .filter_map(|op| match op {
            ConstOp::RefFunc(func) => Some(*func),
            _ => None,
        })
        .collect();
    let exported = module.exports.iter().filter_map(|export| match export.entity {
        Entity::Function(func) => Some(func),
        _ => None,
    });
    let escaped: BTreeSet<FuncIndex> = taken.iter().copied().chain(exported).collect();
    module.escaped = escaped.into_iter().collect();
    module.address_taken = taken.into_iter().collect();
}
