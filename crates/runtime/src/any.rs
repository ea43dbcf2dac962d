//! References of the `any` hierarchy as the host sees them, and the handles by which it holds objects.
//!
//! Invariants: an object belongs to the store on whose heap it is; what a handle is to is kept for as long as both exist.
#![expect(unsafe_code, reason = "objects are reached by address")]

use std::sync::Arc;

use spinwise_model::heap::{HOST, I31, KIND, NO_OBJECT, STRUCT};
use spinwise_model::types::{HeapType, RefType, StorageType, ValType};

use crate::error::Error;
use crate::heap::object::{self, Array};
use crate::heap::roots::Root;
use crate::heap::shape::{Content, Shape, id_of};
use crate::store::Context;
use crate::thread::Running;
use crate::value::{MAX_TOKEN, Val};

/// A reference of the `any` hierarchy that is not null.
#[derive(Clone, Debug)]
pub enum AnyRef {
    /// An `i31`: its value, sign-extended.
    I31(i32),
    /// A host's own reference that was internalized: any number below 2^62.
    Host(u64),
    /// An object.
    Object(Object),
}

impl AnyRef {
    /// Its closest type, with types of the process.
    #[must_use]
    pub fn ty(&self) -> RefType {
        let heap = match self {
            Self::I31(_) => HeapType::I31,
            Self::Host(_) => HeapType::Any,
            Self::Object(object) => HeapType::Type(id_of(object.0.word())),
        };
        RefType { nullable: false, heap }
    }

    /// Whether both are the same: the same number, or the same object.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::I31(a), Self::I31(b)) => a == b,
            (Self::Host(a), Self::Host(b)) => a == b,
            (Self::Object(a), Self::Object(b)) => Arc::ptr_eq(&a.0, &b.0) || a.0.object() == b.0.object(),
            _ => false,
        }
    }

    /// What compiled code of the running thread's store holds.
    pub(crate) fn to_raw(&self, running: Running<'_>) -> Result<u64, Error> {
        match self {
            Self::Object(object) => object.raw(running),
            _ => Ok(self.free_raw()?.expect("only objects belong to a store")),
        }
    }

    /// What compiled code of any store holds; `None` for what belongs to one.
    pub(crate) fn free_raw(&self) -> Result<Option<u64>, Error> {
        match self {
            Self::I31(value) => Ok(Some(u64::from(value.cast_unsigned() << 1 | 1))),
            Self::Host(token) if *token < MAX_TOKEN => Ok(Some(token << 2 | HOST)),
            Self::Host(token) => Err(Error::Usage(format!("{token} is no host reference: it is 2^62 or more"))),
            Self::Object(_) => Ok(None),
        }
    }

    /// The reference that compiled code holds as these bits; `None` for null.
    ///
    /// # Safety
    /// If they are an object's, it is of the running thread's heap.
    pub(crate) unsafe fn from_raw(running: Running<'_>, bits: u64) -> Option<Self> {
        if bits & I31 != 0 {
            #[expect(clippy::cast_possible_truncation, reason = "an i31 has 32 bits")]
            let value = (bits as u32).cast_signed() >> 1;
            return Some(Self::I31(value));
        }
        if bits & NO_OBJECT != 0 {
            return Some(Self::Host(bits >> 2));
        }
        // SAFETY: as the caller vouches.
        (bits != 0).then(|| Self::Object(Object(unsafe { Root::new(running, bits) })))
    }
}

/// A handle to a structure or an array; clones are the same one.
#[derive(Clone, Debug)]
pub struct Object(Arc<Root>);

impl Object {
    /// Whether it is a structure; else it is an array.
    #[must_use]
    pub fn is_struct(&self) -> bool {
        self.0.word() & KIND == STRUCT
    }

    /// How many fields or elements it has.
    ///
    /// # Errors
    /// [`Error::Usage`] where it belongs to another store.
    pub fn len(&self, context: &mut (impl Context + ?Sized)) -> Result<u32, Error> {
        let (_, shape, running) = self.look(context)?;
        Ok(match &shape.content {
            Content::Struct { fields, .. } => crate::number::to_u32(fields.len()),
            // SAFETY: it is an array of the running thread's heap, which this handle keeps.
            Content::Array { .. } => unsafe { Array::at(running, self.0.object()) }.length(),
        })
    }

    /// A field or an element: a packed one zero-extended. `None` past the end.
    ///
    /// # Errors
    /// [`Error::Usage`] where it belongs to another store.
    pub fn get(&self, context: &mut (impl Context + ?Sized), index: u32) -> Result<Option<Val>, Error> {
        let (object, shape, running) = self.look(context)?;
        let (storage, bits) = match &shape.content {
            Content::Struct { fields, layout, .. } => {
                let Some(field) = fields.get(index as usize) else { return Ok(None) };
                // SAFETY: a field of the structure, which this handle keeps.
                (field.storage, unsafe { object::field(object, layout.offsets[index as usize], field.storage) })
            }
            Content::Array { element, .. } => {
                // SAFETY: it is an array of the running thread's heap, which this handle keeps.
                let array = unsafe { Array::at(running, object) };
                let Some(bits) = array.get(index) else { return Ok(None) };
                (element.storage, bits)
            }
        };
        let ty = match storage {
            StorageType::I8 | StorageType::I16 => ValType::I32,
            StorageType::Val(ty) => ty,
        };
        // SAFETY: a value of that type, of the running thread's store.
        Ok(Some(unsafe { Val::from_bits(running, ty, bits) }))
    }

    fn look<'c>(&self, context: &'c mut (impl Context + ?Sized)) -> Result<(u64, &'static Shape, Running<'c>), Error> {
        let running = context.running();
        Ok((self.raw(running)?, running.own().heap.shape(self.0.word()), running))
    }

    fn raw(&self, running: Running<'_>) -> Result<u64, Error> {
        if self.0.is_of(running) {
            Ok(self.0.object())
        } else {
            Err(Error::Usage("the object belongs to another store".into()))
        }
    }
}
