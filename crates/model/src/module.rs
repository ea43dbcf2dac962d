//! What a WebAssembly module declares, without its code: plain tables, read by every stage and by the runtime.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

use crate::index::{DataIndex, ElemIndex, FuncIndex, GlobalIndex, MemoryIndex, TableIndex, TagIndex, TypeIndex};
use crate::types::{FuncType, GlobalType, MemoryType, TableType, ValType};
use crate::typespace::TypeSpace;

/// A validated module. Index spaces hold imported entities first, in the order of [`Module::imports`].
#[derive(Clone, Debug, Default)]
pub struct Module {
    /// The module's own name, from the name section.
    pub name: Option<String>,
    /// Types. Equal ones may appear more than once.
    pub types: TypeSpace,
    /// Imports, in the order of the module.
    pub imports: Vec<Import>,
    /// All functions, imported ones first.
    pub functions: Vec<Function>,
    /// How many of [`Module::functions`] are imported.
    pub imported_functions: u32,
    /// All tables, imported ones first.
    pub tables: Vec<TableType>,
    /// How many of [`Module::tables`] are imported.
    pub imported_tables: u32,
    /// What the elements of defined tables are at first, in order; `None`: null.
    pub table_inits: Vec<Option<ConstExpr>>,
    /// All memories, imported ones first.
    pub memories: Vec<MemoryType>,
    /// How many of [`Module::memories`] are imported.
    pub imported_memories: u32,
    /// All globals, imported ones first.
    pub globals: Vec<GlobalType>,
    /// How many of [`Module::globals`] are imported.
    pub imported_globals: u32,
    /// The initial values of defined globals, in order.
    pub global_inits: Vec<ConstExpr>,
    /// All exception tags, imported ones first: the types of what they carry, functions without results.
    pub tags: Vec<TypeIndex>,
    /// How many of [`Module::tags`] are imported.
    pub imported_tags: u32,
    /// Exports, in the order of the module.
    pub exports: Vec<Export>,
    /// The start function.
    pub start: Option<FuncIndex>,
    /// Element segments.
    pub elements: Vec<ElementSegment>,
    /// Data segments.
    pub data: Vec<DataSegment>,
    /// Functions whose reference can be taken (by an element segment, `ref.func`, an export or a global), ascending:
    /// each has a [`crate::context::FuncRef`] in the instance context, at its position in this list.
    pub escaped: Vec<FuncIndex>,
    /// Functions whose reference the guest itself can take (element segments, `ref.func` in code or in a global),
    /// ascending: those an indirect call may reach. A reference to another one comes from a host, and is to a reference
    /// stub, which polls.
    pub address_taken: Vec<FuncIndex>,
    /// Tables that code writes (`table.set`, `grow`, `fill`, `copy`, `init`): their contents are not known statically.
    pub written_tables: BTreeSet<TableIndex>,
    /// Each indirect call of the code, by the byte offset of its operator: the table and type it names.
    pub indirect_calls: BTreeMap<u32, (TableIndex, TypeIndex)>,
    /// The types by which code calls references that it holds (`call_ref`): of such a call no callee is known.
    pub reference_calls: BTreeSet<TypeIndex>,
}

/// A name of a module as it can be shown on a terminal or in a log: one line, control characters escaped.
#[must_use]
pub fn printable(name: &str) -> Cow<'_, str> {
    if !name.contains(char::is_control) {
        return Cow::Borrowed(name);
    }
    let show = |c: char| if c.is_control() { c.escape_default().to_string() } else { c.to_string() };
    Cow::Owned(name.chars().map(show).collect())
}

/// One import.
#[derive(Clone, Debug)]
pub struct Import {
    /// First name.
    pub module: String,
    /// Second name.
    pub field: String,
    /// What is imported.
    pub entity: Entity,
}

/// One export.
#[derive(Clone, Debug)]
pub struct Export {
    /// Its name.
    pub name: String,
    /// What is exported.
    pub entity: Entity,
}

/// Something that can be imported or exported, by its place in its index space.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Entity {
    /// A function.
    Function(FuncIndex),
    /// A table.
    Table(TableIndex),
    /// A linear memory.
    Memory(MemoryIndex),
    /// A global.
    Global(GlobalIndex),
    /// An exception tag.
    Tag(TagIndex),
}

/// One function of the index space.
#[derive(Clone, Debug)]
pub struct Function {
    /// Its type.
    pub ty: TypeIndex,
    /// Its name from the name section, else (for text input) its identifier.
    pub name: Option<String>,
    /// Where its body lies, in bytes from the start of the module; empty for an imported function.
    pub body: Range<u32>,
}

/// A constant expression (core spec 3.4.13 with extended constants), in postfix order.
pub type ConstExpr = Vec<ConstOp>;

/// One operator of a [`ConstExpr`].
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum ConstOp {
    /// `i32.const`
    I32(i32),
    /// `i64.const`
    I64(i64),
    /// `f32.const`, as bits
    F32(u32),
    /// `f64.const`, as bits
    F64(u64),
    /// `v128.const`, little endian
    V128(u128),
    /// `ref.null`
    RefNull,
    /// `ref.func`
    RefFunc(FuncIndex),
    /// `global.get`
    GlobalGet(GlobalIndex),
    /// `i32.add`
    I32Add,
    /// `i32.sub`
    I32Sub,
    /// `i32.mul`
    I32Mul,
    /// `i64.add`
    I64Add,
    /// `i64.sub`
    I64Sub,
    /// `i64.mul`
    I64Mul,
    /// `ref.i31`
    RefI31,
    /// `struct.new`
    StructNew(TypeIndex),
    /// `struct.new_default`
    StructNewDefault(TypeIndex),
    /// `array.new`
    ArrayNew(TypeIndex),
    /// `array.new_default`
    ArrayNewDefault(TypeIndex),
    /// `array.new_fixed`, with how many elements
    ArrayNewFixed(TypeIndex, u32),
}

impl ConstOp {
    /// Whether it makes an object: another one each time it is evaluated.
    #[must_use]
    pub const fn allocates(self) -> bool {
        matches!(
            self,
            Self::StructNew(_)
                | Self::StructNewDefault(_)
                | Self::ArrayNew(_)
                | Self::ArrayNewDefault(_)
                | Self::ArrayNewFixed(..)
        )
    }
}

/// An element segment.
#[derive(Clone, Debug)]
pub struct ElementSegment {
    /// When it is copied, and where to.
    pub mode: ElementMode,
    /// Its elements, one expression each.
    pub items: Vec<ConstExpr>,
}

/// When an element segment is copied.
#[derive(Clone, Debug)]
pub enum ElementMode {
    /// At instantiation.
    Active {
        /// Destination table.
        table: TableIndex,
        /// Destination index.
        offset: ConstExpr,
    },
    /// By `table.init`.
    Passive,
    /// Never: it only declares references.
    Declared,
}

/// A data segment.
#[derive(Clone, Debug)]
pub struct DataSegment {
    /// Where it goes at instantiation; `None` for a passive segment.
    pub active: Option<(MemoryIndex, ConstExpr)>,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl Module {
    /// The type of a function.
    #[must_use]
    pub fn func_type(&self, func: FuncIndex) -> &FuncType {
        self.types.func(self.functions[func.index()].ty)
    }

    /// What exceptions of a tag carry.
    #[must_use]
    pub fn tag_params(&self, tag: TagIndex) -> &[ValType] {
        &self.types.func(self.tags[tag.index()]).params
    }

    /// Whether a function is imported.
    #[must_use]
    pub fn is_imported(&self, func: FuncIndex) -> bool {
        func.0 < self.imported_functions
    }

    /// The defined functions, in order.
    pub fn defined_functions(&self) -> impl ExactSizeIterator<Item = FuncIndex> + use<> {
        #[expect(clippy::cast_possible_truncation, reason = "wasm index spaces hold at most 2^32 entries")]
        let end = self.functions.len() as u32;
        (self.imported_functions..end).map(FuncIndex)
    }

    /// What tables hold when the module has been instantiated, as far as the module itself says.
    pub fn initial_elements(&self) -> impl Iterator<Item = (TableIndex, &ConstExpr)> {
        let tables = (self.imported_tables..).map(TableIndex);
        let inits = tables.zip(&self.table_inits).filter_map(|(table, init)| Some((table, init.as_ref()?)));
        let active = self.elements.iter().filter_map(|segment| match segment.mode {
            ElementMode::Active { table, .. } => Some(segment.items.iter().map(move |item| (table, item))),
            ElementMode::Passive | ElementMode::Declared => None,
        });
        inits.chain(active.flatten())
    }

    /// Tables of which the module itself says all that they can hold: neither imported nor exported, written by no code,
    /// and filled with references to functions and nulls alone.
    #[must_use]
    pub fn closed_tables(&self) -> BTreeSet<TableIndex> {
        let defined = (0u32..).zip(&self.tables).skip(self.imported_tables as usize);
        let mut closed: BTreeSet<_> = defined.map(|(index, _)| TableIndex(index)).collect();
        closed.retain(|table| !self.written_tables.contains(table));
        for export in &self.exports {
            if let Entity::Table(table) = export.entity {
                closed.remove(&table);
            }
        }
        for (table, item) in self.initial_elements() {
            if !matches!(item[..], [ConstOp::RefFunc(_) | ConstOp::RefNull]) {
                closed.remove(&table);
            }
        }
        closed
    }

    /// The types by which code calls references that may come from anywhere.
    pub fn open_call_types(&self) -> impl Iterator<Item = TypeIndex> {
        let closed = self.closed_tables();
        let indirect = self.indirect_calls.values().filter(move |(table, _)| !closed.contains(table));
        indirect.map(|(_, ty)| *ty).chain(self.reference_calls.iter().copied())
    }

    /// Whether any memory is shared between threads.
    #[must_use]
    pub fn has_shared_memory(&self) -> bool {
        self.memories.iter().any(|m| m.shared)
    }

    /// The export of that name.
    #[must_use]
    pub fn export(&self, name: &str) -> Option<Entity> {
        self.exports.iter().find(|e| e.name == name).map(|e| e.entity)
    }

    /// What people see as the function's name: the name section's, else its export name, else `func[N]`.
    #[must_use]
    pub fn func_name(&self, func: FuncIndex) -> String {
        if let Some(name) = &self.functions[func.index()].name {
            return name.clone();
        }
        let export = self.exports.iter().find(|e| e.entity == Entity::Function(func));
        export.map_or_else(|| format!("func[{}]", func.0), |e| e.name.clone())
    }

    /// [`Module::func_name`] of every function, in one pass.
    #[must_use]
    pub fn func_names(&self) -> Vec<String> {
        let mut exported = BTreeMap::new();
        for export in self.exports.iter().rev() {
            if let Entity::Function(func) = export.entity {
                exported.insert(func.0, &export.name);
            }
        }
        (0u32..)
            .zip(&self.functions)
            .map(|(index, function)| match (&function.name, exported.get(&index)) {
                (Some(name), _) => name.clone(),
                (None, Some(export)) => (*export).clone(),
                (None, None) => format!("func[{index}]"),
            })
            .collect()
    }

    /// The defined function whose body holds a byte offset of the module.
    #[must_use]
    pub fn func_at(&self, offset: u32) -> Option<FuncIndex> {
        let defined = &self.functions[self.imported_functions as usize..];
        let after = defined.partition_point(|f| f.body.start <= offset);
        let at = after.checked_sub(1)?;
        #[expect(clippy::cast_possible_truncation, reason = "wasm index spaces hold at most 2^32 entries")]
        let index = at as u32 + self.imported_functions;
        defined[at].body.contains(&offset).then_some(FuncIndex(index))
    }

    /// The position of an escaped function in [`Module::escaped`].
    #[must_use]
    pub fn escaped_position(&self, func: FuncIndex) -> Option<usize> {
        self.escaped.binary_search(&func).ok()
    }

    /// An element segment.
    #[must_use]
    pub fn element(&self, index: ElemIndex) -> &ElementSegment {
        &self.elements[index.index()]
    }

    /// A data segment.
    #[must_use]
    pub fn data_segment(&self, index: DataIndex) -> &DataSegment {
        &self.data[index.index()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_stay_on_their_line() {
        assert_eq!(printable("plain ünï"), "plain ünï");
        assert_eq!(printable("a\n\u{1b}[2J"), "a\\n\\u{1b}[2J");
    }
}
