//! Guest stacks: a guard below, room for the guest, memory taken as it is touched; kept for reuse.
//!
//! ```text
//! high  base ─► ┌──────────────┐ coroutine root, host entry, guest frames …
//!               │ 8 MiB guest  │
//!     limit ──► ├──────────────┤ below here no call leaves guest code: it would trap
//!               │ host's room  │ guest leaves may run here; host functions have at least this much
//!               ├──────────────┤
//! low           │ guard        │ faults: stack overflow
//!               └──────────────┘
//! ```
//! Source: corosensei's `Stack`. Cost: 8 MiB of address space; a reused stack costs no system call.
#![expect(unsafe_code, reason = "corosensei's Stack is an unsafe trait")]

use std::io;
use std::ops::Range;

use corosensei::stack::{Stack, StackPointer};
use parking_lot::Mutex;
use spinwise_model::context::HOST_HEADROOM;

use crate::mapping::Mapping;

/// Bytes for guest frames.
const GUEST: usize = 8 << 20;

/// Bytes for host functions at the deepest point where one is called: the headroom that compiled code is promised to
/// check, and then some, since unoptimised host functions are greedy.
const HOST: usize = 4 * HOST_HEADROOM;

/// Bytes that fault. Compiled code probes each page of a large frame, so one page would do.
const GUARD: usize = 64 << 10;

/// Stacks that a pool keeps.
const POOLED: usize = 64;

/// A stack for one entry from the host.
#[derive(Debug)]
pub(crate) struct GuestStack {
    mapping: Mapping,
}

impl GuestStack {
    fn new() -> io::Result<Self> {
        let mapping = Mapping::reserve(GUARD + HOST + GUEST)?;
        mapping.commit(GUARD..mapping.length())?;
        Ok(Self { mapping })
    }

    /// Addresses that fault.
    pub(crate) fn guard(&self) -> Range<usize> {
        let low = self.low();
        low..low + GUARD
    }

    /// Addresses that frames can have.
    pub(crate) fn usable(&self) -> Range<usize> {
        let low = self.low();
        low + GUARD..low + self.mapping.length()
    }

    /// The lowest address from which a call may leave guest code.
    pub(crate) fn limit(&self) -> usize {
        self.low() + GUARD + HOST
    }

    /// Gives all its memory back to the system, after an overflow has touched all of it.
    pub(crate) fn trim(&self) {
        let _kept_where_refused = self.mapping.discard(GUARD..self.mapping.length());
    }

    fn low(&self) -> usize {
        self.mapping.base().as_ptr().addr()
    }
}

// SAFETY: base and limit are the ends of one mapping of several MiB, page aligned, with a guard at the low end.
unsafe impl Stack for GuestStack {
    fn base(&self) -> StackPointer {
        StackPointer::new(self.low() + self.mapping.length()).expect("a mapping does not end at address 0")
    }

    fn limit(&self) -> StackPointer {
        StackPointer::new(self.low()).expect("a mapping does not start at address 0")
    }
}

/// Stacks of a process that are not in use.
#[derive(Debug, Default)]
pub(crate) struct StackPool {
    free: Mutex<Vec<GuestStack>>,
}

impl StackPool {
    /// A stack, a used one if there is any.
    pub(crate) fn take(&self) -> io::Result<GuestStack> {
        let pooled = self.free.lock().pop();
        pooled.map_or_else(GuestStack::new, Ok)
    }

    /// Takes stacks back; those it has no room for are unmapped.
    pub(crate) fn put(&self, stacks: impl IntoIterator<Item = GuestStack>) {
        let mut surplus = Vec::new();
        {
            let mut free = self.free.lock();
            for stack in stacks {
                if free.len() < POOLED { free.push(stack) } else { surplus.push(stack) }
            }
        }
        drop(surplus);
    }
}
