//! Which objects live: everything that is reached from the roots.
//!
//! Invariants: each object is looked through once, after it was marked; the work left is on a stack of its own, so that no
//! structure, however deep, needs the thread's. Cost: linear in what lives; 8 bytes for each object reached and not yet looked
//! through.
#![expect(unsafe_code, reason = "reads objects")]

use spinwise_model::heap::{ELEMENTS, EXCEPTION, KIND, LENGTH, NO_OBJECT, WORD};
use spinwise_model::trap::TrapCode;

use super::blocks::Header;
use super::shape::{Content, Shape, id_of};
use crate::exception;
use crate::number::to_usize;
use crate::thread::Running;

/// Objects looked through between two looks at whether the process has ended.
const STEP: u32 = 1 << 14;

/// Marks what is reached.
pub(super) struct Marker<'a> {
    shapes: &'a [Option<&'static Shape>],
    /// Addresses of objects that are marked and not yet looked through.
    left: Vec<usize>,
}

impl<'a> Marker<'a> {
    pub(super) fn new(shapes: &'a [Option<&'static Shape>]) -> Self {
        Self { shapes, left: Vec::new() }
    }

    /// A reference is live: null, to an object of this heap, or to none.
    pub(super) fn reach(&mut self, reference: u64) {
        if reference == 0 || reference & NO_OBJECT != 0 {
            return;
        }
        let object = to_usize(reference);
        // SAFETY: references that say of themselves that they are to an object are to one of the thread's heap.
        if unsafe { Header::of(object) }.mark(object) {
            self.left.push(object);
        }
    }

    /// Marks all that is reached from what is marked.
    pub(super) fn finish(&mut self, running: Running<'_>) -> Result<(), TrapCode> {
        let mut steps = 0;
        while let Some(object) = self.left.pop() {
            steps += 1;
            if steps % STEP == 0 {
                running.check()?;
            }
            self.look_through(object);
        }
        Ok(())
    }

    fn look_through(&mut self, object: usize) {
        // SAFETY: every object has a first word.
        let word = unsafe { read::<u32>(object, WORD) };
        if word & KIND == EXCEPTION {
            // SAFETY: its first word says what it is.
            return unsafe { exception::each_reference(object, |reference| self.reach(reference)) };
        }
        let shape = self.shapes[id_of(word).index()].expect("objects are made of known shapes");
        match &shape.content {
            Content::Struct { references, .. } => {
                for at in references {
                    // SAFETY: a field of the structure.
                    let reference = unsafe { read::<u64>(object, at.cast_signed()) };
                    self.reach(reference);
                }
            }
            Content::Array { references: true, .. } => {
                // SAFETY: every array has a length.
                let length = unsafe { read::<u32>(object, LENGTH) };
                for index in 0..length as usize {
                    // SAFETY: an element of the array.
                    let reference = unsafe { read::<u64>(object + 8 * index, ELEMENTS) };
                    self.reach(reference);
                }
            }
            Content::Array { references: false, .. } => {}
        }
    }
}

/// Reads a part of an object.
///
/// # Safety
/// The object has such a part there.
unsafe fn read<T: Copy>(object: usize, offset: i32) -> T {
    let at = object + offset.cast_unsigned() as usize;
    // SAFETY: as the caller vouches; parts are aligned to their size.
    unsafe { std::ptr::with_exposed_provenance::<T>(at).read() }
}
