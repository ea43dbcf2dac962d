//! References to functions that compiled code did not make: to a host's function, or to an exported one that its module
//! never refers to itself, so that nobody planned polls for calls of it by reference. Each goes through a reference stub,
//! which polls.
//!
//! Invariants: a reference has one address for as long as its store lives, and keeps what it is to alive. A host's function
//! has no code of its own: it is called through the adapter and the stub of some module of the store. Any module whose code
//! can call it has both ([`spinwise_model::symbol::NS_REFERENCE_STUB`]), so until there is such a module nobody calls it.
//! Cost: about 100 bytes a function.
#![expect(unsafe_code, reason = "references are addresses")]

use std::collections::BTreeMap;
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use spinwise_model::context::{FuncRef, ImportedFunction, InstanceHeader, ReferenceContext};
use spinwise_model::index::{FuncIndex, TypeIndex};

use crate::func::Func;
use crate::host::HostFunction;
use crate::instance::Inner;
use crate::program::Program;
use crate::thread::GuestThread;

/// The references of one store.
#[derive(Default)]
pub(crate) struct References {
    /// By what they are to: the address of an instance and a function index, or of a host's function and `u32::MAX`.
    made: BTreeMap<(usize, u32), NonNull<Reference>>,
    /// How to call a host's function of a type.
    host_code: BTreeMap<TypeIndex, HostCode>,
}

/// A reference, with what its code finds through it. It never moves.
#[repr(C)]
struct Reference {
    context: ReferenceContext,
    func_ref: FuncRef,
    target: Target,
}

enum Target {
    Host(Arc<HostFunction>),
    /// Of the instance that the context names: the store keeps it.
    Guest(FuncIndex),
}

#[derive(Clone, Copy)]
struct HostCode {
    stub: *const u8,
    adapter: *const u8,
}

/// What the code of a host's function is while no module can call it.
extern "C" fn nobody_calls() {
    panic!("a host's function was called by a module without an adapter for its type: always a bug");
}

impl References {
    /// Learns how to call hosts' functions of the types that a module has code for.
    pub(crate) fn learn(&mut self, program: &Program) {
        let image = &program.image;
        for (ty, adapter) in &image.host_adapters {
            let Some(stub) = image.reference_stubs.get(ty) else { continue };
            let code =
                HostCode { stub: ptr::with_exposed_provenance(*stub), adapter: ptr::with_exposed_provenance(*adapter) };
            self.host_code.entry(program.types.id(*ty)).or_insert(code);
        }
        for reference in self.made.values() {
            // SAFETY: it lives as long as it is in the map, and no compiled code of the store runs now.
            let reference = unsafe { &mut *reference.as_ptr() };
            if let Target::Host(host) = &reference.target
                && let Some(code) = self.host_code.get(&host.type_id())
            {
                reference.context.target.code = code.adapter;
                reference.func_ref.code = code.stub;
            }
        }
    }

    /// A reference to a host's function.
    pub(crate) fn of_host(&mut self, thread: &GuestThread, host: &Arc<HostFunction>) -> u64 {
        let nobody = HostCode { stub: nobody_calls as *const u8, adapter: nobody_calls as *const u8 };
        let code = self.host_code.get(&host.type_id()).copied().unwrap_or(nobody);
        let key = (Arc::as_ptr(host).addr(), u32::MAX);
        self.get(key, || Reference {
            context: ReferenceContext {
                header: InstanceHeader {
                    thread: ptr::from_ref(thread.context()),
                    type_ids: ptr::null(),
                    instance: ptr::null(),
                },
                target: ImportedFunction { code: code.adapter, vmctx: Arc::as_ptr(host).cast() },
            },
            func_ref: FuncRef { code: code.stub, vmctx: ptr::null(), type_id: host.type_id().0, reserved: 0 },
            target: Target::Host(Arc::clone(host)),
        })
    }

    /// A reference to a function that an instance of the store defines and exports.
    ///
    /// # Panics
    /// If the image has no stub for it: always a bug of the compiler.
    pub(crate) fn of_export(&mut self, thread: &GuestThread, owner: &Inner, index: FuncIndex) -> u64 {
        let program = owner.program();
        let ty = program.module.functions[index.index()].ty;
        self.get((ptr::from_ref(owner).addr(), index.0), || Reference {
            context: ReferenceContext {
                header: InstanceHeader {
                    thread: ptr::from_ref(thread.context()),
                    type_ids: program.types.words(),
                    instance: ptr::from_ref(owner).cast(),
                },
                target: ImportedFunction {
                    code: ptr::with_exposed_provenance(program.image.functions[index.index()]),
                    vmctx: owner.context().cast_const(),
                },
            },
            func_ref: FuncRef {
                code: ptr::with_exposed_provenance(
                    *program.image.reference_stubs.get(&ty).expect("an image has a stub for each exported function"),
                ),
                vmctx: ptr::null(),
                type_id: program.types.id(ty).0,
                reserved: 0,
            },
            target: Target::Guest(index),
        })
    }

    /// The address of a reference, made if there is none.
    fn get(&mut self, key: (usize, u32), make: impl FnOnce() -> Reference) -> u64 {
        let reference = *self.made.entry(key).or_insert_with(|| {
            let mut reference = NonNull::from(Box::leak(Box::new(make())));
            let context = reference.as_ptr().cast_const().cast();
            // SAFETY: just made, and nobody else's yet.
            unsafe { reference.as_mut() }.func_ref.vmctx = context;
            reference
        });
        // SAFETY: it lives as long as it is in the map.
        let func_ref = unsafe { &raw const (*reference.as_ptr()).func_ref };
        func_ref.expose_provenance() as u64
    }
}

/// The function of a reference whose code is a reference stub.
///
/// # Safety
/// `context` is the first argument of the code of such a reference, which is live.
pub(crate) unsafe fn func_of(context: *const ReferenceContext) -> Func {
    // SAFETY: as the caller vouches; the context is the first field.
    let reference = unsafe { &*context.cast::<Reference>() };
    match &reference.target {
        Target::Host(host) => Func::from_host(Arc::clone(host)),
        Target::Guest(index) => {
            // SAFETY: the context names the instance, which the store keeps for as long as its references.
            let owner = unsafe { &*reference.context.header.instance.cast::<Inner>() };
            Func::from_guest(owner.handle().into_inner(), *index)
        }
    }
}

impl Drop for References {
    fn drop(&mut self) {
        for reference in self.made.values() {
            // SAFETY: leaked by `get`, and out of use with the store.
            drop(unsafe { Box::from_raw(reference.as_ptr()) });
        }
    }
}

impl fmt::Debug for References {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("References").field("made", &self.made.len()).finish_non_exhaustive()
    }
}
