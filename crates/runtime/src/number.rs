//! Conversions between the guest's 64-bit numbers and the host's `usize`, which are the same width here.

const _: () = assert!(size_of::<usize>() == 8, "guest code is generated for 64-bit hosts only");

/// A 64-bit number as a `usize`.
#[expect(clippy::cast_possible_truncation, reason = "usize is 64 bits wide, asserted above")]
pub(crate) const fn to_usize(value: u64) -> usize {
    value as usize
}

/// An index or count as a `u32`.
///
/// # Panics
/// If it does not fit: always a bug, since WebAssembly's index spaces hold at most 2^32 entries.
pub(crate) fn to_u32(value: usize) -> u32 {
    u32::try_from(value).expect("wasm index spaces hold at most 2^32 entries")
}
