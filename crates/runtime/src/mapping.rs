//! Address space: reserved all at once, made accessible piece by piece, never moved, returned when dropped.
//!
//! Invariant: pages outside what [`Mapping::commit`] was asked for fault. Cost: a system call an operation.
#![expect(unsafe_code, reason = "memory mapping")]

use std::io;
use std::ops::Range;
use std::ptr::{self, NonNull};

use rustix::mm::{self, Advice, MapFlags, MprotectFlags, ProtFlags};

/// A reserved range of address space.
#[derive(Debug)]
pub(crate) struct Mapping {
    base: NonNull<u8>,
    length: usize,
}

// SAFETY: a mapping is plain address space, bound to no thread.
unsafe impl Send for Mapping {}
// SAFETY: its methods change page protection through the kernel, which serialises them; it hands out raw addresses only.
unsafe impl Sync for Mapping {}

impl Mapping {
    /// Reserves `length` bytes, a multiple of the page size; all of them fault.
    pub(crate) fn reserve(length: usize) -> io::Result<Self> {
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: an anonymous mapping at an address of the kernel's choice disturbs nothing.
        let base = unsafe { mm::mmap_anonymous(ptr::null_mut(), length, ProtFlags::empty(), flags) }?;
        let base = NonNull::new(base.cast()).ok_or(io::ErrorKind::OutOfMemory)?;
        Ok(Self { base, length })
    }

    /// Makes a range of bytes (of whole pages) readable and writable; fresh pages are zero.
    pub(crate) fn commit(&self, range: Range<usize>) -> io::Result<()> {
        if range.is_empty() {
            return Ok(());
        }
        let start = self.at(range.start, range.len())?;
        // SAFETY: the range lies in this mapping, and nobody relies on these pages faulting but guest code, whose
        // accesses below its memory's length are allowed from now on.
        unsafe { mm::mprotect(start, range.len(), MprotectFlags::READ | MprotectFlags::WRITE) }?;
        Ok(())
    }

    /// Gives a range's pages back to the kernel: they read as zero from now on.
    pub(crate) fn discard(&self, range: Range<usize>) -> io::Result<()> {
        let start = self.at(range.start, range.len())?;
        // SAFETY: the range lies in this mapping; the caller owns its contents.
        unsafe { mm::madvise(start, range.len(), Advice::LinuxDontNeed) }?;
        Ok(())
    }

    fn at(&self, offset: usize, length: usize) -> io::Result<*mut std::ffi::c_void> {
        if offset.checked_add(length).is_none_or(|end| end > self.length) {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        Ok(self.base.as_ptr().wrapping_add(offset).cast())
    }

    /// The lowest address.
    pub(crate) fn base(&self) -> NonNull<u8> {
        self.base
    }

    /// Bytes reserved.
    pub(crate) fn length(&self) -> usize {
        self.length
    }
}

impl Drop for Mapping {
    fn drop(&mut self) {
        // SAFETY: the range is exactly what `reserve` mapped, and its owner is going away.
        let unmapped = unsafe { mm::munmap(self.base.as_ptr().cast(), self.length) };
        debug_assert!(unmapped.is_ok(), "unmapping an own mapping cannot fail");
    }
}
