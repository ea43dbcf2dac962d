//! Index newtypes: one for each WebAssembly index space, so that a table index cannot be used for a memory.
//!
//! Cost: a `u32` each.

/// Defines an index newtype over `u32`.
macro_rules! index {
    ($(#[$doc:meta])* $name:ident) => {
        $(#[$doc])*
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(transparent)]
        pub struct $name(pub u32);

        impl $name {
            /// The index as a `usize`, for subscripting.
            #[must_use]
            pub const fn index(self) -> usize {
                self.0 as usize
            }
        }

        impl From<u32> for $name {
            fn from(index: u32) -> Self {
                Self(index)
            }
        }
    };
}

index! {
    /// A function, imported ones first (WebAssembly core spec 2.5.1).
    FuncIndex
}
index! {
    /// A type of the type section.
    TypeIndex
}
index! {
    /// A table, imported ones first.
    TableIndex
}
index! {
    /// A linear memory, imported ones first.
    MemoryIndex
}
index! {
    /// A global, imported ones first.
    GlobalIndex
}
index! {
    /// An exception tag, imported ones first.
    TagIndex
}
index! {
    /// An element segment.
    ElemIndex
}
index! {
    /// A data segment.
    DataIndex
}
