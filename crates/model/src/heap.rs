//! Objects of the garbage-collected heap, as compiled code and the runtime both see them.
//!
//! ```text
//! structure │ word u32 │ fields, from byte 4 on, in order, each aligned to its size (at most 8)
//! array     │ word u32 │ length u32 │ elements, from byte 8 on, packed
//! ```
//!
//! Invariants: an object's address is a multiple of 8, its first word says what it is ([`word`]), and it never moves. A
//! subtype's fields begin with its supertype's, so they lie at the same places.

use crate::index::TypeIndex;
use crate::types::{FieldType, StorageType, ValType};

/// Bits of an object's first word that tell a structure, an array and an exception apart; the others are the canonical
/// number of its type. A process has far fewer than 2^30 types.
pub const KIND: u32 = 0b11 << 30;
/// [`KIND`] of a structure.
pub const STRUCT: u32 = 0b01 << 30;
/// [`KIND`] of an array.
pub const ARRAY: u32 = 0b10 << 30;
/// [`KIND`] of an exception, whose other bits are zero.
pub const EXCEPTION: u32 = 0b11 << 30;

/// The first word of an object of a type with that canonical number.
///
/// # Panics
/// If the number is 2^30 or more: a process has far fewer types.
#[must_use]
pub const fn word(kind: u32, id: TypeIndex) -> u32 {
    assert!(id.0 & KIND == 0, "a process has far fewer types");
    kind | id.0
}

/// Offset of an object's first word.
pub const WORD: i32 = 0;
/// Offset of an array's length, in elements.
pub const LENGTH: i32 = 4;
/// Offset of an array's first element.
pub const ELEMENTS: i32 = 8;

/// Low bits of a reference that is no object: an `i31` has the lowest one set, a host's own reference the other.
pub const NO_OBJECT: u64 = 0b11;
/// Set in an `i31`; its value is in the 31 bits above.
pub const I31: u64 = 0b01;
/// The low bits of a host's own reference; its number is in the bits above.
pub const HOST: u64 = 0b10;

/// Bytes that a field or an element takes.
#[must_use]
pub const fn size_of(storage: StorageType) -> u32 {
    match storage {
        StorageType::I8 => 1,
        StorageType::I16 => 2,
        StorageType::Val(ValType::I32 | ValType::F32) => 4,
        StorageType::Val(ValType::I64 | ValType::F64 | ValType::Ref(_)) => 8,
        StorageType::Val(ValType::V128) => 16,
    }
}

/// Where the fields of a structure lie.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StructLayout {
    /// The offset of each field.
    pub offsets: Box<[u32]>,
    /// Bytes of the whole object.
    pub size: u32,
}

impl StructLayout {
    /// The layout of a structure with these fields: validation allows 10,000.
    #[must_use]
    pub fn new(fields: &[FieldType]) -> Self {
        let mut end: u32 = 4;
        let offsets = fields
            .iter()
            .map(|field| {
                let size = size_of(field.storage);
                let offset = end.next_multiple_of(size.min(8));
                end = offset + size;
                offset
            })
            .collect();
        Self { offsets, size: end }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_subtype_has_its_supertype_s_fields_where_that_has_them() {
        let field = |storage| FieldType { storage, mutable: true };
        let value = |ty| field(StorageType::Val(ty));
        let fields = [
            field(StorageType::I8),
            field(StorageType::I16),
            value(ValType::I32),
            value(ValType::V128),
            field(StorageType::I8),
            value(ValType::FUNCREF),
            value(ValType::F32),
        ];
        let all = StructLayout::new(&fields);
        assert_eq!(*all.offsets, [4, 6, 8, 16, 32, 40, 48]);
        assert_eq!(all.size, 52);
        for length in 0..fields.len() {
            let prefix = StructLayout::new(&fields[..length]);
            assert_eq!(*prefix.offsets, all.offsets[..length]);
        }
        assert_eq!(StructLayout::new(&[]).size, 4);
    }
}
