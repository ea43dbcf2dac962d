//! Functions that a pass leaves for the next one, so that they need not be lifted again: as many as there is room for.
//!
//! CLIF is some ten to forty times the size of the wasm it came from. Code that is finished takes the place of functions
//! that were taken, so what is held in the beginning does not add to what is in memory in the end.
//!
//! Invariant: the sizes of what is held never sum to more than the room. Whether a function is held changes how long a
//! translation takes, and nothing else.

use std::fmt;
use std::sync::atomic::{AtomicUsize, Ordering};

use cranelift_codegen::ir::Function;
use parking_lot::Mutex;

/// Room for functions, by position.
pub(crate) struct Hold {
    slots: Vec<Mutex<Option<Box<Function>>>>,
    room: Room,
}

impl fmt::Debug for Hold {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Hold").field("left", &self.room.0).finish_non_exhaustive()
    }
}

/// Bytes that may still be held.
pub(crate) struct Room(AtomicUsize);

impl Room {
    pub(crate) fn new(bytes: usize) -> Self {
        Self(AtomicUsize::new(bytes))
    }

    /// A function that fits, which takes its room; `None`, and it is dropped, if it does not.
    pub(crate) fn hold(&self, func: Function) -> Option<Box<Function>> {
        let size = size(&func);
        let left = self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(size));
        left.is_ok().then(|| Box::new(func))
    }

    fn give_back(&self, func: &Function) {
        self.0.fetch_add(size(func), Ordering::Relaxed);
    }
}

impl Hold {
    /// Holds what fitted, in the order of positions.
    pub(crate) fn new(held: impl IntoIterator<Item = Option<Box<Function>>>, room: Room) -> Self {
        Self { slots: held.into_iter().map(Mutex::new).collect(), room }
    }

    /// Takes a function out, whose room is free again.
    pub(crate) fn take(&self, position: usize) -> Option<Function> {
        let func = self.slots[position].lock().take()?;
        self.room.give_back(&func);
        Some(*func)
    }

    /// Puts a function in, if it fits.
    pub(crate) fn put(&self, position: usize, func: Function) {
        *self.slots[position].lock() = self.room.hold(func);
    }
}

/// About how many bytes a function takes: instructions are some 40 bytes with their places and arguments, values 8, in
/// tables of which a part is unused.
fn size(func: &Function) -> usize {
    64 * func.dfg.num_insts() + 16 * func.dfg.num_values() + 1024
}
