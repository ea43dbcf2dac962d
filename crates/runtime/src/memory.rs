//! Linear memories: address space reserved once, pages made accessible as the memory grows, never moved.
//!
//! Invariants: `length` only grows, and is published after the pages it covers are accessible, so whoever reads a length
//! may access every byte below it. Growth is serialised by a lock: racing threads see distinct old sizes. The bytes belong
//! to guests, which may write them at any time: the host copies in and out ([`crate::copy`]) and never borrows them.
//! Source: core spec 4.5.3.9, threads proposal. Cost: 8 GiB + 64 KiB of address space each, no memory until touched.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use spinwise_model::context::{MEMORY32_RESERVATION, MemoryDef, MemoryEntry};
use spinwise_model::types::MemoryType;

use crate::copy::{self, Scalar};
use crate::error::{Error, OutOfBounds};
use crate::mapping::Mapping;
use crate::number::to_usize;
use crate::wait::WaitQueue;

/// Pages that a 32-bit index can address.
const MAX_PAGES: u64 = 1 << 16;

/// A handle to a linear memory; clones are the same memory.
#[derive(Clone)]
pub struct Memory(Arc<Inner>);

struct Inner {
    def: MemoryDef,
    mapping: Mapping,
    ty: MemoryType,
    growing: Mutex<()>,
    waiters: WaitQueue,
}

impl Memory {
    /// A fresh memory of `ty.min` pages of zeros.
    ///
    /// # Errors
    /// [`Error::Resource`] where the type is beyond a limit, or the system gives no more address space or memory.
    pub fn new(ty: MemoryType) -> Result<Self, Error> {
        if ty.memory64 {
            return Err(Error::Resource("64-bit memories are not supported".into()));
        }
        if ty.min > MAX_PAGES {
            return Err(Error::Resource(format!("a memory of {} pages is larger than 4 GiB", ty.min)));
        }
        let no_room = |why| Error::Resource(format!("no room for a memory of {} pages: {why}", ty.min));
        let mapping = Mapping::reserve(to_usize(MEMORY32_RESERVATION)).map_err(no_room)?;
        let length = ty.min * MemoryType::PAGE;
        mapping.commit(0..to_usize(length)).map_err(no_room)?;
        Ok(Self(Arc::new(Inner {
            def: MemoryDef { length: AtomicU64::new(length) },
            mapping,
            ty,
            growing: Mutex::new(()),
            waiters: WaitQueue::new(),
        })))
    }

    /// The type it was made with. Its minimum is not its size now.
    #[must_use]
    pub fn ty(&self) -> MemoryType {
        self.0.ty
    }

    /// Length in bytes, now. Only grows.
    #[must_use]
    pub fn length(&self) -> u64 {
        self.0.def.length.load(Ordering::Acquire)
    }

    /// Size in pages, now.
    #[must_use]
    pub fn pages(&self) -> u64 {
        self.length() / MemoryType::PAGE
    }

    /// Grows by some pages; answers the size before, or `None` where that is beyond its maximum or the machine's means.
    #[must_use]
    pub fn grow(&self, pages: u64) -> Option<u64> {
        let _one_at_a_time = self.0.growing.lock();
        let old = self.pages();
        let new = old.checked_add(pages)?;
        if new > self.0.ty.max.unwrap_or(MAX_PAGES).min(MAX_PAGES) {
            return None;
        }
        let (start, end) = (old * MemoryType::PAGE, new * MemoryType::PAGE);
        self.0.mapping.commit(to_usize(start)..to_usize(end)).ok()?;
        // Release: who sees the length sees the pages accessible (and zero). SeqCst, since guests order growth with
        // their sequentially consistent accesses.
        self.0.def.length.store(end, Ordering::SeqCst);
        Some(old)
    }

    /// Copies bytes out.
    ///
    /// # Errors
    /// [`OutOfBounds`] where the range is not wholly inside; then nothing is copied.
    pub fn read(&self, address: u64, into: &mut [u8]) -> Result<(), OutOfBounds> {
        let from = self.at(address, into.len() as u64)?;
        copy::out_of_guest(from, into);
        Ok(())
    }

    /// Copies bytes in.
    ///
    /// # Errors
    /// [`OutOfBounds`] where the range is not wholly inside; then nothing is copied.
    pub fn write(&self, address: u64, from: &[u8]) -> Result<(), OutOfBounds> {
        let to = self.at(address, from.len() as u64)?;
        copy::into_guest(to, from);
        Ok(())
    }

    /// A little-endian number; a single access where the address is a multiple of its size.
    ///
    /// # Errors
    /// [`OutOfBounds`] where it is not wholly inside.
    pub fn load<T: Scalar>(&self, address: u64) -> Result<T, OutOfBounds> {
        let from = self.at(address, size_of::<T>() as u64)?;
        Ok(T::load(from))
    }

    /// Stores a little-endian number; a single access where the address is a multiple of its size.
    ///
    /// # Errors
    /// [`OutOfBounds`] where it is not wholly inside.
    pub fn store<T: Scalar>(&self, address: u64, value: T) -> Result<(), OutOfBounds> {
        let to = self.at(address, size_of::<T>() as u64)?;
        value.store(to);
        Ok(())
    }

    /// Wakes up to `count` threads that wait (`memory.atomic.wait`) at an address, longest first; answers how many.
    ///
    /// # Errors
    /// [`OutOfBounds`] where there is no such word.
    pub fn notify(&self, address: u64, count: u32) -> Result<u32, OutOfBounds> {
        self.at(address, 4)?;
        Ok(self.0.waiters.notify(address, count))
    }

    /// How many threads wait (`memory.atomic.wait`) at an address now.
    #[must_use]
    pub fn waiting(&self, address: u64) -> usize {
        self.0.waiters.waiting(address)
    }

    /// The address of a range that is wholly inside.
    pub(crate) fn at(&self, address: u64, length: u64) -> Result<*mut u8, OutOfBounds> {
        match address.checked_add(length) {
            Some(end) if end <= self.length() => Ok(self.base().wrapping_add(to_usize(address))),
            _ => Err(OutOfBounds),
        }
    }

    /// Whether both are the same memory.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub(crate) fn base(&self) -> *mut u8 {
        self.0.mapping.base().as_ptr()
    }

    pub(crate) fn waiters(&self) -> &WaitQueue {
        &self.0.waiters
    }

    /// What an instance context holds of it. Valid while a handle lives.
    pub(crate) fn entry(&self) -> MemoryEntry {
        MemoryEntry { base: self.base(), def: &raw const self.0.def }
    }
}

impl fmt::Debug for Memory {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Memory").field("ty", &self.0.ty).field("pages", &self.pages()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    fn memory(min: u64, max: Option<u64>) -> Result<Memory, Error> {
        Memory::new(MemoryType { min, max, shared: true, memory64: false })
    }

    #[test]
    fn bounds_are_bytes_of_the_present_length() {
        let memory = memory(1, Some(2)).expect("a page");
        assert_eq!(memory.store(65532, 7u32), Ok(()));
        assert_eq!(memory.load::<u32>(65532), Ok(7));
        assert_eq!(memory.load::<u32>(65533), Err(OutOfBounds));
        assert_eq!(memory.read(u64::MAX, &mut [0]), Err(OutOfBounds));
        assert_eq!(memory.write(65536, &[]), Ok(()), "an empty range at the end is inside");
        assert_eq!(memory.grow(1), Some(1));
        assert_eq!(memory.load::<u32>(65533), Ok(0), "7 has moved out by one byte");
        assert_eq!(memory.grow(1), None);
        assert_eq!(memory.grow(u64::MAX), None);
        assert_eq!(memory.grow(0), Some(2));
    }

    #[test]
    fn absurd_sizes_are_refused() {
        let message = memory(65537, None).map_err(|e| e.to_string()).err();
        assert_eq!(message.as_deref(), Some("a memory of 65537 pages is larger than 4 GiB"));
    }

    #[test]
    fn racing_growth_gives_distinct_old_sizes_and_accessible_pages() {
        let memory = memory(0, Some(400)).expect("address space");
        let grow = |_| {
            let memory = memory.clone();
            thread::spawn(move || {
                let mut seen = Vec::new();
                for _ in 0..100 {
                    let old = memory.grow(1).expect("below the maximum");
                    memory.store(old * MemoryType::PAGE, 1u8).expect("the new page is accessible");
                    seen.push(old);
                }
                seen
            })
        };
        let threads: Vec<_> = (0..4).map(grow).collect();
        let mut all: Vec<u64> = threads.into_iter().flat_map(|t| t.join().expect("no panic")).collect();
        all.sort_unstable();
        assert_eq!(all, (0..400).collect::<Vec<_>>());
        assert_eq!(memory.grow(1), None);
    }
}
