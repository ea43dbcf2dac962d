//! Where marking begins: every reference to an object that is not in an object itself.
//!
//! They are in: frames of compiled code, by the stack maps of the calls in progress; globals and element segments of the
//! store's instances; tables, and globals of the host's own; handles ([`Root`]).
//!
//! Invariants: the walk over frames begins where compiled code called the builtin or the host function that is running now,
//! and in each outer entry where it called the host function that entered again: those note frame pointer and return address
//! ([`Exit`]). Compiled code keeps frame pointers everywhere; a call without a stack map has no references in its frame.
//! Cost: a look-up a frame.
#![expect(unsafe_code, reason = "reads stacks")]

use std::sync::Arc;

use crate::number::to_usize;
use crate::program;
use crate::thread::{GuestThread, Running};

/// Where compiled code called something that may look at its frames.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Exit {
    /// The caller's frame pointer; 0 for none.
    pub(crate) frame: usize,
    /// Where the call returns to.
    pub(crate) address: usize,
}

/// Something that holds references, each of which may be to an object.
pub(crate) trait Roots {
    /// Shows each.
    ///
    /// # Safety
    /// The running thread is the one that has claimed it, and nothing borrows what is in it.
    unsafe fn each(&self, reach: &mut dyn FnMut(u64));
}

/// A reference that the host holds: what it is to is kept for as long as this exists and the thread's store does.
#[derive(Debug)]
pub(crate) struct Root {
    /// The address of an object.
    object: u64,
    /// Its first word.
    word: u32,
    thread: Arc<GuestThread>,
}

impl Root {
    /// Holds an object.
    ///
    /// # Safety
    /// `object` is the address of an object of the running thread's heap.
    pub(crate) unsafe fn new(running: Running<'_>, object: u64) -> Arc<Self> {
        // SAFETY: as the caller vouches.
        let word = unsafe { super::object::word(object) };
        let root = Arc::new(Self { object, word, thread: running.share() });
        running.own().heap.hold(Arc::downgrade(&root));
        root
    }

    /// The object's address, which is good while the store lives.
    pub(crate) fn object(&self) -> u64 {
        self.object
    }

    /// The object's first word.
    pub(crate) fn word(&self) -> u32 {
        self.word
    }

    /// Whether the object is of the running thread's heap.
    pub(crate) fn is_of(&self, running: Running<'_>) -> bool {
        std::ptr::eq(Arc::as_ptr(&self.thread), running.thread())
    }
}

/// Shows every reference that is not in an object. Some may be none, or to no object.
pub(super) fn each(running: Running<'_>, reach: &mut dyn FnMut(u64)) {
    let own = running.own();
    let outer = own.exits.borrow();
    for exit in outer.iter().copied().chain([running.exit()]) {
        // SAFETY: compiled code of this thread called out there, and has not been returned to.
        unsafe { frames(exit, reach) };
    }
    for instance in own.instances.borrow().iter() {
        instance.each_reference(reach);
    }
    let heap = &own.heap;
    heap.watched.borrow_mut().retain(|watched| {
        let Some(watched) = watched.upgrade() else { return false };
        // SAFETY: it was watched when this thread claimed it; host and compiled code borrow no longer than an access.
        unsafe { watched.each(reach) };
        true
    });
    heap.handles.borrow_mut().live.retain(|root| {
        let Some(root) = root.upgrade() else { return false };
        reach(root.object);
        true
    });
}

/// Shows the references in frames of compiled code, from a call on outwards.
///
/// # Safety
/// The call is in progress.
unsafe fn frames(exit: Exit, reach: &mut dyn FnMut(u64)) {
    let Exit { mut frame, mut address } = exit;
    while frame != 0 {
        let look = |program: &program::Program| {
            let Some(map) = program.image.stack_map_at(address) else { return };
            let stack = frame - map.frame as usize;
            for offset in &map.references {
                // SAFETY: the stack map says that a reference is there.
                reach(unsafe { read(stack + *offset as usize) });
            }
            for offset in &map.counted {
                let start = stack + *offset as usize;
                // SAFETY: the stack map says that a number is there, and as many references behind it.
                let count = to_usize(unsafe { read(start) });
                // SAFETY: as above.
                (1..=count).for_each(|index| reach(unsafe { read(start + 8 * index) }));
            }
        };
        // The call is before the address it returns to, which may be the next function's.
        if program::with_program_at(address - 1, look).is_none() {
            return;
        }
        // SAFETY: compiled code keeps frame pointers: the caller's is at this one's, and the return address above it.
        let above = unsafe { read(frame) };
        // SAFETY: as above.
        address = to_usize(unsafe { read(frame + 8) });
        frame = to_usize(above);
    }
}

/// # Safety
/// `address` is that of 64 bits of a stack of this thread.
unsafe fn read(address: usize) -> u64 {
    // SAFETY: as the caller vouches; slots are aligned to their size.
    unsafe { std::ptr::with_exposed_provenance::<u64>(address).read() }
}
