//! WebAssembly types (core spec 2.3), as far as both sides need them.

use std::fmt;

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
    /// Nullable reference to a function: in compiled code the address of a [`crate::context::FuncRef`], 0 for null.
    FuncRef,
    /// Nullable opaque host reference: in compiled code a 64-bit token, 0 for null.
    ExternRef,
}

impl ValType {
    /// Whether values of this type are references.
    #[must_use]
    pub const fn is_ref(self) -> bool {
        matches!(self, Self::FuncRef | Self::ExternRef)
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
            Self::FuncRef => "funcref",
            Self::ExternRef => "externref",
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
}

impl MemoryType {
    /// Bytes in a page.
    pub const PAGE: u64 = 1 << 16;
}

/// The type of a table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TableType {
    /// What an element is: a reference type.
    pub element: ValType,
    /// Elements at the start.
    pub min: u64,
    /// Elements it may grow to; `None`: no limit of its own.
    pub max: Option<u64>,
}

/// The type of a global.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct GlobalType {
    /// What it holds.
    pub content: ValType,
    /// Whether it may be set.
    pub mutable: bool,
}
