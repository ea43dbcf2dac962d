//! Which guest functions are active: a walk over frame pointers at the trap, names afterwards.
//!
//! Invariants: compiled code keeps frame pointers everywhere. The walk runs in a signal handler: it allocates nothing,
//! reads only inside the current stack, and ends, since each frame lies above the one before. Only addresses of compiled
//! code are taken down; the first other return address is the host's, where the walk stops.
#![expect(unsafe_code, reason = "reads a stack")]

use std::cell::{Cell, UnsafeCell};
use std::fmt;
use std::ops::Range;

use spinwise_model::index::FuncIndex;

use crate::error::{Frame, Trap};
use crate::program::{self, Program};

/// Addresses of one walk: those of frames, and of the glue below and above them, which is no frame.
const ADDRESSES: usize = Trap::MAX_FRAMES + 4;

/// Addresses of one walk: written by the handler, read after the trap.
pub(crate) struct Backtrace {
    addresses: UnsafeCell<[usize; ADDRESSES]>,
    count: Cell<usize>,
}

impl Default for Backtrace {
    fn default() -> Self {
        Self { addresses: UnsafeCell::new([0; ADDRESSES]), count: Cell::new(0) }
    }
}

impl fmt::Debug for Backtrace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Backtrace").field("count", &self.count.get()).finish_non_exhaustive()
    }
}

/// Where the machine was.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Place {
    /// The instruction that trapped.
    pub(crate) pc: usize,
    /// The frame pointer.
    pub(crate) fp: usize,
}

impl Backtrace {
    /// Walks the stack upwards.
    ///
    /// # Safety
    /// `stack` is readable, and the thread that owns this is the one that trapped, in compiled code on that stack.
    pub(crate) unsafe fn capture(&self, place: Place, stack: &Range<usize>) {
        self.count.set(0);
        self.push(place.pc);
        let mut fp = place.fp;
        // A frame is the caller's frame pointer and, above it, the return address (both on x86_64 and aarch64).
        while fp.is_multiple_of(8) && fp >= stack.start && fp + 16 <= stack.end && self.count.get() < ADDRESSES {
            let frame = std::ptr::with_exposed_provenance::<[usize; 2]>(fp);
            // SAFETY: inside the stack, which the caller vouches for, and aligned.
            let [above, return_address] = unsafe { frame.read() };
            // The call is before the address it returns to, which may be the next function's.
            let call = return_address.wrapping_sub(1);
            if program::with_program_at(call, |_| ()).is_none() {
                break;
            }
            self.push(call);
            if above <= fp {
                break;
            }
            fp = above;
        }
    }

    fn push(&self, address: usize) {
        let count = self.count.get();
        // SAFETY: only the owning thread is here, and nobody holds a borrow across calls.
        let addresses = unsafe { &mut *self.addresses.get() };
        if let Some(place) = addresses.get_mut(count) {
            *place = address;
            self.count.set(count + 1);
        }
    }

    /// The guest functions of the last walk, innermost first.
    pub(crate) fn frames(&self) -> Vec<Frame> {
        // SAFETY: as in `push`.
        let addresses = unsafe { &*self.addresses.get() };
        let mut frames = Vec::new();
        for address in &addresses[..self.count.get()] {
            program::with_program_at(*address, |program| describe(program, *address, &mut frames));
        }
        frames.truncate(Trap::MAX_FRAMES);
        frames
    }
}

/// The guest function that an address is in.
pub(crate) fn innermost(address: usize) -> Option<Frame> {
    let mut frames = Vec::new();
    program::with_program_at(address, |program| describe(program, address, &mut frames));
    frames.into_iter().next()
}

/// Adds the frames of one address: two where the operator comes from an inlined function; none for glue and stubs.
fn describe(program: &Program, address: usize, frames: &mut Vec<Frame>) {
    let Program { module, image, .. } = program;
    let Some(outer) = image.range_at(address).and_then(|range| range.function) else { return };
    if module.is_imported(outer) {
        return;
    }
    let at_trap = image.trap_at(address).map(|site| site.wasm_offset).filter(|offset| *offset != u32::MAX);
    let wasm_offset = at_trap.or_else(|| image.wasm_offset_at(address)).filter(|offset| *offset != u32::MAX);
    let frame = |func: FuncIndex, wasm_offset| Frame { function: module.func_name(func), index: func.0, wasm_offset };
    let inner = wasm_offset.and_then(|offset| module.func_at(offset)).filter(|inner| *inner != outer);
    if let Some(inner) = inner {
        frames.push(frame(inner, wasm_offset));
        frames.push(frame(outer, None));
    } else {
        frames.push(frame(outer, wasm_offset));
    }
}
