//! Memory for objects of guest code: what exceptions are made of.
//!
//! Invariants: an object never moves, is aligned to 16 and zeroed, and lives until its thread and every [`Root`] of it are
//! gone; only the thread allocates. Cost: an allocation adds to a pointer; 64 KiB at a time.
#![expect(unsafe_code, reason = "hands out memory by address")]

use std::alloc;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use crate::tag::Tag;

/// Bytes taken from the system at once, at least.
const CHUNK: usize = 64 << 10;

/// Bytes that a heap may take in all.
const LIMIT: usize = 1 << 30;

/// The objects of one thread.
#[derive(Default)]
pub(crate) struct Heap {
    chunks: RefCell<Vec<Chunk>>,
    /// What is free of the last chunk: addresses.
    free: Cell<(usize, usize)>,
    taken: Cell<usize>,
    /// Tags of objects that no instance may keep alive.
    tags: RefCell<Vec<Tag>>,
}

// SAFETY: only the thread that owns it calls its methods; others, by their roots, only keep it alive and read objects.
unsafe impl Sync for Heap {}
// SAFETY: nothing in it is bound to an OS thread.
unsafe impl Send for Heap {}

impl Heap {
    /// Memory for an object, zeroed; `None` where the heap is full.
    pub(crate) fn allocate(&self, bytes: usize) -> Option<NonNull<u8>> {
        let bytes = bytes.checked_next_multiple_of(16)?;
        let (start, end) = self.free.get();
        let start = if bytes <= end - start { start } else { self.grow(bytes)? };
        let (_, end) = self.free.get();
        self.free.set((start + bytes, end));
        NonNull::new(std::ptr::with_exposed_provenance_mut(start))
    }

    /// Takes a chunk with room for so many bytes: where it starts.
    fn grow(&self, bytes: usize) -> Option<usize> {
        let size = bytes.max(CHUNK);
        let taken = self.taken.get().checked_add(size).filter(|taken| *taken <= LIMIT)?;
        let chunk = Chunk::new(size)?;
        self.taken.set(taken);
        let start = chunk.memory.as_ptr().expose_provenance();
        self.free.set((start, start + size));
        self.chunks.borrow_mut().push(chunk);
        Some(start)
    }

    /// Keeps a tag for as long as the objects.
    pub(crate) fn keep(&self, tag: &Tag) {
        let mut tags = self.tags.borrow_mut();
        if !tags.iter().any(|known| known.same(tag)) {
            tags.push(tag.clone());
        }
    }
}

impl fmt::Debug for Heap {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Heap").field("taken", &self.taken.get()).finish_non_exhaustive()
    }
}

/// A reference that the host holds to an object, which it keeps alive.
#[derive(Clone, Debug)]
pub(crate) struct Root {
    heap: Arc<Heap>,
    object: usize,
}

impl Root {
    /// # Safety
    /// `object` is the address of an object of the heap.
    pub(crate) unsafe fn new(heap: &Arc<Heap>, object: usize) -> Self {
        Self { heap: Arc::clone(heap), object }
    }

    /// The object's address.
    pub(crate) fn object(&self) -> usize {
        self.object
    }

    /// Whether it is of that heap.
    pub(crate) fn is_of(&self, heap: &Arc<Heap>) -> bool {
        Arc::ptr_eq(&self.heap, heap)
    }
}

struct Chunk {
    memory: NonNull<u8>,
    layout: alloc::Layout,
}

impl Chunk {
    fn new(size: usize) -> Option<Self> {
        let layout = alloc::Layout::from_size_align(size, 16).ok()?;
        // SAFETY: the size is not 0: it is a chunk's, or that of an object with a header.
        let memory = unsafe { alloc::alloc_zeroed(layout) };
        Some(Self { memory: NonNull::new(memory)?, layout })
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { alloc::dealloc(self.memory.as_ptr(), self.layout) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn objects_are_apart_aligned_and_zeroed() {
        let heap = Heap::default();
        let mut before = 0..0;
        for size in [1, 16, 40, CHUNK - 32, 3 * CHUNK, 8].into_iter().cycle().take(60) {
            let object = heap.allocate(size).expect("room");
            let address = object.as_ptr().addr();
            assert!(
                address.is_multiple_of(16) && !before.contains(&address) && !before.contains(&(address + size - 1))
            );
            // SAFETY: so many bytes were asked for.
            let bytes = unsafe { std::slice::from_raw_parts_mut(object.as_ptr(), size) };
            assert!(bytes.iter().all(|byte| *byte == 0));
            bytes.fill(0xff);
            before = address..address + size;
        }
        assert!(heap.allocate(LIMIT).is_none() && heap.allocate(usize::MAX).is_none());
        assert!(heap.allocate(1).is_some(), "what fits still fits");
    }
}
