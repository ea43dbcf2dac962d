//! Reading and writing objects, for the host and for what is more than an access.
//!
//! Invariants: bounds are checked before anything is touched; whoever calls has an object whose first word fits the shape.
//! Cost: linear in what is copied; long work is done in chunks between which the end of the process is noticed.
#![expect(unsafe_code, reason = "objects are reached by address")]

use std::ptr::{self, NonNull};

use spinwise_model::heap::{ELEMENTS, LENGTH, WORD};
use spinwise_model::trap::TrapCode;
use spinwise_model::types::StorageType;

use super::shape::Shape;
use super::{Collect, Heap};
use crate::number::to_usize;
use crate::thread::Running;

const _: () = assert!(cfg!(target_endian = "little"), "parts of objects are read and written by their low bytes");

/// Bytes worked off between two looks at the process.
const CHUNK: usize = 1 << 20;

/// Writes the first word of a new object.
pub(super) fn set_word(object: NonNull<u8>, word: u32) {
    // SAFETY: a new object has room for its first word and is aligned to 8.
    unsafe { object.cast::<u32>().write(word) };
}

/// The first word of an object.
///
/// # Safety
/// `object` is the address of an object.
pub(crate) unsafe fn word(object: u64) -> u32 {
    let at = address::<u32>(object, WORD);
    // SAFETY: as the caller vouches.
    unsafe { at.read() }
}

/// Makes a structure of zeros and nulls: its address.
///
/// # Errors
/// As [`Heap::allocate`].
pub(crate) fn new_struct(running: Running<'_>, shape: &'static Shape, collect: Collect) -> Result<u64, TrapCode> {
    let object = Heap::allocate(running, shape, shape.struct_size(), collect)?;
    Ok(object.as_ptr().expose_provenance() as u64)
}

/// Makes an array of zeros or nulls: its address.
///
/// # Errors
/// As [`Heap::allocate`].
pub(crate) fn new_array(
    running: Running<'_>,
    shape: &'static Shape,
    length: u32,
    collect: Collect,
) -> Result<Array, TrapCode> {
    let size = shape.element_size();
    let bytes = ELEMENTS.cast_unsigned() as usize + length as usize * size;
    let object = Heap::allocate(running, shape, bytes, collect)?;
    let object = object.as_ptr().expose_provenance() as u64;
    let at = address::<u32>(object, LENGTH);
    // SAFETY: a new array has room for its length.
    unsafe { at.write(length) };
    Ok(Array { object, size, length })
}

/// An array that lives.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Array {
    /// Its address.
    pub(crate) object: u64,
    /// Bytes of an element.
    size: usize,
    length: u32,
}

impl Array {
    /// The array at an address.
    ///
    /// # Safety
    /// There is one, of the running thread's heap.
    pub(crate) unsafe fn at(running: Running<'_>, object: u64) -> Self {
        // SAFETY: as the caller vouches.
        let shape = running.own().heap.shape(unsafe { word(object) });
        let at = address::<u32>(object, LENGTH);
        // SAFETY: every array has a length.
        let length = unsafe { at.read() };
        Self { object, size: shape.element_size(), length }
    }

    /// Elements.
    pub(crate) fn length(self) -> u32 {
        self.length
    }

    /// Bytes of an element.
    pub(crate) fn element_size(self) -> usize {
        self.size
    }

    /// Fails unless elements are inside.
    ///
    /// # Errors
    /// [`TrapCode::ArrayOutOfBounds`]
    pub(crate) fn check(self, start: u32, count: u32) -> Result<(), TrapCode> {
        self.range(start, count).map(drop)
    }

    /// Where elements are, as bytes: so many, all inside.
    fn range(self, start: u32, count: u32) -> Result<(*mut u8, usize), TrapCode> {
        let end = start.checked_add(count).filter(|end| *end <= self.length);
        end.ok_or(TrapCode::ArrayOutOfBounds)?;
        let first = address::<u8>(self.object, ELEMENTS).wrapping_add(start as usize * self.size);
        Ok((first, count as usize * self.size))
    }

    /// Sets elements to a value, given by its bits.
    ///
    /// # Errors
    /// [`TrapCode::ArrayOutOfBounds`]; [`TrapCode::Interrupted`] where the process has ended meanwhile.
    pub(crate) fn fill(self, running: Running<'_>, start: u32, count: u32, bits: u128) -> Result<(), TrapCode> {
        let (first, bytes) = self.range(start, count)?;
        let pattern = bits.to_le_bytes();
        let value = &pattern[..self.size];
        let mut at = 0;
        while at < bytes {
            running.check()?;
            let end = bytes.min(at + CHUNK);
            if value.iter().all(|byte| *byte == value[0]) {
                // SAFETY: inside the elements.
                unsafe { first.wrapping_add(at).write_bytes(value[0], end - at) };
            } else {
                for offset in (at..end).step_by(self.size) {
                    // SAFETY: inside the elements: chunks are multiples of every size.
                    unsafe { first.wrapping_add(offset).copy_from_nonoverlapping(value.as_ptr(), self.size) };
                }
            }
            at = end;
        }
        Ok(())
    }

    /// Copies elements of another array whose elements are as large, or of the same one.
    ///
    /// # Errors
    /// As [`Array::fill`].
    pub(crate) fn copy(
        self,
        running: Running<'_>,
        destination: u32,
        from: Self,
        source: u32,
        count: u32,
    ) -> Result<(), TrapCode> {
        let (to, bytes) = self.range(destination, count)?;
        let (from, _) = from.range(source, count)?;
        let chunks = 0..bytes.div_ceil(CHUNK);
        let copy = |index: usize| {
            running.check()?;
            let start = index * CHUNK;
            let length = CHUNK.min(bytes - start);
            // SAFETY: both ranges are inside their elements; they may overlap.
            unsafe { ptr::copy(from.wrapping_add(start), to.wrapping_add(start), length) };
            Ok(())
        };
        // Overlapping elements: from the end that is overwritten last.
        if to.addr() <= from.addr() { chunks.into_iter().try_for_each(copy) } else { chunks.rev().try_for_each(copy) }
    }

    /// Sets elements to what bytes say, little endian.
    ///
    /// # Errors
    /// [`TrapCode::ArrayOutOfBounds`] unless so many elements are inside.
    pub(crate) fn set_bytes(self, start: u32, count: u32, bytes: &[u8]) -> Result<(), TrapCode> {
        let (first, length) = self.range(start, count)?;
        assert_eq!(length, bytes.len(), "as many bytes as the elements have");
        // SAFETY: inside the elements.
        unsafe { first.copy_from_nonoverlapping(bytes.as_ptr(), length) };
        Ok(())
    }

    /// Sets elements to values, given by their bits.
    ///
    /// # Errors
    /// [`TrapCode::ArrayOutOfBounds`] unless all are inside.
    pub(crate) fn set(self, start: u32, count: u32, values: impl Iterator<Item = u128>) -> Result<(), TrapCode> {
        let (first, _) = self.range(start, count)?;
        for (index, bits) in (0..count as usize).zip(values) {
            // SAFETY: inside the elements.
            unsafe { write(first.wrapping_add(index * self.size), self.size, bits) };
        }
        Ok(())
    }

    /// The bits of an element.
    pub(crate) fn get(self, index: u32) -> Option<u128> {
        let (at, size) = self.range(index, 1).ok()?;
        // SAFETY: inside the elements.
        Some(unsafe { read(at, size) })
    }
}

/// Writes a field of a structure.
///
/// # Safety
/// The structure has a field of that size there.
pub(crate) unsafe fn set_field(object: u64, offset: u32, storage: StorageType, bits: u128) {
    let at = address::<u8>(object, offset.cast_signed());
    // SAFETY: as the caller vouches.
    unsafe { write(at, spinwise_model::heap::size_of(storage) as usize, bits) };
}

/// Reads a field of a structure.
///
/// # Safety
/// As for [`set_field`].
pub(crate) unsafe fn field(object: u64, offset: u32, storage: StorageType) -> u128 {
    let at = address::<u8>(object, offset.cast_signed());
    // SAFETY: as the caller vouches.
    unsafe { read(at, spinwise_model::heap::size_of(storage) as usize) }
}

/// Writes the low bytes of some bits.
///
/// # Safety
/// There are so many bytes, at most 16.
unsafe fn write(at: *mut u8, size: usize, bits: u128) {
    let bytes = bits.to_le_bytes();
    // SAFETY: as the caller vouches.
    unsafe { at.copy_from_nonoverlapping(bytes.as_ptr(), size) };
}

/// Reads the low bytes of some bits.
///
/// # Safety
/// As for [`write`].
unsafe fn read(at: *const u8, size: usize) -> u128 {
    let mut bytes = [0; 16];
    // SAFETY: as the caller vouches.
    unsafe { bytes.as_mut_ptr().copy_from_nonoverlapping(at, size) };
    u128::from_le_bytes(bytes)
}

fn address<T>(object: u64, offset: i32) -> *mut T {
    ptr::with_exposed_provenance_mut(to_usize(object) + offset.cast_unsigned() as usize)
}
