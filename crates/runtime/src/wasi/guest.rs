//! What a WASI call needs of the guest thread that makes it: its memory, and a way to wait that the process can end.
//!
//! Invariant: no call ever holds a reference into guest memory. Other threads may write to it at any time, so bytes are
//! copied in and out, and what the guest wrote is read once and then judged. A blocking call fills a bounce buffer
//! first and touches guest memory only when it is back. Every range is checked before the call has an effect; a memory
//! only grows, so a range that was inside stays inside.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use rustix::event::PollFlags;

use super::context::Call;
use super::errno::{Errno, Result};
use crate::number::to_usize;

/// The linear memory of a guest, safe beside guest threads that use it meanwhile.
///
/// Both copies answer [`Errno::Fault`] for a range that is not wholly inside, and may answer [`Errno::Intr`] when the
/// process is ending.
pub(super) trait GuestMemory {
    /// Its length in bytes, now. Never shrinks.
    fn size(&self) -> u64;

    /// Copies guest bytes from `at` into `into`.
    ///
    /// # Errors
    /// [`Errno::Fault`] if the range is out of bounds.
    fn read(&self, at: u64, into: &mut [u8]) -> Result<()>;

    /// Copies `from` to guest memory at `at`.
    ///
    /// # Errors
    /// [`Errno::Fault`] if the range is out of bounds.
    fn write(&self, at: u64, from: &[u8]) -> Result<()>;
}

/// A descriptor of the host to wait for, and what was found.
#[derive(Debug)]
pub(super) struct Readiness<'fd> {
    /// The descriptor.
    pub(super) descriptor: BorrowedFd<'fd>,
    /// What to wait for: `IN` or `OUT`. Errors and a hang-up end the wait in any case.
    pub(super) wanted: PollFlags,
    /// What is there; empty when the descriptor is not ready.
    pub(super) found: PollFlags,
}

impl<'fd> Readiness<'fd> {
    /// Not ready yet.
    pub(super) fn new(descriptor: BorrowedFd<'fd>, wanted: PollFlags) -> Self {
        Self { descriptor, wanted, found: PollFlags::empty() }
    }
}

/// A guest thread in a WASI call.
pub(super) trait Guest: GuestMemory {
    /// Waits until a descriptor is ready, the timeout (`None`: never) is over, or the process is ending, and says of each
    /// descriptor what was found. Without descriptors this is a sleep. May return early.
    ///
    /// # Errors
    /// [`Errno::Intr`] when the process is ending, else what the host's `poll` answered.
    fn wait(&self, list: &mut [Readiness<'_>], timeout: Option<Duration>) -> Result<()>;

    /// Lets others run.
    fn yield_now(&self) {
        std::thread::yield_now();
    }
}

/// Loads and stores of the sizes that the ABI uses.
pub(super) trait GuestMemoryExt: GuestMemory {
    /// Fails unless `length` bytes from `at` are inside.
    fn check(&self, at: u64, length: u64) -> Result<()> {
        match at.checked_add(length) {
            Some(end) if end <= self.size() => Ok(()),
            _ => Err(Errno::Fault),
        }
    }

    /// The bytes of a structure.
    fn load<const N: usize>(&self, at: u64) -> Result<[u8; N]> {
        let mut bytes = [0; N];
        self.read(at, &mut bytes)?;
        Ok(bytes)
    }

    fn store_u32(&self, at: u64, value: u32) -> Result<()> {
        self.write(at, &value.to_le_bytes())
    }

    fn store_u64(&self, at: u64, value: u64) -> Result<()> {
        self.write(at, &value.to_le_bytes())
    }
}

impl<M: GuestMemory + ?Sized> GuestMemoryExt for M {}

/// Address arithmetic: past the end of the address space is out of bounds. What is past the end of a memory is found out
/// where it is used.
pub(super) fn offset(at: u64, by: u64) -> Result<u64> {
    at.checked_add(by).ok_or(Errno::Fault)
}

/// Buffers that one call may name; more is [`Errno::Inval`], as with the host's `IOV_MAX`.
const MAX_SPANS: u64 = 1024;

/// Bytes that one call moves at most; the rest of a longer request is left for the next, as on Linux.
const MAX_TRANSFER: u64 = 0x7fff_f000;

/// Bytes a bounce buffer has at most.
const CHUNK: usize = 64 << 10;

/// A list of guest buffers (`iovec`s), all inside memory, with a position in it.
#[derive(Debug)]
pub(super) struct Spans {
    /// Address and length of each, consumed from the end: they are in reverse.
    rest: Vec<(u64, u64)>,
    /// Bytes still to move.
    left: u64,
}

impl Spans {
    /// Reads `count` `iovec`s at `at` and checks every one: an address and a size each.
    pub(super) fn load(call: &Call<'_>, at: u64, count: u64) -> Result<Self> {
        if count > MAX_SPANS {
            return Err(Errno::Inval);
        }
        let word = to_usize(call.word());
        let mut bytes = vec![0; to_usize(count) * 2 * word];
        call.guest.read(at, &mut bytes)?;
        let mut words = bytes.chunks_exact(word).map(|bytes| {
            let mut word = [0; 8];
            word[..bytes.len()].copy_from_slice(bytes);
            u64::from_le_bytes(word)
        });
        let mut rest = Vec::with_capacity(to_usize(count));
        let mut left: u64 = 0;
        while let (Some(start), Some(length)) = (words.next(), words.next()) {
            call.guest.check(start, length)?;
            left = left.saturating_add(length);
            rest.push((start, length));
        }
        rest.reverse();
        Ok(Self { rest, left: left.min(MAX_TRANSFER) })
    }

    /// Bytes that there are to move.
    pub(super) fn left(&self) -> u64 {
        self.left
    }

    /// Reads into the buffers from `source`, which gets a buffer and how many bytes came before it.
    ///
    /// Goes on until the buffers are full or `source` gives less than it could; a stream is read only once. An error
    /// after some bytes have arrived is left for the next call to meet.
    pub(super) fn fill(
        mut self,
        guest: &dyn Guest,
        stream: bool,
        mut source: impl FnMut(&mut [u8], u64) -> Result<usize>,
    ) -> Result<u32> {
        let mut bounce = vec![0; self.chunk(CHUNK)];
        let mut done = 0;
        while self.left > 0 {
            let buffer = &mut bounce[..self.chunk(CHUNK)];
            let length = match source(buffer, u64::from(done)) {
                Ok(length) => length,
                Err(error) if done == 0 => return Err(error),
                Err(_) => break,
            };
            let short = length < buffer.len();
            self.advance(length, |at, range| guest.write(at, &bounce[range]))?;
            done += u32::try_from(length).expect("at most a chunk");
            if short || stream {
                break;
            }
        }
        Ok(done)
    }

    /// Writes the buffers to `sink`, at most `chunk` bytes at a time; `sink` gets bytes and how many came before them.
    ///
    /// Goes on until all is written, or `sink` takes nothing. An error after some bytes have gone is left for the next
    /// call to meet.
    pub(super) fn drain(
        mut self,
        guest: &dyn Guest,
        chunk: usize,
        mut sink: impl FnMut(&[u8], u64) -> Result<usize>,
    ) -> Result<u32> {
        let limit = chunk.min(CHUNK);
        let mut bounce = vec![0; self.chunk(limit)];
        let mut done = 0;
        while self.left > 0 {
            let length = self.chunk(limit);
            self.advance(length, |at, range| guest.read(at, &mut bounce[range]))?;
            let mut sent = 0;
            while sent < length {
                match sink(&bounce[sent..length], u64::from(done)) {
                    Ok(0) => return Ok(done),
                    Ok(count) => {
                        sent += count;
                        done += u32::try_from(count).expect("at most a chunk");
                    }
                    Err(error) if done == 0 => return Err(error),
                    Err(_) => return Ok(done),
                }
            }
        }
        Ok(done)
    }

    /// Bytes of the next chunk.
    fn chunk(&self, limit: usize) -> usize {
        usize::try_from(self.left).map_or(limit, |left| left.min(limit))
    }

    /// Moves the position `length` bytes on, giving each piece's address and its place in the chunk to `copy`.
    fn advance(
        &mut self,
        length: usize,
        mut copy: impl FnMut(u64, std::ops::Range<usize>) -> Result<()>,
    ) -> Result<()> {
        let mut done = 0;
        while done < length {
            let (at, available) = self.rest.pop().expect("a chunk is no longer than the buffers");
            let piece = available.min((length - done) as u64);
            if piece > 0 {
                copy(at, done..done + to_usize(piece))?;
            }
            if piece < available {
                self.rest.push((offset(at, piece)?, available - piece));
            }
            done += to_usize(piece);
            self.left -= piece;
        }
        Ok(())
    }
}
