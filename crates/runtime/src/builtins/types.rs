//! Subtyping at run time, where equality does not decide.
#![expect(unsafe_code, reason = "called by compiled code")]

use spinwise_model::index::TypeIndex;

use crate::heap::object;
use crate::instance::Inner;
use crate::types;

/// `spw_is_subtype`
pub(super) extern "C" fn is_subtype(_context: *const u8, ty: u32, of: u32) -> u32 {
    types::is_subtype(TypeIndex(ty), TypeIndex(of)).into()
}

/// `spw_object_is`
pub(super) unsafe extern "C" fn object_is(context: *const u8, object: u64, ty: u32) -> u32 {
    // SAFETY: compiled code passes its own context.
    let instance = unsafe { Inner::calling(context) };
    // SAFETY: the instance's code is running.
    let heap = unsafe { &instance.running().own().heap };
    // SAFETY: compiled code has seen that it is an object.
    let shape = heap.shape(unsafe { object::word(object) });
    shape.is(instance.program().types.shape(TypeIndex(ty))).into()
}
