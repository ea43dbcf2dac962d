//! Machine code → this process: places it in one arena, resolves what it refers to, makes it executable.
//!
//! Invariant: every function of the module lies in one reservation, so that direct calls always reach; no page is
//! writable and executable at once; the memory is freed with the last owner of the image.
//!
//! Source: placing and patching are `cranelift_jit`'s. Cost: one copy of the code and a pass over its relocations.

use std::any::Any;
use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cranelift_codegen::binemit::Reloc;
use cranelift_codegen::isa::OwnedTargetIsa;
use cranelift_jit::{ArenaMemoryProvider, BranchProtection, JITBuilder, JITMemoryKind, JITMemoryProvider, JITModule};
use cranelift_module::{FuncId, ModuleResult};
use spinwise_model::image::{CodeImage, CodeRange, HandlerSite, StackMap, TrapSite};
use spinwise_model::index::{FuncIndex, TypeIndex};
use spinwise_model::module::Module;
use spinwise_model::symbol::{Builtin, NS_FUNC, NS_HOST_ADAPTER, NS_HOST_ENTRY, NS_REFERENCE_STUB};
use target_lexicon::Triple;

use crate::compile::Compiled;
use crate::error::Error;
use crate::link::{self, Linker};

/// Bytes that `cranelift_jit` may add after a function for each of its calls that could be out of reach.
const VENEER: usize = 24;

/// Bytes that the arena may waste: it grows by whole pages.
const SLACK: usize = 1 << 20;

/// Places compiled functions in executable memory of this process.
///
/// `compiled` holds every function of the module's index space (import stubs for imported ones) and the glue; `resolve`
/// gives the address of each builtin that the code refers to.
///
/// # Errors
/// If the code is for another machine, refers to a function that is not there, or finds no memory.
pub fn load(
    isa: &OwnedTargetIsa,
    module: &Module,
    compiled: Vec<Compiled>,
    resolve: &dyn Fn(Builtin) -> *const u8,
) -> Result<CodeImage, Error> {
    let (triple, host) = (isa.triple(), Triple::host());
    let same = (triple.architecture, triple.operating_system) == (host.architecture, host.operating_system);
    if !same || isa.flags().is_pic() {
        return Err(Error::ForeignCode { triple: triple.to_string() });
    }
    let compiled = link::with_helpers(&**isa, compiled)?;

    let arena = Arena::reserve(compiled.iter().map(room).sum())?;
    let mut builder = JITBuilder::with_isa(Arc::clone(isa), cranelift_module::default_libcall_names());
    builder.memory_provider(Box::new(arena.clone()));
    builder.symbols(link::builtins(&compiled)?.into_iter().map(|builtin| (builtin.symbol(), resolve(builtin))));
    let mut jit = JITModule::new(builder);

    let linker = Linker::declare(&mut jit, &compiled)?;
    let mut placed = Vec::with_capacity(compiled.len());
    for function in compiled {
        let id = linker.define(&mut jit, &function)?;
        // The code is in the arena now.
        placed.push((
            id,
            function.code.len(),
            Compiled { code: Box::default(), relocations: Box::default(), ..function },
        ));
    }
    jit.finalize_definitions().map_err(|error| Error::Memory(error.to_string()))?;
    image(&jit, module, placed, arena)
}

/// Bytes that a function can take in the arena.
fn room(compiled: &Compiled) -> usize {
    let veneers = compiled.relocations.iter().filter(|reloc| reloc.kind == Reloc::Arm64Call).count();
    compiled.code.len() + veneers * VENEER + compiled.alignment as usize
}

/// Describes placed code.
fn image(
    jit: &JITModule,
    module: &Module,
    placed: Vec<(FuncId, usize, Compiled)>,
    arena: Arena,
) -> Result<CodeImage, Error> {
    let mut functions = vec![None; module.functions.len()];
    let mut glue = [NS_HOST_ENTRY, NS_HOST_ADAPTER, NS_REFERENCE_STUB].map(|namespace| (namespace, BTreeMap::new()));
    let mut ranges = Vec::with_capacity(placed.len());
    let (mut traps, mut handlers, mut stack_maps) = (Vec::new(), Vec::new(), Vec::new());
    for (id, length, function) in placed {
        let start = jit.get_finalized_function(id).addr();
        let (namespace, index) = (function.name.namespace, function.name.index);
        let func = (namespace == NS_FUNC).then_some(FuncIndex(index));
        if let Some(func) = func {
            let slot = functions.get_mut(func.index()).ok_or_else(|| Error::Link {
                function: function.symbol.clone(),
                reason: "is not of the module, always a bug".to_owned(),
            })?;
            *slot = Some(start);
        }
        if let Some((_, types)) = glue.iter_mut().find(|(of, _)| *of == namespace) {
            types.insert(TypeIndex(index), start);
        }
        traps.extend(function.traps.iter().map(|trap| TrapSite {
            address: start + trap.offset as usize,
            code: trap.code,
            wasm_offset: trap.wasm_offset,
        }));
        handlers.extend(function.handlers.iter().map(|site| HandlerSite {
            return_address: start + site.offset as usize,
            handler: start + site.handler as usize,
            frame: site.frame,
        }));
        stack_maps.extend(function.stack_maps.into_iter().map(|map| StackMap {
            return_address: start + map.offset as usize,
            frame: map.frame,
            references: map.references,
            counted: map.counted,
        }));
        let offsets = function.offsets.iter().map(|(at, wasm)| (start + *at as usize, *wasm)).collect();
        ranges.push(CodeRange { addresses: start..start + length, function: func, offsets });
    }
    ranges.sort_unstable_by_key(|range| range.addresses.start);
    traps.sort_unstable_by_key(|trap| trap.address);
    handlers.sort_unstable_by_key(|site| site.return_address);
    stack_maps.sort_unstable_by_key(|map| map.return_address);
    let functions = (0u32..)
        .zip(functions)
        .map(|(index, address)| {
            address.ok_or_else(|| Error::Link {
                function: module.func_name(FuncIndex(index)),
                reason: "is not compiled, always a bug".to_owned(),
            })
        })
        .collect::<Result<_, _>>()?;
    let [host_entries, host_adapters, reference_stubs] = glue.map(|(_, of_types)| for_equal_types(module, &of_types));
    let text = match (ranges.first(), ranges.last()) {
        (Some(first), Some(last)) => first.addresses.start..last.addresses.end,
        _ => 0..0,
    };
    let owner: Arc<dyn Any + Send + Sync> = arena.0;
    Ok(CodeImage {
        text,
        functions,
        host_entries,
        host_adapters,
        reference_stubs,
        ranges,
        traps,
        handlers,
        stack_maps,
        owner,
    })
}

/// Gives glue to every type index whose type equals one that has it.
fn for_equal_types(module: &Module, compiled: &BTreeMap<TypeIndex, usize>) -> BTreeMap<TypeIndex, usize> {
    let by_type: BTreeMap<_, _> =
        module.types.functions().filter_map(|(index, ty)| Some((ty, *compiled.get(&index)?))).collect();
    module.types.functions().filter_map(|(index, ty)| Some((index, *by_type.get(ty)?))).collect()
}

/// Executable memory, owned by the linker while it works and by the image from then on.
#[derive(Clone)]
struct Arena(Arc<Memory>);

struct Memory(Mutex<ArenaMemoryProvider>);

impl Arena {
    fn reserve(bytes: usize) -> Result<Self, Error> {
        let provider =
            ArenaMemoryProvider::new_with_size(bytes + SLACK).map_err(|error| Error::Memory(error.to_string()))?;
        Ok(Self(Arc::new(Memory(Mutex::new(provider)))))
    }

    fn lock(&self) -> MutexGuard<'_, ArenaMemoryProvider> {
        self.0.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JITMemoryProvider for Arena {
    fn allocate(&mut self, size: usize, align: u64, kind: JITMemoryKind) -> io::Result<*mut u8> {
        self.lock().allocate(size, align, kind)
    }

    /// Does nothing: the memory lives until its last owner goes.
    #[expect(unsafe_code, reason = "the trait's signature; there is no unsafe operation in it")]
    unsafe fn free_memory(&mut self) {}

    fn finalize(&mut self, branch_protection: BranchProtection) -> ModuleResult<()> {
        let mut arena = self.lock();
        JITMemoryProvider::finalize(&mut *arena, branch_protection)
    }
}

impl Drop for Memory {
    #[expect(unsafe_code, reason = "unmaps executable memory")]
    fn drop(&mut self) {
        let arena = self.0.get_mut().unwrap_or_else(PoisonError::into_inner);
        // SAFETY: whoever runs or inspects the code holds the image, whose `owner` keeps this value alive; the linker
        // that held the other reference is gone as well, since this is the last one.
        unsafe { arena.free_memory() };
    }
}
