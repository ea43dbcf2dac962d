//! Globals: 16-byte cells that compiled code reads and writes directly.
//!
//! Invariants: the cell lies in an instance context, or in a box of its own, that the handle keeps alive. A mutable
//! global belongs to one store ([`Affinity`]). Source: core spec 4.2.9. Cost: 16 bytes.
#![expect(unsafe_code, reason = "shared with compiled code")]

use std::cell::UnsafeCell;
use std::fmt;
use std::sync::{Arc, Weak};

use spinwise_model::types::GlobalType;

use crate::affinity::Affinity;
use crate::error::Error;
use crate::heap::roots::Roots;
use crate::instance;
use crate::store::Context;
use crate::thread::Running;
use crate::types;
use crate::value::Val;

/// A handle to a global; clones are the same global.
#[derive(Clone)]
pub struct Global {
    ty: GlobalType,
    cell: Cell,
}

#[derive(Clone)]
enum Cell {
    Own(Arc<OwnCell>),
    Inside { owner: Arc<instance::Inner>, cell: *mut u128 },
}

struct OwnCell {
    affinity: Affinity,
    value: UnsafeCell<u128>,
    /// A reference to be put into the cell once it is known for which store. Touched by whoever has claimed it.
    initial: UnsafeCell<Option<Val>>,
}

// SAFETY: as for `Global`, which it is a part of.
unsafe impl Sync for OwnCell {}

// SAFETY: a cell that can change is reached only by the store that it belongs to, which one thread runs at a time.
unsafe impl Sync for Global {}
// SAFETY: as above; the address lies in what the handle keeps alive.
unsafe impl Send for Global {}

impl Global {
    /// A fresh global.
    ///
    /// # Errors
    /// [`Error::Usage`] for a value of another type.
    pub fn new(ty: GlobalType, value: &Val) -> Result<Self, Error> {
        check(ty, value)?;
        let bits = value.free_bits()?;
        let initial = if bits.is_none() { Some(value.clone()) } else { None };
        let cell = OwnCell {
            affinity: Affinity::default(),
            value: UnsafeCell::new(bits.unwrap_or_default()),
            initial: UnsafeCell::new(initial),
        };
        Ok(Self { ty, cell: Cell::Own(Arc::new(cell)) })
    }

    /// The global whose cell is in an instance context.
    pub(crate) fn inside(ty: GlobalType, owner: Arc<instance::Inner>, cell: *mut u128) -> Self {
        Self { ty, cell: Cell::Inside { owner, cell } }
    }

    /// Its type.
    #[must_use]
    pub fn ty(&self) -> GlobalType {
        self.ty
    }

    /// Its value.
    ///
    /// # Errors
    /// [`Error::Usage`] where it belongs to another store.
    pub fn get(&self, context: &mut (impl Context + ?Sized)) -> Result<Val, Error> {
        let running = context.running();
        self.claim(running)?;
        // SAFETY: claimed.
        let bits = unsafe { self.bits() };
        // SAFETY: the cell holds a value of the global's type.
        Ok(unsafe { Val::from_bits(running, self.ty.content, bits) })
    }

    /// Changes its value.
    ///
    /// # Errors
    /// [`Error::Usage`] where it is immutable, of another type or another store's.
    pub fn set(&self, context: &mut (impl Context + ?Sized), value: &Val) -> Result<(), Error> {
        if !self.ty.mutable {
            return Err(Error::Usage("the global is immutable".into()));
        }
        let running = context.running();
        self.claim(running)?;
        check(self.ty, value)?;
        let bits = value.to_bits(running)?;
        // SAFETY: claimed, and no compiled code runs in this store now.
        unsafe { self.cell().write(bits) };
        Ok(())
    }

    /// Claims it for a store, if it can change.
    pub(crate) fn claim(&self, running: Running<'_>) -> Result<(), Error> {
        match &self.cell {
            Cell::Own(own) if self.ty.mutable || self.ty.content.is_ref() => {
                let first = own.affinity.claim(running, "global")?;
                if first && types::may_be_object(self.ty.content) {
                    let cell: Weak<OwnCell> = Arc::downgrade(own);
                    running.own().heap.watch(cell);
                }
                own.settle(running)
            }
            Cell::Own(_) => Ok(()),
            Cell::Inside { owner, .. } => owner.check_thread(running),
        }
    }

    /// The bits of its value; those above its type's width are undefined.
    ///
    /// # Safety
    /// The caller's store has claimed it.
    pub(crate) unsafe fn bits(&self) -> u128 {
        // SAFETY: the handle keeps the cell alive; it is aligned to 16 and all of it is initialised.
        unsafe { self.cell().read() }
    }

    /// Where its value is. Valid while a handle lives.
    pub(crate) fn cell(&self) -> *mut u128 {
        match &self.cell {
            Cell::Own(own) => own.value.get(),
            Cell::Inside { cell, .. } => *cell,
        }
    }
}

impl Roots for OwnCell {
    unsafe fn each(&self, reach: &mut dyn FnMut(u64)) {
        // SAFETY: the caller's thread has claimed it; a reference is in the low half.
        reach(unsafe { self.value.get().cast::<u64>().read() });
    }
}

impl OwnCell {
    /// Puts the initial reference into the cell, unless that is done.
    fn settle(&self, running: Running<'_>) -> Result<(), Error> {
        // SAFETY: claimed, so this thread alone is here, and the borrow ends before any other can begin.
        let initial = unsafe { &mut *self.initial.get() };
        if let Some(value) = initial {
            let bits = value.to_bits(running)?;
            // SAFETY: claimed, and no compiled code has seen the cell.
            unsafe { self.value.get().write(bits) };
            *initial = None;
        }
        Ok(())
    }
}

/// Whether a value is of the global's type.
fn check(ty: GlobalType, value: &Val) -> Result<(), Error> {
    if types::matches(value.ty(), ty.content) {
        Ok(())
    } else {
        Err(Error::Usage(format!("a global of {} cannot hold a {}", ty.content, value.ty())))
    }
}

impl fmt::Debug for Global {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Global").field("ty", &self.ty).finish_non_exhaustive()
    }
}
