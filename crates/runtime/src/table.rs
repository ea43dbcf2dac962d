//! Tables: references that compiled code reads and writes directly.
//!
//! Invariants: `def` always describes `elements`. A table belongs to one store ([`Affinity`]), so nothing here races.
//! Bounds are checked before anything changes. Source: core spec 4.5.3.8, 4.4.6. Cost: 8 bytes an element.
#![expect(unsafe_code, reason = "shared with compiled code")]

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::{Arc, Weak};

use spinwise_model::context::TableDef;
use spinwise_model::trap::TrapCode;
use spinwise_model::types::{TableType, ValType};

use crate::affinity::Affinity;
use crate::error::Error;
use crate::heap::roots::Roots;
use crate::number::to_usize;
use crate::store::Context;
use crate::thread::Running;
use crate::types;
use crate::value::Val;

/// Elements that a table may have.
const MAX_ELEMENTS: u64 = 10_000_000;

/// A handle to a table; clones are the same table.
#[derive(Clone)]
pub struct Table(Arc<Inner>);

struct Inner {
    ty: TableType,
    affinity: Affinity,
    def: UnsafeCell<TableDef>,
    elements: UnsafeCell<Vec<u64>>,
}

// SAFETY: the cells are reached only by the store that claimed the table, which one thread runs at a time.
unsafe impl Sync for Inner {}
// SAFETY: the address in `def` is that of `elements`, which moves along.
unsafe impl Send for Inner {}

impl Roots for Inner {
    unsafe fn each(&self, reach: &mut dyn FnMut(u64)) {
        // SAFETY: the caller's thread has claimed it, and nothing else borrows its elements.
        unsafe { &*self.elements.get() }.iter().copied().for_each(reach);
    }
}

impl Table {
    /// A fresh table of `ty.min` elements, all null. Its type's indices are those of no module.
    ///
    /// # Errors
    /// [`Error::Resource`] where it is beyond a limit; [`Error::Usage`] where its elements cannot be null.
    pub fn new(ty: TableType) -> Result<Self, Error> {
        if !ty.element.nullable {
            return Err(Error::Usage(format!("a table of {} has no null elements", ty.element)));
        }
        Self::nulls(ty)
    }

    /// A fresh table of `ty.min` zeros, which are no elements yet where its type has no null.
    pub(crate) fn nulls(ty: TableType) -> Result<Self, Error> {
        if ty.min > MAX_ELEMENTS {
            return Err(Error::Resource(format!("a table of {} elements: this runtime allows {MAX_ELEMENTS}", ty.min)));
        }
        let mut elements = vec![0; to_usize(ty.min)];
        let def = TableDef { base: elements.as_mut_ptr(), length: ty.min };
        Ok(Self(Arc::new(Inner {
            ty,
            affinity: Affinity::default(),
            def: UnsafeCell::new(def),
            elements: UnsafeCell::new(elements),
        })))
    }

    /// The type it was made with. Its minimum is not its size now.
    #[must_use]
    pub fn ty(&self) -> TableType {
        self.0.ty
    }

    /// Elements, now.
    ///
    /// # Errors
    /// [`Error::Usage`] where it belongs to another store.
    pub fn size(&self, context: &mut (impl Context + ?Sized)) -> Result<u64, Error> {
        self.claim(context.running())?;
        // SAFETY: claimed.
        Ok(unsafe { self.elements() }.len() as u64)
    }

    /// An element; `None` past the end.
    ///
    /// # Errors
    /// [`Error::Usage`] where it belongs to another store.
    pub fn get(&self, context: &mut (impl Context + ?Sized), index: u64) -> Result<Option<Val>, Error> {
        let running = context.running();
        self.claim(running)?;
        // SAFETY: claimed.
        let bits = unsafe { self.elements() }.get(to_usize(index)).copied();
        // SAFETY: a table holds live references of its type, or null.
        Ok(bits.map(|bits| unsafe { Val::from_bits(running, ValType::Ref(self.0.ty.element), bits.into()) }))
    }

    /// Sets an element.
    ///
    /// # Errors
    /// The trap for an index past the end; [`Error::Usage`] for a value of another type or another store's table.
    pub fn set(&self, context: &mut (impl Context + ?Sized), index: u64, value: &Val) -> Result<(), Error> {
        let running = context.running();
        self.claim(running)?;
        let bits = self.bits(running, value)?;
        // SAFETY: claimed.
        let elements = unsafe { self.elements() };
        *elements.get_mut(to_usize(index)).ok_or(TrapCode::TableOutOfBounds)? = bits;
        Ok(())
    }

    /// Grows by some elements of one value; answers the size before, or `None` beyond its maximum.
    ///
    /// # Errors
    /// [`Error::Usage`] for a value of another type or another store's table.
    pub fn grow(&self, context: &mut (impl Context + ?Sized), by: u64, value: &Val) -> Result<Option<u64>, Error> {
        let running = context.running();
        self.claim(running)?;
        let bits = self.bits(running, value)?;
        // SAFETY: claimed.
        Ok(unsafe { self.grow_raw(by, bits) })
    }

    fn bits(&self, running: Running<'_>, value: &Val) -> Result<u64, Error> {
        if !types::matches(value.ty(), ValType::Ref(self.0.ty.element)) {
            return Err(Error::Usage(format!("a table of {} cannot hold a {}", self.0.ty.element, value.ty())));
        }
        #[expect(clippy::cast_possible_truncation, reason = "references are 64 bits wide")]
        Ok(value.to_bits(running)? as u64)
    }

    /// Claims it for a store.
    pub(crate) fn claim(&self, running: Running<'_>) -> Result<(), Error> {
        let first = self.0.affinity.claim(running, "table")?;
        if first && types::may_be_object(ValType::Ref(self.0.ty.element)) {
            let table: Weak<Inner> = Arc::downgrade(&self.0);
            running.own().heap.watch(table);
        }
        Ok(())
    }

    /// What an instance context holds of it. Valid while a handle lives.
    pub(crate) fn def(&self) -> *const TableDef {
        self.0.def.get()
    }

    /// All elements. Only [`Table::grow_raw`] may change how many there are.
    ///
    /// # Safety
    /// The caller's store has claimed it, and no other borrow of its elements lives.
    #[expect(clippy::mut_from_ref, reason = "interior mutability, guarded by the store")]
    pub(crate) unsafe fn elements(&self) -> &mut Vec<u64> {
        // SAFETY: the caller vouches for being alone.
        unsafe { &mut *self.0.elements.get() }
    }

    /// # Safety
    /// The caller's store has claimed it; `element` is a live reference or null.
    pub(crate) unsafe fn grow_raw(&self, by: u64, element: u64) -> Option<u64> {
        // SAFETY: as the caller vouches.
        let elements = unsafe { self.elements() };
        let old = elements.len() as u64;
        let new = old.checked_add(by)?;
        if new > self.0.ty.max.unwrap_or(u64::MAX).min(MAX_ELEMENTS) {
            return None;
        }
        elements.try_reserve(to_usize(by)).ok()?;
        elements.resize(to_usize(new), element);
        let def = TableDef { base: elements.as_mut_ptr(), length: new };
        // SAFETY: compiled code of this store is not running now, and nobody else reads it.
        unsafe { self.0.def.get().write(def) };
        Some(old)
    }

    /// Elements of a range, or the trap where it is not wholly inside.
    ///
    /// # Safety
    /// The caller's store has claimed it, and no other borrow of its elements lives.
    #[expect(clippy::mut_from_ref, reason = "interior mutability, guarded by the store")]
    pub(crate) unsafe fn range(&self, start: u64, length: u64) -> Result<&mut [u64], TrapCode> {
        // SAFETY: as the caller vouches.
        let elements = unsafe { self.elements() };
        let end = start.checked_add(length).filter(|end| *end <= elements.len() as u64);
        let end = end.ok_or(TrapCode::TableOutOfBounds)?;
        Ok(&mut elements[to_usize(start)..to_usize(end)])
    }

    /// Whether both are the same table.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl fmt::Debug for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Table").field("ty", &self.0.ty).finish_non_exhaustive()
    }
}
