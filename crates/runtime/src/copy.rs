//! Copies between host and guest memory, safe beside guest threads that write there meanwhile.
//!
//! Invariant: guest bytes are only ever touched by relaxed atomic accesses (bytes, and aligned words in the middle of a
//! long range) or, where no host value depends on them, by the C library. What is read is read once: a guest cannot make
//! the host see two values of one byte. Callers have checked the range. Cost: about 8 bytes a cycle.
#![expect(unsafe_code, reason = "guest memory is reached by address")]

use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

const WORD: usize = size_of::<u64>();

/// A number that lies in guest memory, little endian.
pub trait Scalar: Copy + sealed::Scalar {
    #[doc(hidden)]
    fn load(from: *const u8) -> Self;
    #[doc(hidden)]
    fn store(self, to: *mut u8);
    /// Loads an aligned number, sequentially consistent.
    #[doc(hidden)]
    fn load_ordered(from: *const u8) -> Self;
}

mod sealed {
    /// Keeps the set of scalars closed.
    pub trait Scalar {}
}

macro_rules! scalar {
    ($($int:ty, $atomic:ty;)*) => {$(
        impl sealed::Scalar for $int {}
        impl Scalar for $int {
            fn load(from: *const u8) -> Self {
                if from.addr().is_multiple_of(size_of::<Self>()) {
                    let cell = from.cast::<$atomic>();
                    // SAFETY: the caller checked that the bytes are mapped for as long as their memory lives, and they
                    // are aligned; everyone else accesses them atomically too, or from guest code.
                    let cell = unsafe { &*cell };
                    return Self::from_le(cell.load(Ordering::Relaxed));
                }
                let mut bytes = [0; size_of::<Self>()];
                out_of_guest(from, &mut bytes);
                Self::from_le_bytes(bytes)
            }

            fn load_ordered(from: *const u8) -> Self {
                // SAFETY: as in `load`; callers check the alignment.
                let cell = unsafe { &*from.cast::<$atomic>() };
                Self::from_le(cell.load(Ordering::SeqCst))
            }

            fn store(self, to: *mut u8) {
                if to.addr().is_multiple_of(size_of::<Self>()) {
                    let cell = to.cast::<$atomic>();
                    // SAFETY: as in `load`.
                    let cell = unsafe { &*cell };
                    return cell.store(self.to_le(), Ordering::Relaxed);
                }
                into_guest(to, &self.to_le_bytes());
            }
        }
    )*};
}
scalar! { u8, AtomicU8; u16, AtomicU16; u32, AtomicU32; u64, AtomicU64; }

/// How many bytes come before the first aligned word of a range, all of them where it holds none.
fn head(address: usize, length: usize) -> usize {
    (address.wrapping_neg() % WORD).min(length)
}

/// Copies from guest memory.
pub(crate) fn out_of_guest(from: *const u8, into: &mut [u8]) {
    let (head, rest) = into.split_at_mut(head(from.addr(), into.len()));
    let (words, tail) = rest.as_chunks_mut::<WORD>();
    let mut from = from;
    for byte in head {
        *byte = u8::load(from);
        from = from.wrapping_add(1);
    }
    for word in words {
        *word = u64::load(from).to_le_bytes();
        from = from.wrapping_add(WORD);
    }
    for byte in tail {
        *byte = u8::load(from);
        from = from.wrapping_add(1);
    }
}

/// Copies to guest memory.
pub(crate) fn into_guest(to: *mut u8, from: &[u8]) {
    let (head, rest) = from.split_at(head(to.addr(), from.len()));
    let (words, tail) = rest.as_chunks::<WORD>();
    let mut to = to;
    for byte in head {
        byte.store(to);
        to = to.wrapping_add(1);
    }
    for word in words {
        u64::from_le_bytes(*word).store(to);
        to = to.wrapping_add(WORD);
    }
    for byte in tail {
        byte.store(to);
        to = to.wrapping_add(1);
    }
}

/// Copies within guest memory; the ranges may overlap. The guest is promised no more than bytes copied in some order.
///
/// # Safety
/// Both ranges are mapped.
pub(crate) unsafe fn within_guest(to: *mut u8, from: *const u8, length: usize) {
    // SAFETY: the caller vouches for the ranges. No host value depends on these bytes, so a race with a guest's write
    // can only mix bytes, as it may.
    unsafe { libc::memmove(to.cast(), from.cast(), length) };
}

/// Fills guest memory.
///
/// # Safety
/// The range is mapped.
pub(crate) unsafe fn fill_guest(to: *mut u8, byte: u8, length: usize) {
    // SAFETY: as in `within_guest`.
    unsafe { libc::memset(to.cast(), i32::from(byte), length) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_alignment_and_length_copies_exactly() {
        let source: Vec<u8> = (1..=64).collect();
        for at in 0..16 {
            for length in 0..40 {
                let mut guest = vec![0u64; 16];
                let base = guest.as_mut_ptr().cast::<u8>();
                into_guest(base.wrapping_add(at), &source[..length]);
                let mut back = vec![0xee; length];
                out_of_guest(base.wrapping_add(at), &mut back);
                assert_eq!(back, source[..length]);
                let all: Vec<u8> = guest.iter().flat_map(|word| word.to_ne_bytes()).collect();
                assert!(all[..at].iter().chain(&all[at + length..]).all(|byte| *byte == 0), "{at} {length}");
            }
        }
    }

    #[test]
    fn scalars_are_little_endian_at_any_address() {
        let mut guest = vec![0u64; 4];
        let base = guest.as_mut_ptr().cast::<u8>();
        for at in 0..8 {
            0x0102_0304u32.store(base.wrapping_add(at));
            assert_eq!(u8::load(base.wrapping_add(at)), 4);
            assert_eq!(u32::load(base.wrapping_add(at)), 0x0102_0304);
        }
    }
}
