//! Functions, wherever they come from, and calls of them from the host.
//!
//! Invariant: a guest function keeps its instance alive, and runs only on its instance's thread. As a reference in
//! compiled code it is the address of its [`FuncRef`], in the instance context or made by [`reference`].
#![expect(unsafe_code, reason = "function references are addresses")]

use std::sync::Arc;

use spinwise_model::context::{FuncRef, SLOT_SIZE};
use spinwise_model::index::{FuncIndex, TypeIndex};
use spinwise_model::types::FuncType;

use crate::enter::{self, Entry};
use crate::error::Error;
use crate::host::{Caller, HostFunction};
use crate::instance::Inner;
use crate::number::{to_u32, to_usize};
use crate::reference;
use crate::store::Context;
use crate::thread::Running;
use crate::value::{self, Slots, Val};

/// A handle to a function; clones are the same function.
#[derive(Clone, Debug)]
pub struct Func(Origin);

#[derive(Clone, Debug)]
enum Origin {
    Host(Arc<HostFunction>),
    Guest { owner: Arc<Inner>, index: FuncIndex },
}

/// A function with imports followed to where it is defined.
pub(crate) enum Resolved<'a> {
    Host(&'a Arc<HostFunction>),
    Guest { owner: &'a Arc<Inner>, index: FuncIndex },
}

impl Func {
    pub(crate) fn from_host(host: Arc<HostFunction>) -> Self {
        Self(Origin::Host(host))
    }

    pub(crate) fn from_guest(owner: Arc<Inner>, index: FuncIndex) -> Self {
        Self(Origin::Guest { owner, index })
    }

    /// Its type.
    #[must_use]
    pub fn ty(&self) -> &FuncType {
        match &self.0 {
            Origin::Host(host) => host.ty(),
            Origin::Guest { owner, index } => {
                let program = owner.program();
                program.types.func(program.module.functions[index.index()].ty)
            }
        }
    }

    /// The number of its type.
    pub(crate) fn type_id(&self) -> TypeIndex {
        match &self.0 {
            Origin::Host(host) => host.type_id(),
            Origin::Guest { owner, index } => {
                let program = owner.program();
                program.types.id(program.module.functions[index.index()].ty)
            }
        }
    }

    /// Where it is defined.
    pub(crate) fn resolve(&self) -> Resolved<'_> {
        let mut func = self;
        loop {
            match &func.0 {
                Origin::Host(host) => return Resolved::Host(host),
                Origin::Guest { owner, index } => match owner.imported_function(*index) {
                    Some(imported) => func = imported,
                    None => return Resolved::Guest { owner, index: *index },
                },
            }
        }
    }

    /// What compiled code holds as a reference to it.
    ///
    /// # Errors
    /// [`Error::Usage`] for another store's.
    pub(crate) fn to_raw(&self, running: Running<'_>) -> Result<u64, Error> {
        let mut references = running.own().references.borrow_mut();
        match &self.0 {
            Origin::Host(host) => Ok(references.of_host(running.thread(), host)),
            Origin::Guest { owner, index } => {
                owner.check_thread(running)?;
                let module = owner.module();
                // Calls of these by reference poll as planned.
                if module.is_imported(*index) || module.address_taken.binary_search(index).is_ok() {
                    return Ok(owner.raw_func(*index));
                }
                Ok(references.of_export(running.thread(), owner, *index))
            }
        }
    }

    /// The function of a reference in compiled code.
    ///
    /// # Safety
    /// `raw` is 0 or the address of a live [`FuncRef`].
    pub(crate) unsafe fn from_raw(raw: u64) -> Option<Self> {
        if raw == 0 {
            return None;
        }
        let func_ref = std::ptr::with_exposed_provenance::<FuncRef>(to_usize(raw));
        // SAFETY: the caller vouches that it is live.
        let context = unsafe { (*func_ref).vmctx };
        // SAFETY: the first argument of the code of a function reference is a context.
        let owner = unsafe { Inner::of_context(context) }.filter(|owner| std::ptr::eq(owner.context(), context));
        let Some(owner) = owner else {
            // SAFETY: it is no instance's own, so its code is a reference stub.
            return Some(unsafe { reference::func_of(context.cast()) });
        };
        let position = (func_ref.addr() - owner.func_ref(0).addr()) / size_of::<FuncRef>();
        let index = owner.module().escaped[position];
        Some(Self(Origin::Guest { owner: owner.handle().into_inner(), index }))
    }

    /// Calls it.
    ///
    /// # Errors
    /// As [`crate::Instance::call`].
    pub fn call(&self, context: &mut (impl Context + ?Sized), arguments: &[Val]) -> Result<Vec<Val>, Error> {
        let ty = self.ty();
        if !value::fit(arguments, &ty.params) {
            let list = |types: &mut dyn Iterator<Item = String>| types.collect::<Vec<_>>().join(" ");
            let wanted = list(&mut ty.params.iter().map(ToString::to_string));
            let given = list(&mut arguments.iter().map(|value| value.ty().to_string()));
            return Err(Error::Usage(format!("the function takes ({wanted}), not ({given})")));
        }
        let mut buffer = [0u128; 16];
        let mut large = Vec::new();
        let count = ty.params.len().max(ty.results.len());
        let slots: &mut [u128] = if count <= buffer.len() {
            &mut buffer
        } else {
            large.resize(count, 0);
            &mut large
        };
        const { assert!(size_of::<u128>() == SLOT_SIZE.cast_unsigned() as usize && align_of::<u128>() == 16) };
        let running = context.running();
        for (slot, argument) in slots.iter_mut().zip(arguments) {
            *slot = argument.to_bits(running)?;
        }
        let address = slots.as_mut_ptr().cast::<u8>();
        match self.resolve() {
            // SAFETY: there are as many slots as parameters or results, and they hold the parameters.
            Resolved::Host(host) => unsafe { host.call(Caller::new(running, None), Slots::new(address)) }?,
            Resolved::Guest { owner, index } => {
                owner.check_thread(running)?;
                let entry = Entry::new(owner, index, address);
                // SAFETY: as above, and the instance belongs to the running thread.
                unsafe { enter::enter(running, &entry) }?;
            }
        }
        let slots = Slots::new(address);
        // SAFETY: the call has filled one slot for each result.
        Ok((0..).zip(&ty.results).map(|(i, ty)| unsafe { slots.get(running, i, *ty) }).collect())
    }

    /// Whether both are the same function.
    #[must_use]
    pub fn same(&self, other: &Self) -> bool {
        match (self.resolve(), other.resolve()) {
            (Resolved::Host(a), Resolved::Host(b)) => Arc::ptr_eq(a, b),
            (Resolved::Guest { owner: a, index: i }, Resolved::Guest { owner: b, index: j }) => {
                Arc::ptr_eq(a, b) && i == j
            }
            _ => false,
        }
    }

    /// Its function index where it is defined; `None` for a host function.
    #[must_use]
    pub fn index(&self) -> Option<u32> {
        match self.resolve() {
            Resolved::Host(_) => None,
            Resolved::Guest { index, .. } => Some(to_u32(index.index())),
        }
    }
}
