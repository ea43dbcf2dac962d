//! WebAssembly types (core spec 2.3), as far as both sides need them.

use std::fmt;

use crate::context::MEMORY64_GUARD;
use crate::index::TypeIndex;

/// The type of a value.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum ValType {
    /// 32-bit integer.
    I32,
    /// 64-bit integer.
    I64,
    /// 32-bit float.
    F32,
    /// 64-bit float.
    F64,
    /// 128-bit vector.
    V128,
    /// Reference: 64 bits in compiled code, 0 for null; see [`HeapType`].
    Ref(RefType),
}

impl ValType {
    /// Nullable reference to any function.
    pub const FUNCREF: Self = Self::Ref(RefType::FUNC);
    /// Nullable reference of the host's own.
    pub const EXTERNREF: Self = Self::Ref(RefType::EXTERN);

    /// Whether values of this type are references.
    #[must_use]
    pub const fn is_ref(self) -> bool {
        matches!(self, Self::Ref(_))
    }
}

impl fmt::Display for ValType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::I32 => "i32",
            Self::I64 => "i64",
            Self::F32 => "f32",
            Self::F64 => "f64",
            Self::V128 => "v128",
            Self::Ref(ty) => return ty.fmt(f),
        })
    }
}

/// The type of a reference.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct RefType {
    /// Whether it may be null.
    pub nullable: bool,
    /// What it refers to.
    pub heap: HeapType,
}

impl RefType {
    /// Nullable reference to any function.
    pub const FUNC: Self = Self { nullable: true, heap: HeapType::Func };
    /// Nullable reference of the host's own.
    pub const EXTERN: Self = Self { nullable: true, heap: HeapType::Extern };
}

impl fmt::Display for RefType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.nullable, self.heap) {
            (true, HeapType::Type(_)) | (false, _) => {
                write!(f, "(ref {}{})", if self.nullable { "null " } else { "" }, self.heap)
            }
            (true, HeapType::None) => f.write_str("nullref"),
            (true, HeapType::NoFunc) => f.write_str("nullfuncref"),
            (true, HeapType::NoExtern) => f.write_str("nullexternref"),
            (true, HeapType::NoExn) => f.write_str("nullexnref"),
            (true, heap) => write!(f, "{heap}ref"),
        }
    }
}

/// What a reference refers to (core spec 3.0, 2.3.4).
///
/// In compiled code a reference to a function is the address of a [`crate::context::FuncRef`]. Every other one tells by
/// its low bits what it is: an `i31` is its 31 bits shifted left by one, plus 1; a host's own reference is its number
/// shifted left by two, plus 2; an object is its address, a multiple of 8. So `any.convert_extern` changes nothing.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum HeapType {
    /// Everything that is neither a function, a host's own nor an exception.
    Any,
    /// What can be compared.
    Eq,
    /// 31-bit integer.
    I31,
    /// Any structure.
    Struct,
    /// Any array.
    Array,
    /// Nothing below `Any`.
    None,
    /// Any function.
    Func,
    /// No function.
    NoFunc,
    /// A host's own.
    Extern,
    /// No host's own.
    NoExtern,
    /// Any exception.
    Exn,
    /// No exception.
    NoExn,
    /// A type of the module; in the runtime's handles, of the process.
    Type(TypeIndex),
}

impl fmt::Display for HeapType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Any => "any",
            Self::Eq => "eq",
            Self::I31 => "i31",
            Self::Struct => "struct",
            Self::Array => "array",
            Self::None => "none",
            Self::Func => "func",
            Self::NoFunc => "nofunc",
            Self::Extern => "extern",
            Self::NoExtern => "noextern",
            Self::Exn => "exn",
            Self::NoExn => "noexn",
            Self::Type(index) => return index.0.fmt(f),
        })
    }
}

/// The type of a function.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug, Default)]
pub struct FuncType {
    /// Parameters, first to last.
    pub params: Vec<ValType>,
    /// Results, first to last.
    pub results: Vec<ValType>,
}

/// What a field or an element holds.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum StorageType {
    /// 8-bit integer.
    I8,
    /// 16-bit integer.
    I16,
    /// A value.
    Val(ValType),
}

/// The type of a field of a structure, or of the elements of an array.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct FieldType {
    /// What it holds.
    pub storage: StorageType,
    /// Whether it may be set.
    pub mutable: bool,
}

/// A type that the type section defines, without its place among its supertypes.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum CompositeType {
    /// A function.
    Func(FuncType),
    /// A structure, by its fields.
    Struct(Vec<FieldType>),
    /// An array, by its elements.
    Array(FieldType),
}

/// A type that the type section defines (core spec 3.0, 2.3.9).
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct SubType {
    /// Whether it can have no subtypes.
    pub is_final: bool,
    /// The type it is declared a subtype of.
    pub supertype: Option<TypeIndex>,
    /// The type itself.
    pub composite: CompositeType,
}

impl From<FuncType> for SubType {
    fn from(ty: FuncType) -> Self {
        Self { is_final: true, supertype: None, composite: CompositeType::Func(ty) }
    }
}

/// The type of a linear memory.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct MemoryType {
    /// Pages at the start.
    pub min: u64,
    /// Pages it may grow to; `None`: as many as the index type can address.
    pub max: Option<u64>,
    /// Whether threads share it (threads proposal).
    pub shared: bool,
    /// Whether addresses are 64 bits wide (memory64 proposal).
    pub memory64: bool,
    /// The logarithm to base 2 of the bytes in a page: [`MemoryType::PAGE`]'s, or 0 (custom page sizes proposal).
    pub page_size_log2: u8,
}

impl MemoryType {
    /// Bytes in a page, where a type does not say otherwise.
    pub const PAGE: u64 = 1 << Self::PAGE_LOG2;
    /// The logarithm of [`MemoryType::PAGE`].
    pub const PAGE_LOG2: u8 = 16;

    /// A memory of 32-bit addresses and pages of the usual size, for one thread.
    #[must_use]
    pub const fn new(min: u64, max: Option<u64>) -> Self {
        Self { min, max, shared: false, memory64: false, page_size_log2: Self::PAGE_LOG2 }
    }

    /// The same type, shared between threads.
    #[must_use]
    pub const fn shared(self) -> Self {
        Self { shared: true, ..self }
    }

    /// Bytes in a page.
    #[must_use]
    pub const fn page_size(&self) -> u64 {
        1 << self.page_size_log2
    }

    /// The most pages that a memory of this type can have: its own maximum, or what addresses and counts of pages can
    /// name.
    #[must_use]
    pub fn max_pages(&self) -> u64 {
        let counts = if self.memory64 { u64::MAX } else { u32::MAX.into() };
        let bits = if self.memory64 { 64 } else { 32 };
        let addressable = 1u128 << (bits - self.page_size_log2);
        let limit = u64::try_from(addressable).unwrap_or(u64::MAX).min(counts);
        self.max.unwrap_or(limit).min(limit)
    }

    /// Whether each access must be compared with the length. Of other memories so much is reserved that whatever address
    /// an access can form lies in it, and what lies behind the length faults.
    #[must_use]
    pub const fn is_checked(&self) -> bool {
        self.memory64 || self.page_size_log2 != Self::PAGE_LOG2
    }

    /// Bytes behind the length of a checked memory that fault, whatever the length: an access whose index is at most the
    /// length and whose offset and size come to no more than this needs no other check. With pages smaller than the
    /// machine's there are none.
    #[must_use]
    pub const fn guard(&self) -> u64 {
        if self.page_size_log2 == Self::PAGE_LOG2 { MEMORY64_GUARD } else { 0 }
    }
}

/// The type of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableType {
    /// What an element is.
    pub element: RefType,
    /// Elements at the start.
    pub min: u64,
    /// Elements it may grow to; `None`: no limit of its own.
    pub max: Option<u64>,
    /// Whether indices are 64 bits wide (memory64 proposal).
    pub table64: bool,
}

impl TableType {
    /// A table of 32-bit indices.
    #[must_use]
    pub const fn new(element: RefType, min: u64, max: Option<u64>) -> Self {
        Self { element, min, max, table64: false }
    }
}

/// The type of a global.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GlobalType {
    /// What it holds.
    pub content: ValType,
    /// Whether it may be set.
    pub mutable: bool,
}
