//! Linear memories: address space reserved once, pages made accessible as the memory grows, never moved.
//!
//! Invariants: `length` only grows, and is published after the pages it covers are accessible, so whoever reads a length
//! may access every byte below it. Growth is serialised by a lock: racing threads see distinct old sizes. The bytes belong
//! to guests, which may write them at any time: the host copies in and out ([`crate::copy`]) and never borrows them.
//! Source: core spec 4.5.3.9, threads, memory64 and custom page sizes proposals. Cost: 8 GiB + 64 KiB of address space for
//! a 32-bit memory, what [`crate::reserve`] allows for others; no memory until touched.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use parking_lot::Mutex;
use rustix::param::page_size;
use spinwise_model::context::{MemoryDef, MemoryEntry};
use spinwise_model::types::MemoryType;

use crate::copy::{self, Scalar};
use crate::error::{Error, OutOfBounds};
use crate::number::to_usize;
use crate::reserve::Reservation;
use crate::wait::WaitQueue;

/// A handle to a linear memory; clones are the same memory.
#[derive(Clone)]
pub struct Memory(Arc<Inner>);

struct Inner {
    def: MemoryDef,
    space: Reservation,
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
        let no_room = |why: &dyn fmt::Display| {
            Error::Resource(format!("no room for a memory of {} pages of {} bytes: {why}", ty.min, ty.page_size()))
        };
        if ty.min > ty.max_pages() {
            return Err(no_room(&format_args!("its type allows {}", ty.max_pages())));
        }
        let length = ty.min.checked_mul(ty.page_size()).ok_or_else(|| no_room(&"more than the address space"))?;
        let space = Reservation::new(&ty, length).map_err(|why| no_room(&why))?;
        space.mapping.commit(0..to_pages(length)).map_err(|why| no_room(&why))?;
        Ok(Self(Arc::new(Inner {
            def: MemoryDef { length: AtomicU64::new(length) },
            space,
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
        self.length() >> self.0.ty.page_size_log2
    }

    /// Grows by some pages; answers the size before, or `None` where that is beyond its maximum or the machine's means.
    #[must_use]
    pub fn grow(&self, pages: u64) -> Option<u64> {
        let Inner { def, space, ty, growing, .. } = &*self.0;
        let _one_at_a_time = growing.lock();
        let old = self.pages();
        let new = old.checked_add(pages).filter(|new| *new <= ty.max_pages())?;
        let start = old * ty.page_size();
        let end = new.checked_mul(ty.page_size()).filter(|end| *end <= space.limit)?;
        space.mapping.commit(to_pages(start)..to_pages(end)).ok()?;
        // Release: who sees the length sees the pages accessible (and zero). SeqCst, since guests order growth with
        // their sequentially consistent accesses.
        def.length.store(end, Ordering::SeqCst);
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
        self.0.space.mapping.base().as_ptr()
    }

    pub(crate) fn waiters(&self) -> &WaitQueue {
        &self.0.waiters
    }

    /// What an instance context holds of it. Valid while a handle lives.
    pub(crate) fn entry(&self) -> MemoryEntry {
        MemoryEntry { base: self.base(), def: &raw const self.0.def }
    }
}

/// Bytes as an offset of whole pages of the machine, which pages of the guest may share.
fn to_pages(bytes: u64) -> usize {
    to_usize(bytes).next_multiple_of(page_size())
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
        Memory::new(MemoryType::new(min, max).shared())
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
        let message = |ty| Memory::new(ty).map_err(|e| e.to_string()).err();
        let most = "no room for a memory of 65537 pages of 65536 bytes: its type allows 65536";
        assert_eq!(message(MemoryType::new(65537, None)).as_deref(), Some(most));
        for min in [1 << 48, 1 << 47, 1 << 40, 1 << 32] {
            let message = message(MemoryType { memory64: true, ..MemoryType::new(min, None) });
            let prefix = format!("no room for a memory of {min} pages of 65536 bytes: ");
            assert!(message.as_ref().is_some_and(|message| message.starts_with(&prefix)), "{message:?}");
        }
    }

    #[test]
    fn a_huge_maximum_reserves_what_there_is() {
        for max in [None, Some(1 << 48), Some(1 << 24)] {
            let ty = MemoryType { memory64: true, ..MemoryType::new(1, max) };
            let memories: Vec<_> = (0..300).map(|_| Memory::new(ty).expect("less than asked for")).collect();
            assert_eq!(memories[0].grow(1 << 17), Some(1), "8 GiB in the first one");
            assert_eq!(memories[0].store((1 << 33) + 65532, 1u32), Ok(()));
            let last = memories.last().expect("300 of them");
            assert_eq!(last.grow(u64::MAX), None);
            assert_eq!(last.grow((1 << 47) - 1), None);
            assert_eq!(last.grow(1 << 15), Some(1), "still 2 GiB in the last one");
            let others = (0..1000).map(|_| Memory::new(MemoryType::new(1, None)).expect("room for the usual ones"));
            assert_eq!(others.collect::<Vec<_>>().len(), 1000);
        }
    }

    #[test]
    fn pages_of_one_byte_grow_within_the_machine_s_pages() {
        for memory64 in [false, true] {
            let ty = MemoryType { memory64, page_size_log2: 0, ..MemoryType::new(0, Some(10_000)) };
            let memory = Memory::new(ty).expect("a little room");
            assert_eq!(memory.load::<u8>(0), Err(OutOfBounds));
            for size in 0..9_999 {
                assert_eq!(memory.grow(1), Some(size));
                assert_eq!(memory.store(size, 1u8), Ok(()));
                assert_eq!(memory.store(size + 1, 1u8), Err(OutOfBounds));
            }
            assert_eq!((memory.grow(2), memory.grow(1), memory.grow(1)), (None, Some(9_999), None));
            let empty = Memory::new(MemoryType { max: Some(0), ..ty }).expect("nothing at all");
            assert_eq!((empty.pages(), empty.grow(1)), (0, None));
        }
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
