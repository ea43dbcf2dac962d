//! Instances: one module on one thread, with the context that compiled code works on.
//!
//! Invariants: the context lives at one address for as long as the instance, is laid out by [`Layout`], and everything it
//! points to is kept alive here. Only the instance's thread runs its code or changes its mutable parts; the parts that
//! other threads may read through a handle (module, memories, imports) never change. Source: core spec 4.5.4.
//! Cost: one allocation of [`Layout::size`] and what is defined in it.
#![expect(unsafe_code, reason = "lays out the instance context")]

use std::alloc;
use std::cell::{Cell, RefCell};
use std::fmt;
use std::ptr::{self, NonNull};
use std::sync::Arc;

use spinwise_model::context::{FuncRef, GlobalPlace, ImportedFunction, InstanceHeader, Layout};
use spinwise_model::index::{FuncIndex, GlobalIndex, MemoryIndex, TableIndex, TagIndex};
use spinwise_model::module::{Entity, Module};
use spinwise_model::types::{GlobalType, TableType};

use crate::error::Error;
use crate::func::{Func, Resolved};
use crate::global::Global;
use crate::init;
use crate::link::{self, Extern, Linked};
use crate::memory::Memory;
use crate::number::to_u32;
use crate::program::Program;
use crate::store::{Context, Store};
use crate::table::Table;
use crate::tag::Tag;
use crate::thread::{GuestThread, Running};
use crate::value::Val;

/// A handle to an instance; clones are the same one.
#[derive(Clone, Debug)]
pub struct Instance(Arc<Inner>);

/// An instance.
pub(crate) struct Inner {
    program: Arc<Program>,
    thread: Arc<GuestThread>,
    layout: Layout,
    context: ContextMemory,
    imports: Vec<Extern>,
    imported_funcs: Vec<Func>,
    imported_globals: Vec<Global>,
    memories: Vec<Memory>,
    tables: Vec<Table>,
    tags: Vec<Tag>,
    /// Which segments are gone, by index. Only the instance's thread touches them.
    pub(crate) dropped_data: Vec<Cell<bool>>,
    pub(crate) dropped_elements: Vec<Cell<bool>>,
    /// The elements of segments that make objects, until they are gone.
    pub(crate) element_objects: Vec<RefCell<Option<Box<[u64]>>>>,
}

// SAFETY: the cells and the context are touched by the instance's thread only; the rest is immutable or made for sharing.
unsafe impl Sync for Inner {}
// SAFETY: nothing in it is bound to an OS thread.
unsafe impl Send for Inner {}

impl Instance {
    /// Makes an instance: links imports, sets up what the module defines, applies active segments, and runs the start
    /// function.
    ///
    /// # Errors
    /// [`Error::Link`] for imports that do not fit; [`Error::Resource`]; a trap or error from segments or start function.
    /// What they had changed by then in imported memories and tables stays changed.
    pub fn new(store: &mut Store, program: &Arc<Program>, imports: &[Extern]) -> Result<Self, Error> {
        let instance = Self::allocate(store, program, imports, None)?;
        init::segments(&instance.0, init::Segments::All)?;
        instance.start(store)?;
        Ok(instance)
    }

    /// An instance of the same program with the same imports and shared memories, for a new thread. Its start function has
    /// yet to run: on that thread. Active segments of shared memories are left out, since others use those already.
    pub(crate) fn sibling(&self, store: &mut Store) -> Result<Self, Error> {
        let instance = Self::allocate(store, &self.0.program, &self.0.imports, Some(&self.0))?;
        init::segments(&instance.0, init::Segments::NotIntoSharedMemory)?;
        Ok(instance)
    }

    /// Runs the start function, if there is one.
    pub(crate) fn start(&self, context: &mut dyn Context) -> Result<(), Error> {
        if let Some(start) = self.0.module().start {
            Func::from_guest(Arc::clone(&self.0), start).call(context, &[])?;
        }
        Ok(())
    }

    fn allocate(
        store: &mut Store,
        program: &Arc<Program>,
        imports: &[Extern],
        sibling: Option<&Inner>,
    ) -> Result<Self, Error> {
        let linked = link::check(store, program, imports)?;
        let inner = Inner::new(store, program, imports, linked, sibling)?;
        for table in &inner.tables {
            table.claim(store.running())?;
        }
        store.keep(Arc::clone(&inner));
        store.running().own().references.borrow_mut().learn(program);
        init::globals(&inner)?;
        init::tables(&inner)?;
        init::element_objects(&inner)?;
        Ok(Self(inner))
    }

    /// Calls an exported function.
    ///
    /// # Errors
    /// What ended the call: a trap, an exit, a host function's error; [`Error::Usage`] where there is no such function or the
    /// arguments do not fit it.
    pub fn call(
        &self,
        context: &mut (impl Context + ?Sized),
        name: &str,
        arguments: &[Val],
    ) -> Result<Vec<Val>, Error> {
        match self.export(name) {
            Some(Extern::Func(func)) => func.call(context, arguments),
            Some(_) => Err(Error::Usage(format!("export {name} is no function"))),
            None => Err(Error::Usage(format!("no export named {name}"))),
        }
    }

    /// The export of that name.
    #[must_use]
    pub fn export(&self, name: &str) -> Option<Extern> {
        Some(self.0.entity(self.0.module().export(name)?))
    }

    /// The module.
    #[must_use]
    pub fn module(&self) -> &Arc<Module> {
        &self.0.program.module
    }

    /// The memory that the instance exports as `memory`, else its first.
    #[must_use]
    pub fn memory(&self) -> Option<&Memory> {
        self.0.main_memory()
    }

    /// What it imports, in the module's order.
    #[must_use]
    pub fn imports(&self) -> &[Extern] {
        &self.0.imports
    }

    pub(crate) fn into_inner(self) -> Arc<Inner> {
        self.0
    }
}

impl Inner {
    fn new(
        store: &Store,
        program: &Arc<Program>,
        imports: &[Extern],
        linked: Linked,
        sibling: Option<&Self>,
    ) -> Result<Arc<Self>, Error> {
        let module = &program.module;
        let layout = Layout::new(module);
        let Linked { funcs, mut tables, mut memories, globals, mut tags } = linked;
        for ty in &module.tables[tables.len()..] {
            tables.push(Table::nulls(TableType { element: program.types.reference(ty.element), ..*ty })?);
        }
        for (index, ty) in module.memories.iter().enumerate().skip(memories.len()) {
            let shared = sibling.filter(|_| ty.shared).map(|sibling| sibling.memories[index].clone());
            memories.push(shared.map_or_else(|| Memory::new(*ty), Ok)?);
        }
        for ty in &module.tags[tags.len()..] {
            tags.push(Tag::of_type(program.types.func(*ty).clone(), program.types.id(*ty)));
        }
        let inner = Arc::new(Self {
            program: Arc::clone(program),
            thread: Arc::clone(store.thread()),
            context: ContextMemory::new(layout.size()),
            layout,
            imports: imports[..module.imports.len()].to_vec(),
            imported_funcs: funcs,
            imported_globals: globals,
            memories,
            tables,
            tags,
            dropped_data: module.data.iter().map(|segment| Cell::new(segment.active.is_some())).collect(),
            dropped_elements: vec![Cell::new(false); module.elements.len()],
            element_objects: module.elements.iter().map(|_| RefCell::default()).collect(),
        });
        inner.lay_out()?;
        Ok(inner)
    }

    /// Fills the context, but for defined globals.
    fn lay_out(self: &Arc<Self>) -> Result<(), Error> {
        let thread = ptr::from_ref(self.thread.context());
        let header =
            InstanceHeader { thread, type_ids: self.program.types.words(), instance: Arc::as_ptr(self).cast() };
        self.put(0, header);
        for (index, memory) in self.memories.iter().enumerate() {
            self.put(self.layout.memory(MemoryIndex(to_u32(index))), memory.entry());
        }
        for (index, table) in self.tables.iter().enumerate() {
            self.put(self.layout.table(TableIndex(to_u32(index))), table.def());
        }
        for (index, global) in self.imported_globals.iter().enumerate() {
            if let GlobalPlace::Pointer(at) = self.layout.global(GlobalIndex(to_u32(index))) {
                self.put(at, global.cell());
            }
        }
        for (index, func) in self.imported_funcs.iter().enumerate() {
            let index = FuncIndex(to_u32(index));
            self.put(self.layout.imported_function(index), self.import_entry(index, func)?);
        }
        for (index, tag) in self.tags.iter().enumerate() {
            self.put(self.layout.tag(TagIndex(to_u32(index))), tag.address());
        }
        for (position, index) in self.module().escaped.iter().enumerate() {
            let func_ref = FuncRef {
                code: ptr::with_exposed_provenance(self.program.image.functions[index.index()]),
                vmctx: self.context().cast_const(),
                type_id: self.program.types.id(self.module().functions[index.index()].ty).0,
                reserved: 0,
            };
            self.put(self.layout.func_ref(position), func_ref);
        }
        Ok(())
    }

    fn import_entry(&self, index: FuncIndex, func: &Func) -> Result<ImportedFunction, Error> {
        Ok(match func.resolve() {
            Resolved::Host(host) => {
                let ty = self.module().functions[index.index()].ty;
                let adapter = *self.program.image.host_adapters.get(&ty).expect("an adapter for each imported type");
                ImportedFunction { code: ptr::with_exposed_provenance(adapter), vmctx: Arc::as_ptr(host).cast() }
            }
            Resolved::Guest { owner, index } => {
                if !Arc::ptr_eq(&owner.thread, &self.thread) {
                    return Err(Error::Usage("an imported function belongs to another store".into()));
                }
                let code = ptr::with_exposed_provenance(owner.program.image.functions[index.index()]);
                ImportedFunction { code, vmctx: owner.context().cast_const() }
            }
        })
    }

    /// Writes a part of the context.
    fn put<T>(&self, offset: i32, value: T) {
        let at = self.context.at::<T>(offset);
        // SAFETY: `at` is inside the context and aligned; nobody else uses the context yet.
        unsafe { at.write(value) };
    }

    pub(crate) fn module(&self) -> &Module {
        &self.program.module
    }

    pub(crate) fn program(&self) -> &Arc<Program> {
        &self.program
    }

    /// The address of its context.
    pub(crate) fn context(&self) -> *mut u8 {
        self.context.memory.as_ptr().cast()
    }

    /// The instance of a context; none of a host's function's.
    ///
    /// # Safety
    /// `context` is that of a live instance, or of a live reference to a function.
    pub(crate) unsafe fn of_context<'a>(context: *const u8) -> Option<&'a Self> {
        let header = context.cast::<InstanceHeader>();
        // SAFETY: the header is at the start of both.
        let instance = unsafe { (*header).instance };
        // SAFETY: it is null or points to the instance, which the caller vouches for.
        unsafe { instance.cast::<Self>().as_ref() }
    }

    /// The instance of the code that calls a builtin.
    ///
    /// # Safety
    /// `context` is that of a live instance.
    pub(crate) unsafe fn calling<'a>(context: *const u8) -> &'a Self {
        // SAFETY: as the caller vouches.
        unsafe { Self::of_context(context) }.expect("code runs in an instance")
    }

    /// A handle to it.
    pub(crate) fn handle(&self) -> Instance {
        let this = ptr::from_ref(self);
        // SAFETY: every `Inner` is in an `Arc` (`Inner::new`), which `self` keeps alive.
        unsafe { Arc::increment_strong_count(this) };
        // SAFETY: the count was raised for this handle.
        Instance(unsafe { Arc::from_raw(this) })
    }

    /// The thread that runs it, on the OS thread that does so now.
    ///
    /// # Safety
    /// The calling OS thread runs the instance's thread.
    pub(crate) unsafe fn running(&self) -> Running<'_> {
        // SAFETY: as the caller vouches.
        unsafe { Running::new(&self.thread) }
    }

    /// Fails unless the running thread is the instance's.
    pub(crate) fn check_thread(&self, running: Running<'_>) -> Result<(), Error> {
        if ptr::eq(running.thread(), Arc::as_ptr(&self.thread)) {
            Ok(())
        } else {
            Err(Error::Usage("the instance belongs to another store".into()))
        }
    }

    pub(crate) fn imported_function(&self, index: FuncIndex) -> Option<&Func> {
        self.imported_funcs.get(index.index())
    }

    /// The address of the reference of the function at a position of [`Module::escaped`].
    pub(crate) fn func_ref(&self, position: usize) -> *const FuncRef {
        self.context().wrapping_add(self.layout.func_ref(position).cast_unsigned() as usize).cast()
    }

    /// What a reference to a function is that the module itself takes, or to an imported one.
    pub(crate) fn raw_func(&self, index: FuncIndex) -> u64 {
        let position =
            self.module().escaped_position(index).expect("validation lists every function that is referenced");
        self.func_ref(position).expose_provenance() as u64
    }

    pub(crate) fn memory(&self, index: u32) -> &Memory {
        &self.memories[index as usize]
    }

    pub(crate) fn table(&self, index: u32) -> &Table {
        &self.tables[index as usize]
    }

    pub(crate) fn tag(&self, index: TagIndex) -> &Tag {
        &self.tags[index.index()]
    }

    pub(crate) fn main_memory(&self) -> Option<&Memory> {
        match self.module().export("memory") {
            Some(Entity::Memory(index)) => self.memories.get(index.index()),
            _ => self.memories.first(),
        }
    }

    /// Shows each reference that it holds itself and that may be to an object.
    pub(crate) fn each_reference(&self, reach: &mut dyn FnMut(u64)) {
        let module = self.module();
        for (index, ty) in (0u32..).zip(&module.globals).skip(module.imported_globals as usize) {
            if module.types.may_be_object(ty.content) {
                // SAFETY: the cell of a global that it defines; only its thread changes it, and that is here.
                let bits = unsafe { self.global_cell(GlobalIndex(index)).cast::<u64>().read() };
                reach(bits);
            }
        }
        for made in &self.element_objects {
            made.borrow().iter().flatten().copied().for_each(&mut *reach);
        }
    }

    /// Where a global's value is.
    pub(crate) fn global_cell(&self, index: GlobalIndex) -> *mut u128 {
        match self.layout.global(index) {
            GlobalPlace::Inline(at) => self.context.at(at),
            GlobalPlace::Pointer(_) => self.imported_globals[index.index()].cell(),
        }
    }

    fn entity(&self, entity: Entity) -> Extern {
        let this = || self.handle().into_inner();
        match entity {
            Entity::Function(index) => Extern::Func(Func::from_guest(this(), index)),
            Entity::Table(index) => Extern::Table(self.tables[index.index()].clone()),
            Entity::Memory(index) => Extern::Memory(self.memories[index.index()].clone()),
            Entity::Tag(index) => Extern::Tag(self.tags[index.index()].clone()),
            Entity::Global(index) => Extern::Global(match self.imported_globals.get(index.index()) {
                Some(imported) => imported.clone(),
                None => {
                    let ty = self.module().globals[index.index()];
                    let ty = GlobalType { content: self.program.types.val(ty.content), ..ty };
                    Global::inside(ty, this(), self.global_cell(index))
                }
            }),
        }
    }
}

impl fmt::Debug for Inner {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Instance").field("module", &self.module().name).finish_non_exhaustive()
    }
}

/// The memory of an instance context: zeroed, aligned to 16.
struct ContextMemory {
    memory: NonNull<u128>,
    layout: alloc::Layout,
}

impl ContextMemory {
    fn new(size: usize) -> Self {
        let layout = alloc::Layout::from_size_align(size, 16).expect("Layout::new keeps it below 2 GiB");
        // SAFETY: the size is not 0: there is a header.
        let memory = unsafe { alloc::alloc_zeroed(layout) };
        let memory = NonNull::new(memory.cast()).unwrap_or_else(|| alloc::handle_alloc_error(layout));
        Self { memory, layout }
    }

    /// The address of a part.
    fn at<T>(&self, offset: i32) -> *mut T {
        let offset = offset.cast_unsigned() as usize;
        assert!(offset + size_of::<T>() <= self.layout.size(), "inside the context");
        self.memory.as_ptr().cast::<u8>().wrapping_add(offset).cast()
    }
}

impl Drop for ContextMemory {
    fn drop(&mut self) {
        // SAFETY: allocated with this layout.
        unsafe { alloc::dealloc(self.memory.as_ptr().cast(), self.layout) };
    }
}
