//! Where objects lie: in cells of blocks, a block for one size of cells; a large object has a block of its own.
//!
//! ```text
//! block, at a multiple of 256 KiB │ Header: cell size, which cells live, which are marked │ cell │ cell │ …
//! ```
//!
//! Invariants: the block of an object is its address rounded down. A cell is free if it did not live after the last
//! collection and no object has been put there since: runs of free cells are given out one after another, so a run that has
//! been begun is taken as a whole by the next look. Marks change nothing until [`Blocks::sweep`].
//! Cost: a look at a bit a cell, once between two collections.
#![expect(unsafe_code, reason = "memory for objects")]

use std::ptr::{self, NonNull};

use rustix::param::page_size;

use crate::mapping::Mapping;

/// Bytes of a block, and what its address is a multiple of.
const BLOCK: usize = 256 << 10;

/// Blocks that are mapped at once.
const CHUNK: usize = 4;

/// Bytes of the smallest cell.
const SMALLEST: usize = 16;

/// The fewest cells that a block is shared by.
const FEWEST: usize = 8;

/// Bytes of cells, ascending: multiples of 8 up to 64, then each about a sixth larger than the one before, so that as
/// little as possible of a block is left over.
const SIZES: [u32; count_sizes()] = sizes();

const fn next_size(size: usize) -> usize {
    if size < 64 {
        return size + 8;
    }
    let cells = (BLOCK - HEADER) / (size * 7 / 6);
    (BLOCK - HEADER) / cells / 8 * 8
}

const fn count_sizes() -> usize {
    let (mut size, mut count) = (SMALLEST, 1);
    while (BLOCK - HEADER) / size > FEWEST {
        size = next_size(size);
        count += 1;
    }
    count
}

const fn sizes() -> [u32; count_sizes()] {
    let mut sizes = [0; count_sizes()];
    let (mut size, mut index) = (SMALLEST, 0);
    while index < sizes.len() {
        #[expect(clippy::cast_possible_truncation, reason = "below 2^18")]
        let bytes = size as u32;
        sizes[index] = bytes;
        size = next_size(size);
        index += 1;
    }
    sizes
}

/// The largest object that shares a block.
const SMALL: usize = SIZES[SIZES.len() - 1] as usize;

/// For each size in units of 8 bytes the first of [`SIZES`] that suffices.
const CLASSES: [u8; SMALL / 8 + 1] = classes();

const fn classes() -> [u8; SMALL / 8 + 1] {
    let mut table = [0; SMALL / 8 + 1];
    let (mut units, mut class) = (0, 0u8);
    while units < table.len() {
        if units * 8 > SIZES[class as usize] as usize {
            class += 1;
        }
        table[units] = class;
        units += 1;
    }
    table
}

/// What a freed cell is overwritten with where mistakes are looked for: a reference of it leads nowhere.
const POISON: u8 = 0xf8;

/// Words of a bitmap with a bit for each of the smallest cells of a block.
const WORDS: usize = BLOCK / SMALLEST / 64;

/// The start of a block.
#[repr(C, align(16))]
pub(super) struct Header {
    /// Bytes of a cell.
    cell: u32,
    /// Cells.
    cells: u32,
    /// 2^32 / `cell`, rounded up.
    reciprocal: u32,
    /// Which cells are reached.
    marks: [u64; WORDS],
    /// Which were after the last collection.
    live: [u64; WORDS],
}

/// Bytes before the first cell.
const HEADER: usize = size_of::<Header>();

impl Header {
    /// The block of an object.
    ///
    /// # Safety
    /// `object` is the address of an object of a heap.
    pub(super) unsafe fn of<'a>(object: usize) -> &'a mut Self {
        let header = ptr::with_exposed_provenance_mut::<Self>(object & !(BLOCK - 1));
        // SAFETY: a block begins with its header; the collector of the one thread that has it holds no other borrow.
        unsafe { &mut *header }
    }

    /// Marks an object of this block; answers whether it was not marked yet.
    pub(super) fn mark(&mut self, object: usize) -> bool {
        let offset = (object & (BLOCK - 1)) - HEADER;
        // Exact for offsets below 2^18: what it is too large by, times the offset, is below 2^32 / 16.
        let index = (offset as u64 * u64::from(self.reciprocal)) >> 32;
        debug_assert!(offset.is_multiple_of(self.cell as usize), "an object begins where its cell does");
        let (word, bit) = (usize::try_from(index / 64).expect("below 2^18"), 1u64 << (index % 64));
        let marked = self.marks[word] & bit != 0;
        self.marks[word] |= bit;
        !marked
    }

    fn set_up(&mut self, cell: u32, cells: u32) {
        self.cell = cell;
        self.cells = cells;
        self.reciprocal = u32::MAX.checked_div(cell).map_or(0, |quotient| quotient + 1);
        self.marks = [0; WORDS];
        self.live = [0; WORDS];
    }

    /// The bits that have cells, by words.
    fn words(&self) -> std::ops::Range<usize> {
        0..self.cells.div_ceil(64) as usize
    }

    /// Forgets all marks.
    fn clear_marks(&mut self) {
        let words = self.words();
        self.marks[words].fill(0);
    }

    /// Lets live what is marked: how many cells that is.
    fn settle(&mut self) -> u32 {
        let words = self.words();
        self.live[words.clone()].copy_from_slice(&self.marks[words.clone()]);
        self.live[words].iter().map(|word| word.count_ones()).sum()
    }

    /// Overwrites free cells with what is no object.
    fn poison(&mut self) {
        let first = ptr::from_mut(self).cast::<u8>().wrapping_add(HEADER);
        let cell = self.cell as usize;
        for index in 0..self.cells as usize {
            if self.live[index / 64] >> (index % 64) & 1 == 0 {
                // SAFETY: a cell of this block that nothing refers to.
                unsafe { first.wrapping_add(index * cell).write_bytes(POISON, cell) };
            }
        }
    }

    /// The first run of free cells from one on: its start and end.
    fn free_run(&self, from: u32) -> Option<(u32, u32)> {
        let start = self.find(from, |word| !word)?;
        Some((start, self.find(start, |word| word).unwrap_or(self.cells)))
    }

    /// The first cell from one on whose bit is set after `map`.
    fn find(&self, from: u32, map: impl Fn(u64) -> u64) -> Option<u32> {
        let live = &self.live[self.words()];
        let mut word = from / 64;
        let mut bits = map(*live.get(word as usize)?) & (u64::MAX << (from % 64));
        while bits == 0 {
            word += 1;
            bits = map(*live.get(word as usize)?);
        }
        let found = word * 64 + bits.trailing_zeros();
        (found < self.cells).then_some(found)
    }
}

/// All blocks of a heap.
pub(super) struct Blocks {
    classes: [Class; SIZES.len()],
    /// Blocks that hold nothing.
    free: Vec<NonNull<Header>>,
    chunks: Vec<Mapping>,
    large: Vec<Large>,
    /// Bytes mapped.
    taken: usize,
}

impl Default for Blocks {
    fn default() -> Self {
        let classes = [(); SIZES.len()].map(|()| Class::default());
        Self { classes, free: Vec::new(), chunks: Vec::new(), large: Vec::new(), taken: 0 }
    }
}

/// Blocks with cells of one size.
#[derive(Default)]
struct Class {
    blocks: Vec<NonNull<Header>>,
    /// How many of them have been looked at since the last collection.
    seen: usize,
    /// The run of cells that is being given out, in the last of those: addresses.
    run: (usize, usize),
    /// The cell behind that run.
    next: u32,
}

/// A large object.
struct Large {
    mapping: Mapping,
    block: NonNull<Header>,
}

impl Blocks {
    /// A cell for an object, zeroed; `None` where there is no room below a limit of bytes mapped.
    pub(super) fn take(&mut self, bytes: usize, limit: usize) -> Option<NonNull<u8>> {
        if bytes > SMALL {
            return self.take_large(bytes, limit);
        }
        let class = CLASSES[bytes.div_ceil(8)] as usize;
        let cell = SIZES[class] as usize;
        if self.classes[class].run.0 == self.classes[class].run.1 {
            self.find_run(class, limit)?;
        }
        let run = &mut self.classes[class].run;
        let address = run.0;
        run.0 += cell;
        let object = NonNull::new(ptr::with_exposed_provenance_mut::<u8>(address))?;
        // SAFETY: a free cell of a mapped block.
        unsafe { object.write_bytes(0, cell) };
        Some(object)
    }

    /// Finds cells for a class.
    fn find_run(&mut self, class: usize, limit: usize) -> Option<()> {
        let size = SIZES[class];
        loop {
            let of = &mut self.classes[class];
            if let Some(current) = of.seen.checked_sub(1) {
                let block = of.blocks[current];
                // SAFETY: a block of this heap, and no other borrow of it lives.
                if let Some((start, end)) = unsafe { block.as_ref() }.free_run(of.next) {
                    let first = block.as_ptr().expose_provenance() + HEADER;
                    of.run = (first + (start * size) as usize, first + (end * size) as usize);
                    of.next = end;
                    return Some(());
                }
            }
            if of.seen == of.blocks.len() {
                let mut block = self.take_block(limit)?;
                let cells = u32::try_from((BLOCK - HEADER) / size as usize).expect("below 2^18");
                // SAFETY: a block of this heap that nothing lies in.
                unsafe { block.as_mut() }.set_up(size, cells);
                self.classes[class].blocks.push(block);
            }
            let of = &mut self.classes[class];
            of.seen += 1;
            of.next = 0;
        }
    }

    /// A block that holds nothing.
    fn take_block(&mut self, limit: usize) -> Option<NonNull<Header>> {
        if let Some(block) = self.free.pop() {
            return Some(block);
        }
        // Fewer at the limit than usual.
        let count = ((limit.checked_sub(self.taken)?) / BLOCK).min(CHUNK);
        if count == 0 {
            return None;
        }
        let (mapping, first) = map(count * BLOCK)?;
        self.taken += count * BLOCK;
        self.chunks.push(mapping);
        self.free.extend((0..count).rev().map(|index| at(first, index * BLOCK)));
        self.free.pop()
    }

    fn take_large(&mut self, bytes: usize, limit: usize) -> Option<NonNull<u8>> {
        let size = bytes.checked_add(HEADER)?.checked_next_multiple_of(page_size())?;
        self.taken.checked_add(size).filter(|taken| *taken <= limit)?;
        let (mapping, mut block) = map(size)?;
        self.taken += size;
        // SAFETY: fresh memory.
        unsafe { block.as_mut() }.set_up(0, 1);
        self.large.push(Large { mapping, block });
        Some(at(block, HEADER).cast())
    }

    /// Bytes mapped.
    pub(super) fn taken(&self) -> usize {
        self.taken
    }

    /// Forgets all marks.
    pub(super) fn clear_marks(&mut self) {
        let small = self.classes.iter().flat_map(|class| &class.blocks);
        for block in small.chain(self.large.iter().map(|large| &large.block)) {
            // SAFETY: a block of this heap, and no other borrow of it lives.
            unsafe { &mut *block.as_ptr() }.clear_marks();
        }
    }

    /// Frees what is not marked; answers how many bytes live. Of blocks that then hold nothing, about `keep` bytes and as
    /// many as live stay mapped. With `poison` all that is freed is overwritten.
    pub(super) fn sweep(&mut self, keep: usize, poison: bool) -> usize {
        let mut live = 0;
        for class in &mut self.classes {
            let free = &mut self.free;
            class.blocks.retain(|block| {
                // SAFETY: a block of this heap, and no other borrow of it lives.
                let header = unsafe { &mut *block.as_ptr() };
                let count = header.settle();
                if poison {
                    header.poison();
                }
                live += (count * header.cell) as usize;
                if count == 0 {
                    free.push(*block);
                }
                count != 0
            });
            (class.seen, class.run, class.next) = (0, (0, 0), 0);
        }
        let taken = &mut self.taken;
        self.large.retain(|large| {
            // SAFETY: a block of this heap, and no other borrow of it lives.
            let marked = unsafe { large.block.as_ref() }.marks[0] != 0;
            let size = large.size();
            if marked {
                live += size;
            } else {
                *taken -= size;
            }
            marked
        });
        self.release(live.max(keep));
        live
    }

    /// Unmaps chunks of which all blocks are free, while more than so many bytes are.
    fn release(&mut self, keep: usize) {
        let mut spare = (self.free.len() * BLOCK).saturating_sub(keep);
        if spare < CHUNK * BLOCK {
            return;
        }
        self.free.sort_unstable();
        let (free, taken) = (&mut self.free, &mut self.taken);
        self.chunks.retain(|chunk| {
            let first: NonNull<Header> = first_block(chunk);
            let blocks = (chunk.length() - BLOCK) / BLOCK;
            let start = free.partition_point(|block| *block < first);
            let end = free.partition_point(|block| *block < at(first, blocks * BLOCK));
            let all = end - start == blocks && blocks * BLOCK <= spare;
            if all {
                free.drain(start..end);
                spare -= blocks * BLOCK;
                *taken -= blocks * BLOCK;
            }
            !all
        });
        // Low addresses first, so that what is free keeps to few chunks.
        self.free.reverse();
    }
}

impl Large {
    /// Bytes of its block.
    fn size(&self) -> usize {
        self.mapping.length() - BLOCK
    }
}

/// Maps memory at a multiple of [`BLOCK`]: zeroed.
fn map(size: usize) -> Option<(Mapping, NonNull<Header>)> {
    let mapping = Mapping::reserve(size.checked_add(BLOCK)?).ok()?;
    // All of it, so that the system can join neighbours: there are only so many mappings. What is not touched costs nothing.
    mapping.commit(0..mapping.length()).ok()?;
    let first = first_block(&mapping);
    Some((mapping, first))
}

/// The first multiple of [`BLOCK`] in a mapping, which is that much larger than what is used of it.
fn first_block(mapping: &Mapping) -> NonNull<Header> {
    let base = mapping.base();
    let skip = base.as_ptr().addr().next_multiple_of(BLOCK) - base.as_ptr().addr();
    at(base, skip).cast()
}

/// An address behind another, in the same mapping.
fn at<T>(base: NonNull<T>, offset: usize) -> NonNull<T> {
    let address = base.as_ptr().cast::<u8>().wrapping_add(offset).cast();
    NonNull::new(address).expect("a mapping does not reach address 0")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NO_LIMIT: usize = usize::MAX;

    fn mark(object: NonNull<u8>) -> bool {
        let address = object.as_ptr().addr();
        // SAFETY: an object of the test's heap.
        unsafe { Header::of(address) }.mark(address)
    }

    #[test]
    fn sizes_waste_little() {
        assert!(SIZES.windows(2).all(|pair| pair[0] < pair[1]) && SIZES.iter().all(|size| size % 8 == 0));
        for bytes in 1..=SMALL {
            let cell = SIZES[CLASSES[bytes.div_ceil(8)] as usize] as usize;
            assert!(cell >= bytes, "{bytes} in {cell}");
            assert!(bytes < 64 || cell - bytes <= cell / 5, "{bytes} in {cell}");
        }
        for size in SIZES {
            let left = (BLOCK - HEADER) % size as usize;
            assert!(left <= BLOCK / 32, "{left} bytes of a block with cells of {size}");
        }
    }

    #[test]
    fn every_cell_has_a_bit_of_its_own() {
        for size in SIZES {
            let mut blocks = Blocks::default();
            let objects: Vec<_> = (0..(BLOCK / size as usize) + 3)
                .map(|_| blocks.take(size as usize, NO_LIMIT).expect("memory"))
                .collect();
            assert!(objects.iter().all(|object| mark(*object)), "{size}");
            assert!(objects.iter().all(|object| !mark(*object)), "{size}");
        }
    }

    #[test]
    fn what_is_marked_stays_and_the_rest_is_used_again() {
        let mut blocks = Blocks::default();
        for size in [16, 24, 96, 2000, SMALL, SMALL + 1, 1 << 20] {
            let objects: Vec<_> = (0..100).map(|_| blocks.take(size, NO_LIMIT).expect("memory")).collect();
            for object in &objects {
                // SAFETY: so many bytes were asked for.
                unsafe { object.write_bytes(0xaa, size) };
            }
            blocks.clear_marks();
            let kept: Vec<_> = objects.iter().copied().step_by(3).collect();
            assert!(kept.iter().all(|object| mark(*object)));
            let live = blocks.sweep(0, true);
            assert!(live >= kept.len() * size && live <= kept.len() * (size + size / 4 + 2 * HEADER), "{size}: {live}");
            let taken = blocks.taken();
            for _ in 0..objects.len() - kept.len() {
                let object = blocks.take(size, NO_LIMIT).expect("memory");
                assert!(!kept.contains(&object));
                // SAFETY: so many bytes were asked for.
                let bytes = unsafe { std::slice::from_raw_parts(object.as_ptr(), size) };
                assert!(bytes.iter().all(|byte| *byte == 0), "a new object is zero");
            }
            assert!(size > SMALL || blocks.taken() == taken, "{size}: the free cells were enough");
            for object in kept {
                // SAFETY: it was kept.
                let bytes = unsafe { std::slice::from_raw_parts(object.as_ptr(), size) };
                assert!(bytes.iter().all(|byte| *byte == 0xaa), "what is kept is left alone");
            }
            blocks.clear_marks();
            assert_eq!(blocks.sweep(0, true), 0);
        }
        assert!(blocks.taken() <= 2 * CHUNK * BLOCK, "{} bytes are kept", blocks.taken());
    }

    #[test]
    fn the_limit_holds() {
        let mut blocks = Blocks::default();
        let limit = 3 * BLOCK + BLOCK / 2;
        let count = std::iter::from_fn(|| blocks.take(SMALL, limit)).count();
        assert_eq!(count, 3 * FEWEST);
        assert!(blocks.taken() <= limit);
        assert!(blocks.take(1 << 18, limit).is_none() && blocks.take(usize::MAX, limit).is_none());
    }
}
