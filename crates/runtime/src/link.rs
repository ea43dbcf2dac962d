//! What can be imported and exported, and whether it fits. Source: core spec 3.4.10, 4.5.2; threads proposal.

use std::collections::BTreeMap;

use spinwise_model::index::{MemoryIndex, TypeIndex};
use spinwise_model::module::{Entity, Import, Module};
use spinwise_model::types::{FuncType, GlobalType, TableType};

use crate::error::{Error, LinkError, LinkErrorKind};
use crate::func::Func;
use crate::global::Global;
use crate::memory::Memory;
use crate::program::Program;
use crate::store::Context;
use crate::table::Table;
use crate::tag::Tag;
use crate::types::{self, Types};

/// Something that can be imported or exported.
#[derive(Clone, Debug)]
pub enum Extern {
    /// A function.
    Func(Func),
    /// A table.
    Table(Table),
    /// A linear memory.
    Memory(Memory),
    /// A global.
    Global(Global),
    /// An exception tag.
    Tag(Tag),
}

/// What a host offers, by name.
#[derive(Clone, Debug, Default)]
pub struct Imports {
    offered: BTreeMap<String, BTreeMap<String, Extern>>,
}

impl Imports {
    /// Nothing.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Offers something under a name, instead of what was offered under that name before.
    pub fn define(&mut self, module: impl Into<String>, field: impl Into<String>, what: Extern) {
        self.offered.entry(module.into()).or_default().insert(field.into(), what);
    }

    /// What is offered under a name.
    #[must_use]
    pub fn get(&self, module: &str, field: &str) -> Option<&Extern> {
        self.offered.get(module)?.get(field)
    }

    /// What a module imports, in its order. Types are not looked at yet.
    ///
    /// # Errors
    /// [`Error::Link`] for the first import that is not offered.
    pub fn resolve(&self, module: &Module) -> Result<Vec<Extern>, Error> {
        let one = |import: &Import| {
            let found = self.get(&import.module, &import.field).cloned();
            found.ok_or_else(|| error(import, LinkErrorKind::Unknown))
        };
        module.imports.iter().map(one).collect()
    }
}

/// The imports of one module, by kind, each of the type that it asks for.
#[derive(Debug, Default)]
pub(crate) struct Linked {
    pub(crate) funcs: Vec<Func>,
    pub(crate) tables: Vec<Table>,
    pub(crate) memories: Vec<Memory>,
    pub(crate) globals: Vec<Global>,
    pub(crate) tags: Vec<Tag>,
}

/// Checks what is given for a module's imports, in their order, and sorts it by kind.
pub(crate) fn check(context: &mut dyn Context, program: &Program, given: &[Extern]) -> Result<Linked, Error> {
    let (module, types) = (&program.module, &program.types);
    let mut linked = Linked::default();
    for (at, import) in module.imports.iter().enumerate() {
        let what = given.get(at).ok_or_else(|| error(import, LinkErrorKind::Unknown))?;
        let unfit = |why: String| error(import, LinkErrorKind::Incompatible(why));
        match (import.entity, what) {
            (Entity::Function(index), Extern::Func(func)) => {
                check_func(types, module.functions[index.index()].ty, func).map_err(unfit)?;
                linked.funcs.push(func.clone());
            }
            (Entity::Table(index), Extern::Table(table)) => {
                let size = table.size(context)?;
                check_table(types, module.tables[index.index()], table, size).map_err(unfit)?;
                linked.tables.push(table.clone());
            }
            (Entity::Memory(index), Extern::Memory(memory)) => {
                check_memory(module, index, memory).map_err(unfit)?;
                linked.memories.push(memory.clone());
            }
            (Entity::Global(index), Extern::Global(global)) => {
                check_global(types, module.globals[index.index()], global).map_err(unfit)?;
                global.claim(context.running())?;
                linked.globals.push(global.clone());
            }
            (Entity::Tag(index), Extern::Tag(tag)) => {
                check_tag(types, module.tags[index.index()], tag).map_err(unfit)?;
                linked.tags.push(tag.clone());
            }
            (wanted, found) => return Err(unfit(format!("expected a {}, found a {}", kind(wanted), found.kind()))),
        }
    }
    Ok(linked)
}

fn error(import: &Import, kind: LinkErrorKind) -> Error {
    let Import { module, field, .. } = import.clone();
    LinkError { module, field, kind }.into()
}

fn check_func(types: &Types, wanted: TypeIndex, func: &Func) -> Result<(), String> {
    if types::is_subtype(func.type_id(), types.id(wanted)) {
        return Ok(());
    }
    let (wanted, found) = (show(types.func(wanted)), show(func.ty()));
    if wanted == found {
        return Err(format!("both are {found}, but the type found is not declared a subtype of the one expected"));
    }
    Err(format!("expected {wanted}, found {found}"))
}

fn check_table(types: &Types, wanted: TableType, table: &Table, size: u64) -> Result<(), String> {
    let found = table.ty();
    let element = types.reference(wanted.element);
    if element != found.element {
        return Err(format!("expected elements of {element}, found {}", found.element));
    }
    check_index_type(wanted.table64, found.table64)?;
    check_limits("elements", (wanted.min, wanted.max), (size, found.max))
}

fn check_memory(module: &Module, index: MemoryIndex, memory: &Memory) -> Result<(), String> {
    let (wanted, found) = (module.memories[index.index()], memory.ty());
    let name = |shared| if shared { "a shared memory" } else { "an unshared memory" };
    if wanted.shared != found.shared {
        return Err(format!("expected {}, found {}", name(wanted.shared), name(found.shared)));
    }
    check_index_type(wanted.memory64, found.memory64)?;
    if wanted.page_size_log2 != found.page_size_log2 {
        return Err(format!("expected pages of {} bytes, found {}", wanted.page_size(), found.page_size()));
    }
    check_limits("pages", (wanted.min, wanted.max), (memory.pages(), found.max))
}

/// An index type fits only itself.
fn check_index_type(wanted: bool, found: bool) -> Result<(), String> {
    let name = |wide| if wide { "i64" } else { "i32" };
    if wanted == found { Ok(()) } else { Err(format!("expected indices of {}, found {}", name(wanted), name(found))) }
}

fn check_global(types: &Types, wanted: GlobalType, global: &Global) -> Result<(), String> {
    let found = global.ty();
    let content = types.val(wanted.content);
    let name = |mutable| if mutable { "mutable" } else { "immutable" };
    // What can change must stay of the type on both sides.
    let fits = if wanted.mutable { content == found.content } else { types::matches(found.content, content) };
    if wanted.mutable == found.mutable && fits {
        return Ok(());
    }
    Err(format!("expected {} {}, found {} {}", name(wanted.mutable), content, name(found.mutable), found.content))
}

fn check_tag(types: &Types, wanted: TypeIndex, tag: &Tag) -> Result<(), String> {
    if types.id(wanted) == tag.type_id() {
        return Ok(());
    }
    Err(format!("expected {}, found {}", show(types.func(wanted)), show(tag.ty())))
}

/// Limits fit where there is at least what is asked for, and at most as much to come.
fn check_limits(what: &str, wanted: (u64, Option<u64>), found: (u64, Option<u64>)) -> Result<(), String> {
    if found.0 < wanted.0 {
        return Err(format!("expected at least {} {what}, found {}", wanted.0, found.0));
    }
    match (wanted.1, found.1) {
        (Some(wanted), None) => Err(format!("expected at most {wanted} {what}, found no maximum")),
        (Some(wanted), Some(found)) if found > wanted => {
            Err(format!("expected at most {wanted} {what}, found a maximum of {found}"))
        }
        _ => Ok(()),
    }
}

fn kind(entity: Entity) -> &'static str {
    match entity {
        Entity::Function(_) => "function",
        Entity::Table(_) => "table",
        Entity::Memory(_) => "memory",
        Entity::Global(_) => "global",
        Entity::Tag(_) => "tag",
    }
}

impl Extern {
    fn kind(&self) -> &'static str {
        match self {
            Self::Func(_) => "function",
            Self::Table(_) => "table",
            Self::Memory(_) => "memory",
            Self::Global(_) => "global",
            Self::Tag(_) => "tag",
        }
    }
}

/// A function type as people write it.
fn show(ty: &FuncType) -> String {
    let list = |types: &[_]| types.iter().map(ToString::to_string).collect::<Vec<String>>().join(" ");
    format!("({}) -> ({})", list(&ty.params), list(&ty.results))
}
