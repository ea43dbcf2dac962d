//! Growth of memories, and `memory.copy`, `fill`, `init`, `data.drop`.
//!
//! Ranges are checked before anything is written; long ones are worked off in chunks, between which an ended process is
//! noticed. Source: core spec 4.4.7.
#![expect(unsafe_code, reason = "called by compiled code")]

use std::ops::Range;

use spinwise_model::trap::TrapCode;

use crate::copy;
use crate::error::OutOfBounds;
use crate::instance::Inner;
use crate::number::to_usize;
use crate::thread::Running;

/// Bytes between two looks at the process.
const CHUNK: usize = 1 << 20;

impl From<OutOfBounds> for TrapCode {
    fn from(_: OutOfBounds) -> Self {
        Self::MemoryOutOfBounds
    }
}

/// Runs a builtin's body for the instance of a context; a trap becomes a status.
///
/// # Safety
/// `context` is that of an instance whose code is running, here.
pub(super) unsafe fn status(context: *const u8, body: impl FnOnce(&Inner, Running<'_>) -> Result<(), TrapCode>) -> u32 {
    // SAFETY: as the caller vouches.
    let instance = unsafe { Inner::calling(context) };
    // SAFETY: as the caller vouches.
    let running = unsafe { instance.running() };
    match body(instance, running) {
        Ok(()) => 0,
        Err(code) => running.fail(code),
    }
}

/// `spw_memory_grow`
pub(super) unsafe extern "C" fn memory_grow(context: *const u8, memory: u32, pages: u64) -> u64 {
    // SAFETY: compiled code passes its own context.
    let instance = unsafe { Inner::calling(context) };
    instance.memory(memory).grow(pages).unwrap_or(u64::MAX)
}

/// `spw_memory_copy`
pub(super) unsafe extern "C" fn memory_copy(
    context: *const u8,
    destination_memory: u32,
    source_memory: u32,
    destination: u64,
    source: u64,
    length: u64,
) -> u32 {
    let body = |instance: &Inner, running: Running<'_>| {
        let from = instance.memory(source_memory).at(source, length)?;
        let to = instance.memory(destination_memory).at(destination, length)?;
        let copy = |chunk: Range<usize>| {
            // SAFETY: both ranges are inside their memories.
            unsafe { copy::within_guest(to.wrapping_add(chunk.start), from.wrapping_add(chunk.start), chunk.len()) };
        };
        // Overlapping ranges: from the end that is overwritten last.
        let chunks = chunks(to_usize(length));
        if to.addr() <= from.addr() { each(running, chunks, copy) } else { each(running, chunks.rev(), copy) }
    };
    // SAFETY: compiled code passes its own context.
    unsafe { status(context, body) }
}

/// `spw_memory_fill`
pub(super) unsafe extern "C" fn memory_fill(
    context: *const u8,
    memory: u32,
    destination: u64,
    byte: u32,
    length: u64,
) -> u32 {
    let body = |instance: &Inner, running: Running<'_>| {
        let to = instance.memory(memory).at(destination, length)?;
        let [byte, ..] = byte.to_le_bytes();
        each(running, chunks(to_usize(length)), |chunk| {
            // SAFETY: the range is inside the memory.
            unsafe { copy::fill_guest(to.wrapping_add(chunk.start), byte, chunk.len()) };
        })
    };
    // SAFETY: compiled code passes its own context.
    unsafe { status(context, body) }
}

/// `spw_memory_init`
pub(super) unsafe extern "C" fn memory_init(
    context: *const u8,
    memory: u32,
    segment: u32,
    destination: u64,
    source: u32,
    length: u32,
) -> u32 {
    let body = |instance: &Inner, running: Running<'_>| {
        let gone = instance.dropped_data[segment as usize].get();
        let bytes = if gone { &[][..] } else { &instance.module().data[segment as usize].bytes };
        let source = source as usize;
        let bytes = source.checked_add(length as usize).and_then(|end| bytes.get(source..end));
        let bytes = bytes.ok_or(TrapCode::MemoryOutOfBounds)?;
        let to = instance.memory(memory).at(destination, length.into())?;
        each(running, chunks(bytes.len()), |chunk| copy::into_guest(to.wrapping_add(chunk.start), &bytes[chunk]))
    };
    // SAFETY: compiled code passes its own context.
    unsafe { status(context, body) }
}

/// `spw_data_drop`
pub(super) unsafe extern "C" fn data_drop(context: *const u8, segment: u32) {
    // SAFETY: compiled code passes its own context.
    let instance = unsafe { Inner::calling(context) };
    instance.dropped_data[segment as usize].set(true);
}

/// A range in pieces.
fn chunks(length: usize) -> impl DoubleEndedIterator<Item = Range<usize>> {
    (0..length.div_ceil(CHUNK)).map(move |i| i * CHUNK..length.min((i + 1) * CHUNK))
}

/// Works off pieces while the process has not ended.
pub(super) fn each(
    running: Running<'_>,
    chunks: impl Iterator<Item = Range<usize>>,
    mut work: impl FnMut(Range<usize>),
) -> Result<(), TrapCode> {
    for chunk in chunks {
        running.check()?;
        work(chunk);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_a_range_once() {
        for length in [0, 1, CHUNK - 1, CHUNK, CHUNK + 1, 3 * CHUNK + 7] {
            let all: Vec<_> = chunks(length).collect();
            assert!(all.windows(2).all(|pair| pair[0].end == pair[1].start));
            assert_eq!(all.iter().map(Range::len).sum::<usize>(), length);
            assert!(all.iter().all(|chunk| !chunk.is_empty()));
        }
    }
}
