//! What the messages of `assert_trap` mean as trap codes.
//!
//! Scripts give the reference interpreter's text, and engines differ in their wording; the kinds of trap do not differ.

use spinwise_model::trap::TrapCode;

/// The specification's messages for traps, as prefixes: some scripts add an index.
const MESSAGES: &[(&str, &[TrapCode])] = &[
    ("unreachable", &[TrapCode::Unreachable]),
    ("out of bounds memory access", &[TrapCode::MemoryOutOfBounds]),
    ("out of bounds table access", &[TrapCode::TableOutOfBounds]),
    // `call_indirect` past the end; older scripts say it of table accesses too.
    ("undefined element", &[TrapCode::UndefinedElement, TrapCode::TableOutOfBounds]),
    ("uninitialized element", &[TrapCode::UninitializedElement]),
    ("indirect call type mismatch", &[TrapCode::IndirectCallTypeMismatch]),
    ("indirect call", &[TrapCode::IndirectCallTypeMismatch]),
    ("integer overflow", &[TrapCode::IntegerOverflow]),
    ("integer divide by zero", &[TrapCode::IntegerDivideByZero]),
    ("invalid conversion to integer", &[TrapCode::InvalidConversion]),
    ("call stack exhausted", &[TrapCode::StackOverflow]),
    ("unaligned atomic", &[TrapCode::UnalignedAtomic]),
    ("expected shared memory", &[TrapCode::ExpectedSharedMemory]),
    ("null", &[TrapCode::NullReference]),
    ("out of bounds array access", &[TrapCode::ArrayOutOfBounds]),
    ("cast failure", &[TrapCode::CastFailure]),
    ("out of memory", &[TrapCode::OutOfMemory]),
    // Other engines' words.
    ("out of bounds", &[TrapCode::MemoryOutOfBounds, TrapCode::TableOutOfBounds, TrapCode::UndefinedElement]),
    ("call type mismatch", &[TrapCode::IndirectCallTypeMismatch]),
    ("divide by zero", &[TrapCode::IntegerDivideByZero]),
    ("atomic wait on non-shared memory", &[TrapCode::ExpectedSharedMemory]),
];

/// The trap codes that a message allows; empty for a message that is not known.
pub(super) fn codes(message: &str) -> &'static [TrapCode] {
    MESSAGES.iter().find(|(prefix, _)| message.starts_with(prefix)).map_or(&[], |(_, codes)| codes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_trap_is_expected_by_its_own_message() {
        for code in TrapCode::ALL {
            if !matches!(code, TrapCode::Interrupted | TrapCode::Pending | TrapCode::NullReference) {
                assert!(codes(code.message()).contains(code), "{code}");
            }
        }
        assert!(codes("something else").is_empty());
        assert_eq!(codes("uninitialized element 2"), [TrapCode::UninitializedElement]);
    }
}
