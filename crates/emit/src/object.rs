//! Machine code → one relocatable object file, for a linker to place.
//!
//! Invariants: the only undefined symbols are builtins (`spw_*`); the only global ones are exports and tables, all
//! behind the module's prefix ([`crate::mangle`]); every other function is local under its own name. The bytes depend
//! on the input alone.
//!
//! | section | contents |
//! |---|---|
//! | `.text` | code |
//! | `.spw.traps` | where code may trap and handles exceptions (see `trap_table`), by symbol `PREFIX_Ttraps` |
//! | `.spw.maps` | where references lie in frames (see `map_table`), by symbol `PREFIX_Tmaps`; only if there are any |
//! | `.spw.guards` | given by the caller, by symbol `PREFIX_Tguards` |
//! | `.spw.meta` | given by the caller, by symbol `PREFIX_Tmetadata` |
//!
//! On Mach-O the sections are `__TEXT,__spw_traps` and so on.

use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_module::{DataDescription, FuncId, Linkage, Module as _};
use cranelift_object::{ObjectBuilder, ObjectModule, ObjectProduct};
use object::write::{Symbol, SymbolSection};
use object::{SymbolFlags, SymbolKind, SymbolScope};
use spinwise_model::module::{Entity, Module};
use spinwise_model::symbol::NS_FUNC;
use target_lexicon::{BinaryFormat, Endianness};

use crate::compile::Compiled;
use crate::error::Error;
use crate::link::{self, Linker};
use crate::mangle;

/// What travels in an object beside code and traps: bytes in formats that belong to their writers, and that must say
/// their own length, since a linker may pad them.
#[derive(Clone, Copy, Debug, Default)]
pub struct Tables<'a> {
    /// The guard table.
    pub guards: &'a [u8],
    /// Whatever a runtime needs to instantiate the module.
    pub metadata: &'a [u8],
}

/// The version of the trap table's format.
pub const TRAP_TABLE_VERSION: u32 = 2;

/// The version of the stack map table's format.
pub const MAP_TABLE_VERSION: u32 = 1;

/// Writes compiled functions as a relocatable object; `prefix` is the module's own in all global symbols.
///
/// # Errors
/// If the code refers to a function that is not there, or the object format cannot hold it.
pub fn object(
    isa: &OwnedTargetIsa,
    module: &Module,
    compiled: Vec<Compiled>,
    prefix: &str,
    tables: Tables<'_>,
) -> Result<Vec<u8>, Error> {
    let compiled = link::with_helpers(&**isa, compiled)?;
    let big_endian = isa.triple().endianness() == Ok(Endianness::Big);
    let traps = trap_table(&compiled, big_endian);
    let maps = map_table(&compiled, big_endian);

    let builder = ObjectBuilder::new(isa.clone(), prefix, cranelift_module::default_libcall_names());
    let mut writer = ObjectModule::new(builder.map_err(|error| Error::Object(error.to_string()))?);
    let linker = Linker::declare(&mut writer, &compiled)?;
    let mut functions = Vec::with_capacity(compiled.len());
    for function in compiled {
        let id = linker.define(&mut writer, &function)?;
        functions.push((id, function.name, function.symbol));
    }
    let own = [("traps", Some(&*traps)), ("maps", maps.as_deref())];
    let given = [("guards", Some(tables.guards)), ("metadata", Some(tables.metadata))];
    for (name, bytes) in own.into_iter().chain(given) {
        let Some(bytes) = bytes else { continue };
        define_table(&mut writer, isa.triple().binary_format, prefix, name, bytes)?;
    }

    let mut product = writer.finish();
    for (id, _, symbol) in &functions {
        let symbol_id = product.function_symbol(*id);
        product.object.symbol_mut(symbol_id).name = symbol.replace('\0', "?").into_bytes();
    }
    let mut defined = vec![None; module.functions.len()];
    for (id, name, _) in &functions {
        if let (NS_FUNC, Some(slot)) = (name.namespace, defined.get_mut(name.index as usize)) {
            *slot = Some(*id);
        }
    }
    for export in &module.exports {
        if let Entity::Function(func) = export.entity {
            let id = defined.get(func.index()).copied().flatten().ok_or_else(|| Error::Link {
                function: module.func_name(func),
                reason: "is exported but not compiled, always a bug".to_owned(),
            })?;
            define_export(&mut product, id, &mangle::mangle(prefix, &export.name));
        }
    }
    product.emit().map_err(|error| Error::Object(error.to_string()))
}

/// A second name, visible to the linker, for a function.
fn define_export(product: &mut ObjectProduct, id: FuncId, name: &str) {
    let target = product.function_symbol(id);
    let &Symbol { value, size, section, .. } = product.object.symbol(target);
    debug_assert!(matches!(section, SymbolSection::Section(_)), "defined above");
    product.object.add_symbol(Symbol {
        name: name.as_bytes().to_vec(),
        value,
        size,
        kind: SymbolKind::Text,
        scope: SymbolScope::Dynamic,
        weak: false,
        section,
        flags: SymbolFlags::None,
    });
}

/// Bytes in a section of their own, which a linker keeps though nothing refers to it.
fn define_table(
    writer: &mut ObjectModule,
    format: BinaryFormat,
    prefix: &str,
    name: &str,
    bytes: &[u8],
) -> Result<(), Error> {
    let failed = |error: cranelift_module::ModuleError| Error::Object(error.to_string());
    let id = writer.declare_data(&mangle::table(prefix, name), Linkage::Export, false, false).map_err(failed)?;
    let short = if name == "metadata" { "meta" } else { name };
    let mut data = DataDescription::new();
    data.set_custom_section(&match format {
        BinaryFormat::Macho => format!("__TEXT,__spw_{short}"),
        _ => format!(".spw.{short}"),
    });
    data.set_align(8);
    data.set_used(true);
    data.define(bytes.into());
    writer.define_data(id, &data).map_err(failed)
}

/// Where code may trap and which calls have handlers for exceptions, in the target's byte order, by offsets from the start
/// of each function, so that a linker may place functions as it likes and the table needs no relocation:
///
/// ```text
/// u32 version, u32 functions, then for each function
///     u32 namespace, u32 index    which function (see spinwise_model::symbol)
///     u32 length                  of its code, in bytes
///     u32 traps, then for each trap, ascending
///         u32 offset, u32 code, u32 wasm offset (u32::MAX: none)
///     u32 handlers, then for each call that has one, ascending
///         u32 offset it returns to, u32 offset of the handler, u32 bytes from the frame pointer down to the stack pointer
/// ```
fn trap_table(compiled: &[Compiled], big_endian: bool) -> Vec<u8> {
    let mut table = Table { bytes: Vec::new(), big_endian };
    let mut put = |word| table.put(word);
    put(TRAP_TABLE_VERSION);
    put(count(compiled.len()));
    for function in compiled {
        for word in
            [function.name.namespace, function.name.index, count(function.code.len()), count(function.traps.len())]
        {
            put(word);
        }
        for trap in &function.traps {
            for word in [trap.offset, trap.code.into(), trap.wasm_offset] {
                put(word);
            }
        }
        put(count(function.handlers.len()));
        for site in &function.handlers {
            for word in [site.offset, site.handler, site.frame] {
                put(word);
            }
        }
    }
    table.bytes
}

/// Where references lie in frames during calls, in the target's byte order; `None` where there are none:
///
/// ```text
/// u32 version, u32 functions that have such calls, then for each function
///     u32 namespace, u32 index    which function (see spinwise_model::symbol)
///     u32 calls, then for each call, ascending
///         u32 offset              of what it returns to, in the function
///         u32 frame               bytes from the stack pointer to the frame pointer
///         u32 references, u32 each: its offset from the stack pointer
///         u32 counts, u32 each: the offset of a 64-bit number, behind which lie as many references
/// ```
fn map_table(compiled: &[Compiled], big_endian: bool) -> Option<Vec<u8>> {
    let mapped = || compiled.iter().filter(|function| !function.stack_maps.is_empty());
    mapped().next()?;
    let mut table = Table { bytes: Vec::new(), big_endian };
    let mut put = |word| table.put(word);
    put(MAP_TABLE_VERSION);
    put(count(mapped().count()));
    for function in mapped() {
        for word in [function.name.namespace, function.name.index, count(function.stack_maps.len())] {
            put(word);
        }
        for map in &function.stack_maps {
            put(map.offset);
            put(map.frame);
            for offsets in [&map.references, &map.counted] {
                put(count(offsets.len()));
                offsets.iter().for_each(|offset| put(*offset));
            }
        }
    }
    Some(table.bytes)
}

/// Words in the target's byte order.
struct Table {
    bytes: Vec<u8>,
    big_endian: bool,
}

impl Table {
    fn put(&mut self, word: u32) {
        self.bytes.extend(if self.big_endian { word.to_be_bytes() } else { word.to_le_bytes() });
    }
}

fn count(length: usize) -> u32 {
    u32::try_from(length).expect("code and counts are far below 4 Gi")
}
