//! Exceptions as the host sees them: what guest code throws out of a call, and what a host function throws into it.
//!
//! Invariants: an exception belongs to the thread whose heap it is on, and goes back into guest code of that thread alone; on
//! any other it is an error like any. It crosses host frames as an error that is returned, so that each of them ends as its
//! author wrote it.
#![expect(unsafe_code, reason = "exceptions are objects by address")]

use std::fmt;
use std::sync::Arc;

use spinwise_model::context::{ExceptionHeader, SLOT_SIZE};
use spinwise_model::heap::EXCEPTION;
use spinwise_model::module::{Entity, Module};
use spinwise_model::trap::TrapCode;

use crate::error::{Error, Frame};
use crate::heap::roots::Root;
use crate::heap::{Collect, Heap};
use crate::instance::Inner as Instance;
use crate::number::{to_u32, to_usize};
use crate::store::Context;
use crate::tag::Tag;
use crate::thread::Running;
use crate::value::{self, Slots, Val};

/// A handle to an exception; clones are the same one.
#[derive(Clone, Debug)]
pub struct Exception(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    root: Arc<Root>,
    tag: Tag,
    /// What the throwing module calls the tag; empty for a host's.
    name: String,
    frame: Option<Frame>,
}

/// Bytes before what an exception carries.
const HEADER: usize = size_of::<ExceptionHeader>();

/// Bytes of a slot.
const SLOT: usize = SLOT_SIZE.cast_unsigned() as usize;

impl Exception {
    /// A new exception. As an error (`Error::Exception`) of a host function it is thrown into the guest code that called.
    ///
    /// # Errors
    /// [`Error::Usage`] for values that the tag does not fit; the trap `out of memory` where the heap is full.
    pub fn new(context: &mut (impl Context + ?Sized), tag: &Tag, values: &[Val]) -> Result<Self, Error> {
        if !value::fit(values, tag.params()) {
            return Err(Error::Usage("the values do not fit the tag".into()));
        }
        let running = context.running();
        let bits = values.iter().map(|value| value.to_bits(running)).collect::<Result<Vec<_>, _>>()?;
        let object = allocate(running, tag, None, 0)?;
        let slots = slots(object);
        for (index, bits) in bits.into_iter().enumerate() {
            // SAFETY: the object has a slot for each of the tag's types.
            unsafe { slots.set(index, bits) };
        }
        running.own().heap.keep(tag);
        // SAFETY: it was made above.
        Ok(unsafe { Self::from_raw(running, object) })
    }

    /// The exception at an address.
    ///
    /// # Safety
    /// `object` is an exception on the running thread's heap.
    pub(crate) unsafe fn from_raw(running: Running<'_>, object: u64) -> Self {
        let header = std::ptr::with_exposed_provenance::<ExceptionHeader>(to_usize(object));
        // SAFETY: an exception begins with its header.
        let header = unsafe { header.read() };
        // SAFETY: the instance that made the exception, or the heap, keeps the tag.
        let tag = unsafe { Tag::at(header.tag) };
        // SAFETY: the context of an instance, which its store keeps.
        let thrower = (!header.thrower.is_null()).then(|| unsafe { Instance::calling(header.thrower) });
        let name = thrower.map(|thrower| name_of(thrower, &tag)).unwrap_or_default();
        let frame = thrower.and_then(|thrower| place(thrower.module(), header.offset));
        // SAFETY: as the caller vouches.
        let root = unsafe { Root::new(running, object) };
        Self(Arc::new(Inner { root, tag, name, frame }))
    }

    /// Its address, for compiled code of the running thread.
    ///
    /// # Errors
    /// [`Error::Usage`] for another store's.
    pub(crate) fn to_raw(&self, running: Running<'_>) -> Result<u64, Error> {
        if self.0.root.is_of(running) {
            Ok(self.0.root.object())
        } else {
            Err(Error::Usage("the exception belongs to another store".into()))
        }
    }

    /// Its tag.
    #[must_use]
    pub fn tag(&self) -> &Tag {
        &self.0.tag
    }

    /// What it carries.
    ///
    /// # Errors
    /// [`Error::Usage`] in another store.
    pub fn values(&self, context: &mut (impl Context + ?Sized)) -> Result<Vec<Val>, Error> {
        let running = context.running();
        let slots = slots(self.to_raw(running)?);
        let types = self.tag().params().iter().enumerate();
        // SAFETY: the object has a slot for each of the tag's types, with a value of that type.
        Ok(types.map(|(index, ty)| unsafe { slots.get(running, index, *ty) }).collect())
    }

    /// Where guest code made it; `None` for a host's.
    #[must_use]
    pub fn frame(&self) -> Option<&Frame> {
        self.0.frame.as_ref()
    }

    /// Whether both are the same exception.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        self.0.root.object() == other.0.root.object()
    }
}

impl fmt::Display for Exception {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("uncaught exception")?;
        if !self.0.name.is_empty() {
            write!(f, " {}", spinwise_model::module::printable(&self.0.name))?;
        }
        match self.frame() {
            Some(frame) => write!(f, ": {frame}"),
            None => f.write_str(" of the host"),
        }
    }
}

impl std::error::Error for Exception {}

/// Makes an exception of a tag whose slots are yet to be filled. `thrower` is whose code throws it, at a byte offset.
///
/// # Errors
/// As [`Heap::allocate`].
pub(crate) fn allocate(
    running: Running<'_>,
    tag: &Tag,
    thrower: Option<&Instance>,
    offset: u32,
) -> Result<u64, TrapCode> {
    let slots = tag.params().len();
    let object = Heap::allocate_exception(running, HEADER + slots * SLOT, Collect::Allowed)?;
    let thrower = thrower.map_or(std::ptr::null(), |thrower| thrower.context().cast_const());
    let length = to_u32(slots);
    let header = ExceptionHeader { kind: EXCEPTION, length, tag: tag.address(), thrower, offset, reserved: 0 };
    // SAFETY: new memory, large enough and aligned.
    unsafe { object.cast::<ExceptionHeader>().write(header) };
    Ok(object.as_ptr().expose_provenance() as u64)
}

/// Shows each reference that an exception carries.
///
/// # Safety
/// `object` is the address of an exception of the thread's heap.
pub(crate) unsafe fn each_reference(object: usize, mut reach: impl FnMut(u64)) {
    let header = std::ptr::with_exposed_provenance::<ExceptionHeader>(object);
    // SAFETY: as the caller vouches.
    let tag = unsafe { (*header).tag };
    // SAFETY: the instance that made the exception, or the heap, keeps the tag.
    for slot in unsafe { Tag::references_at(tag) } {
        let at = std::ptr::with_exposed_provenance::<u64>(object + HEADER + *slot as usize * SLOT);
        // SAFETY: the slot holds a reference, in its low half.
        reach(unsafe { at.read() });
    }
}

/// What an exception carries.
fn slots(object: u64) -> Slots {
    Slots::new(std::ptr::with_exposed_provenance_mut(to_usize(object) + HEADER))
}

/// The function of a module that holds an offset.
fn place(module: &Module, offset: u32) -> Option<Frame> {
    let func = module.func_at(offset)?;
    Some(Frame { function: module.func_name(func), index: func.0, wasm_offset: Some(offset) })
}

/// What a module calls a tag that it can throw.
fn name_of(instance: &Instance, tag: &Tag) -> String {
    let module = instance.module();
    let is_tag = |entity: Entity| matches!(entity, Entity::Tag(index) if instance.tag(index).same(tag));
    let exported = module.exports.iter().find(|export| is_tag(export.entity)).map(|export| export.name.clone());
    let imported = module.imports.iter().find(|import| is_tag(import.entity)).map(|import| import.field.clone());
    exported.or(imported).unwrap_or_default()
}
