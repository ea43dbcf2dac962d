//! How guest code fails: stable codes with the WebAssembly specification's messages.

use std::fmt;

/// Why a guest thread trapped. The number is stable; compiled code carries it as the trap code of an instruction.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum TrapCode {
    /// `unreachable` was executed.
    Unreachable = 1,
    /// A linear memory access, or a data segment, out of bounds.
    MemoryOutOfBounds = 2,
    /// A table access, or an element segment, out of bounds.
    TableOutOfBounds = 3,
    /// `call_indirect` on a table index past the table's end.
    UndefinedElement = 4,
    /// `call_indirect` on a null element.
    UninitializedElement = 5,
    /// `call_indirect` on a function of another type.
    IndirectCallTypeMismatch = 6,
    /// Signed division overflowed, or a float does not fit the integer.
    IntegerOverflow = 7,
    /// Division or remainder by zero.
    IntegerDivideByZero = 8,
    /// A NaN was converted to an integer.
    InvalidConversion = 9,
    /// The guest stack, or the host's headroom on it, ran out.
    StackOverflow = 10,
    /// An atomic access to an address that is not a multiple of its size.
    UnalignedAtomic = 11,
    /// `memory.atomic.wait` on a memory that is not shared.
    ExpectedSharedMemory = 12,
    /// A null reference was used.
    NullReference = 13,
    /// The thread was cancelled from outside.
    Interrupted = 14,
    /// The reason is in the thread context (a host function's error, an exit, a builtin's status). Never shown.
    Pending = 15,
    /// An array access, or one of several elements, out of bounds.
    ArrayOutOfBounds = 16,
    /// `ref.cast` on a reference to something else.
    CastFailure = 17,
    /// The garbage-collected heap has no room for an object.
    OutOfMemory = 18,
}

impl TrapCode {
    /// All codes.
    pub const ALL: &'static [Self] = &[
        Self::Unreachable,
        Self::MemoryOutOfBounds,
        Self::TableOutOfBounds,
        Self::UndefinedElement,
        Self::UninitializedElement,
        Self::IndirectCallTypeMismatch,
        Self::IntegerOverflow,
        Self::IntegerDivideByZero,
        Self::InvalidConversion,
        Self::StackOverflow,
        Self::UnalignedAtomic,
        Self::ExpectedSharedMemory,
        Self::NullReference,
        Self::Interrupted,
        Self::Pending,
        Self::ArrayOutOfBounds,
        Self::CastFailure,
        Self::OutOfMemory,
    ];

    /// The number that compiled code carries: 1 to 250.
    #[must_use]
    pub const fn raw(self) -> u8 {
        self as u8
    }

    /// The code of that number.
    #[must_use]
    pub fn from_raw(raw: u8) -> Option<Self> {
        Self::ALL.iter().copied().find(|code| code.raw() == raw)
    }

    /// The specification's message.
    #[must_use]
    pub const fn message(self) -> &'static str {
        match self {
            Self::Unreachable => "unreachable",
            Self::MemoryOutOfBounds => "out of bounds memory access",
            Self::TableOutOfBounds => "out of bounds table access",
            Self::UndefinedElement => "undefined element",
            Self::UninitializedElement => "uninitialized element",
            Self::IndirectCallTypeMismatch => "indirect call type mismatch",
            Self::IntegerOverflow => "integer overflow",
            Self::IntegerDivideByZero => "integer divide by zero",
            Self::InvalidConversion => "invalid conversion to integer",
            Self::StackOverflow => "call stack exhausted",
            Self::UnalignedAtomic => "unaligned atomic",
            Self::ExpectedSharedMemory => "expected shared memory",
            Self::NullReference => "null reference",
            Self::Interrupted => "interrupted",
            Self::Pending => "pending",
            Self::ArrayOutOfBounds => "out of bounds array access",
            Self::CastFailure => "cast failure",
            Self::OutOfMemory => "out of memory",
        }
    }
}

impl fmt::Display for TrapCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.message())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn raw_codes_round_trip_and_are_distinct() {
        for code in TrapCode::ALL {
            assert_eq!(TrapCode::from_raw(code.raw()), Some(*code));
        }
        assert_eq!(TrapCode::from_raw(0), None);
        assert_eq!(TrapCode::from_raw(251), None);
    }
}
