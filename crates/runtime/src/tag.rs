//! Tags: what tells one kind of exception from another.
//!
//! Invariant: a tag is its address. Compiled code compares the addresses that instance contexts and exceptions hold.
#![expect(unsafe_code, reason = "compiled code holds tags by address")]

use std::sync::Arc;

use spinwise_model::index::TypeIndex;
use spinwise_model::types::{FuncType, ValType};

use crate::types;

/// A handle to a tag; clones are the same one.
#[derive(Clone, Debug)]
pub struct Tag(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    ty: FuncType,
    id: TypeIndex,
    /// Which of the values that an exception carries may be objects of a heap.
    references: Box<[u32]>,
}

impl Tag {
    /// A new tag, unlike any other, for exceptions that carry values of these types.
    #[must_use]
    pub fn new(params: Vec<ValType>) -> Self {
        let ty = FuncType { params, results: Vec::new() };
        let id = types::intern(&ty);
        Self::of_type(ty, id)
    }

    /// A new tag of a type of the process.
    pub(crate) fn of_type(ty: FuncType, id: TypeIndex) -> Self {
        let references =
            (0..).zip(&ty.params).filter(|(_, ty)| types::may_be_object(**ty)).map(|(slot, _)| slot).collect();
        Self(Arc::new(Inner { ty, id, references }))
    }

    /// What its exceptions carry.
    #[must_use]
    pub fn params(&self) -> &[ValType] {
        &self.0.ty.params
    }

    pub(crate) fn ty(&self) -> &FuncType {
        &self.0.ty
    }

    /// The number of its type.
    pub(crate) fn type_id(&self) -> TypeIndex {
        self.0.id
    }

    /// Whether both are the same tag.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// What stands for it in compiled code.
    pub(crate) fn address(&self) -> *const u8 {
        Arc::as_ptr(&self.0).cast()
    }

    /// Which of the values that exceptions of the tag at an address carry may be objects of a heap.
    ///
    /// # Safety
    /// As for [`Tag::at`]; the handle exists for as long as the answer is used.
    pub(crate) unsafe fn references_at<'a>(address: *const u8) -> &'a [u32] {
        // SAFETY: as the caller vouches.
        unsafe { &(*address.cast::<Inner>()).references }
    }

    /// The tag at an address.
    ///
    /// # Safety
    /// [`Tag::address`] gave it, and some handle to the tag exists.
    pub(crate) unsafe fn at(address: *const u8) -> Self {
        let inner = address.cast::<Inner>();
        // SAFETY: as the caller vouches, it is the address of a live `Arc`'s value.
        unsafe { Arc::increment_strong_count(inner) };
        // SAFETY: the count was raised for this handle.
        Self(unsafe { Arc::from_raw(inner) })
    }
}
