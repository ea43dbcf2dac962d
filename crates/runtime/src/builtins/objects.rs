//! Making structures and arrays, and what concerns many elements. Source: core spec 3.0, 4.4.5.
//!
//! Invariant: what makes an object may collect, so its callers' frames are described by stack maps; what only works on one
//! may not.
#![expect(unsafe_code, reason = "called by compiled code")]

use spinwise_model::index::TypeIndex;
use spinwise_model::trap::TrapCode;

use super::bulk::status;
use crate::heap::Collect;
use crate::heap::object::{self, Array};
use crate::init;
use crate::instance::Inner;
use crate::thread::Running;

/// Makes an object of a type of the module; 0 with the trap pending where that fails.
///
/// # Safety
/// `context` is the calling code's own.
unsafe fn make(context: *const u8, make: impl FnOnce(&Inner, Running<'_>) -> Result<u64, TrapCode>) -> u64 {
    // SAFETY: as the caller vouches.
    let instance = unsafe { Inner::calling(context) };
    // SAFETY: its code is running.
    let running = unsafe { instance.running() };
    make(instance, running).unwrap_or_else(|code| {
        running.fail(code);
        0
    })
}

/// `spw_struct_new`
pub(super) unsafe extern "C" fn struct_new(context: *const u8, ty: u32) -> u64 {
    let body = |instance: &Inner, running: Running<'_>| {
        object::new_struct(running, instance.program().types.shape(TypeIndex(ty)), Collect::Allowed)
    };
    // SAFETY: compiled code passes its own context.
    unsafe { make(context, body) }
}

/// `spw_array_new`
pub(super) unsafe extern "C" fn array_new(context: *const u8, ty: u32, length: u32) -> u64 {
    let body =
        |instance: &Inner, running: Running<'_>| new_array(instance, running, ty, length).map(|array| array.object);
    // SAFETY: compiled code passes its own context.
    unsafe { make(context, body) }
}

fn new_array(instance: &Inner, running: Running<'_>, ty: u32, length: u32) -> Result<Array, TrapCode> {
    object::new_array(running, instance.program().types.shape(TypeIndex(ty)), length, Collect::Allowed)
}

/// `spw_array_new_data`
pub(super) unsafe extern "C" fn array_new_data(
    context: *const u8,
    ty: u32,
    segment: u32,
    source: u32,
    length: u32,
) -> u64 {
    let body = |instance: &Inner, running: Running<'_>| {
        let size = instance.program().types.shape(TypeIndex(ty)).element_size();
        let bytes = data(instance, segment, source, length, size)?;
        let array = new_array(instance, running, ty, length)?;
        array.set_bytes(0, length, bytes)?;
        Ok(array.object)
    };
    // SAFETY: compiled code passes its own context.
    unsafe { make(context, body) }
}

/// `spw_array_new_elem`
pub(super) unsafe extern "C" fn array_new_elem(
    context: *const u8,
    ty: u32,
    segment: u32,
    source: u32,
    length: u32,
) -> u64 {
    let body = |instance: &Inner, running: Running<'_>| {
        let elements = init::elements(instance, segment, source, length)?;
        let array = new_array(instance, running, ty, length)?;
        array.set(0, length, elements.map(u128::from))?;
        Ok(array.object)
    };
    // SAFETY: compiled code passes its own context.
    unsafe { make(context, body) }
}

/// `spw_array_fill`
pub(super) unsafe extern "C" fn array_fill(
    context: *const u8,
    array: u64,
    start: u32,
    length: u32,
    low: u64,
    high: u64,
) -> u32 {
    let body = |_: &Inner, running: Running<'_>| {
        // SAFETY: compiled code passes an array.
        let array = unsafe { Array::at(running, array) };
        array.fill(running, start, length, u128::from(low) | u128::from(high) << 64)
    };
    // SAFETY: compiled code passes its own context.
    unsafe { status(context, body) }
}

/// `spw_array_copy`
pub(super) unsafe extern "C" fn array_copy(
    context: *const u8,
    to: u64,
    destination: u32,
    from: u64,
    source: u32,
    length: u32,
) -> u32 {
    let body = |_: &Inner, running: Running<'_>| {
        // SAFETY: compiled code passes arrays.
        let to = unsafe { Array::at(running, to) };
        // SAFETY: as above.
        let from = unsafe { Array::at(running, from) };
        to.copy(running, destination, from, source, length)
    };
    // SAFETY: compiled code passes its own context.
    unsafe { status(context, body) }
}

/// `spw_array_init_data`
pub(super) unsafe extern "C" fn array_init_data(
    context: *const u8,
    array: u64,
    destination: u32,
    segment: u32,
    source: u32,
    length: u32,
) -> u32 {
    let body = |instance: &Inner, running: Running<'_>| {
        running.check()?;
        // SAFETY: compiled code passes an array.
        let array = unsafe { Array::at(running, array) };
        array.check(destination, length)?;
        array.set_bytes(destination, length, data(instance, segment, source, length, array.element_size())?)
    };
    // SAFETY: compiled code passes its own context.
    unsafe { status(context, body) }
}

/// `spw_array_init_elem`
pub(super) unsafe extern "C" fn array_init_elem(
    context: *const u8,
    array: u64,
    destination: u32,
    segment: u32,
    source: u32,
    length: u32,
) -> u32 {
    let body = |instance: &Inner, running: Running<'_>| {
        running.check()?;
        // SAFETY: compiled code passes an array.
        let array = unsafe { Array::at(running, array) };
        array.check(destination, length)?;
        array.set(destination, length, init::elements(instance, segment, source, length)?.map(u128::from))
    };
    // SAFETY: compiled code passes its own context.
    unsafe { status(context, body) }
}

/// Bytes of a data segment that so many elements take.
fn data(instance: &Inner, segment: u32, source: u32, count: u32, size: usize) -> Result<&[u8], TrapCode> {
    let gone = instance.dropped_data[segment as usize].get();
    let bytes = if gone { &[][..] } else { &instance.module().data[segment as usize].bytes };
    let source = source as usize;
    let end = (count as usize).checked_mul(size).and_then(|length| source.checked_add(length));
    end.and_then(|end| bytes.get(source..end)).ok_or(TrapCode::MemoryOutOfBounds)
}
