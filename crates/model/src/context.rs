//! The memory that compiled code and the runtime share: thread context, instance context, and what they point to.
//!
//! All offsets are in bytes. Structures are `repr(C)`; [`Layout`] gives the offsets of an instance context, whose length
//! depends on its module. Each guest function's first parameter is the address of its instance context (`vmctx`).
//!
//! ```text
//! vmctx ─► InstanceHeader │ memories │ tables │ imported globals │ imported functions │ tags │ func refs │ defined globals
//!             │thread         │base,def   │def     │cell                │code, vmctx           │tag    │code,vmctx,type  │16 bytes each
//! ```

use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64};

use crate::index::{FuncIndex, GlobalIndex, MemoryIndex, TableIndex, TagIndex};
use crate::module::Module;

/// One guest thread, as compiled code sees it. The runtime embeds it at the start of its own thread structure.
#[repr(C)]
#[derive(Debug)]
pub struct ThreadContext {
    /// Value-iterations left before the next poll. The thread itself loads, subtracts and stores; others store −1
    /// (relaxed) to call it to a poll, and repeat that until it arrives, since its own store may overwrite one.
    pub budget: AtomicI32,
    /// Nonzero: trap when back in compiled code. Written by the thread (a failed host call) and by others (a cancel).
    pub interrupted: AtomicU32,
    /// The lowest stack address at which a call may leave guest code. Written at each entry from the host.
    pub stack_limit: AtomicU64,
    /// The instance context that last called an import: written by import stubs, read by host calls.
    pub caller: AtomicU64,
    /// The frame pointer and the return address of compiled code that called a builtin which may look at the stack, or
    /// host code: written on the way out, read by the thread itself.
    pub exit_frame: AtomicU64,
    /// See [`ThreadContext::exit_frame`].
    pub exit_address: AtomicU64,
}

impl ThreadContext {
    /// Offset of [`ThreadContext::budget`].
    pub const BUDGET: i32 = 0;
    /// Offset of [`ThreadContext::interrupted`].
    pub const INTERRUPTED: i32 = 4;
    /// Offset of [`ThreadContext::stack_limit`].
    pub const STACK_LIMIT: i32 = 8;
    /// Offset of [`ThreadContext::caller`].
    pub const CALLER: i32 = 16;
    /// Offset of [`ThreadContext::exit_frame`].
    pub const EXIT_FRAME: i32 = 24;
    /// Offset of [`ThreadContext::exit_address`].
    pub const EXIT_ADDRESS: i32 = 32;
}

/// The fixed start of an instance context.
#[repr(C)]
#[derive(Debug)]
pub struct InstanceHeader {
    /// The thread that this instance runs on. Never changes while guest code runs: compiled code loads it as read-only.
    pub thread: *const ThreadContext,
    /// Type identifiers, one `u32` for each of [`Module::types`]: of a function type its canonical number, of another the
    /// first word of its objects ([`crate::heap::word`]). Equal types have equal ones in a process.
    pub type_ids: *const u32,
    /// The runtime's own instance structure; null only in a [`ReferenceContext`].
    pub instance: *const u8,
}

impl InstanceHeader {
    /// Offset of [`InstanceHeader::thread`].
    pub const THREAD: i32 = 0;
    /// Offset of [`InstanceHeader::type_ids`].
    pub const TYPE_IDS: i32 = 8;
    /// Offset of [`InstanceHeader::instance`].
    pub const INSTANCE: i32 = 16;
}

/// One memory in an instance context. A memory never moves: compiled code loads both fields as read-only.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct MemoryEntry {
    /// Address of byte 0. For a memory that is not [checked](crate::types::MemoryType::is_checked)
    /// [`MEMORY32_RESERVATION`] bytes are reserved from here, so that no access `address (32 bits) + offset (32 bits) +
    /// 16` needs an inline bounds check.
    pub base: *mut u8,
    /// Where the length is: what accesses to a checked memory are compared with.
    pub def: *const MemoryDef,
}

impl MemoryEntry {
    /// Bytes an entry takes.
    pub const SIZE: i32 = 16;
    /// Offset of [`MemoryEntry::base`].
    pub const BASE: i32 = 0;
    /// Offset of [`MemoryEntry::def`].
    pub const DEF: i32 = 8;
}

/// Bytes of address space reserved for a 32-bit memory with pages of the usual size, guard pages included.
pub const MEMORY32_RESERVATION: u64 = (8 << 30) + (64 << 10);

/// Bytes that fault behind a 64-bit memory with pages of the usual size, however long it is: at least every static offset
/// that fits an instruction.
pub const MEMORY64_GUARD: u64 = 2 << 30;

/// The part of a memory that all instances share.
#[repr(C)]
#[derive(Debug)]
pub struct MemoryDef {
    /// Length in bytes. Only grows, while others read it: what was inside once stays inside.
    pub length: AtomicU64,
}

impl MemoryDef {
    /// Offset of [`MemoryDef::length`].
    pub const LENGTH: i32 = 0;
}

/// A table, as compiled code sees it: both fields change when it grows. An instance context holds its address.
#[repr(C)]
#[derive(Debug)]
pub struct TableDef {
    /// Address of element 0; an element is a 64-bit reference.
    pub base: *mut u64,
    /// Elements.
    pub length: u64,
}

impl TableDef {
    /// Offset of [`TableDef::base`].
    pub const BASE: i32 = 0;
    /// Offset of [`TableDef::length`].
    pub const LENGTH: i32 = 8;
    /// Bytes an instance context takes for a table: one address.
    pub const ENTRY_SIZE: i32 = 8;
    /// Bytes an element takes.
    pub const ELEMENT_SIZE: i32 = 8;
}

/// What an imported function resolved to.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct ImportedFunction {
    /// Code of the guest convention.
    pub code: *const u8,
    /// Its first argument: an instance context, or the address of a host function object.
    pub vmctx: *const u8,
}

impl ImportedFunction {
    /// Bytes an entry takes.
    pub const SIZE: i32 = 16;
    /// Offset of [`ImportedFunction::code`].
    pub const CODE: i32 = 0;
    /// Offset of [`ImportedFunction::vmctx`].
    pub const VMCTX: i32 = 8;
}

/// What a function reference points to. Lives as long as its instance.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct FuncRef {
    /// Code of the guest convention.
    pub code: *const u8,
    /// Its first argument.
    pub vmctx: *const u8,
    /// Canonical type identifier.
    pub type_id: u32,
    /// Zero.
    pub reserved: u32,
}

impl FuncRef {
    /// Bytes an entry takes.
    pub const SIZE: i32 = 24;
    /// Offset of [`FuncRef::code`].
    pub const CODE: i32 = 0;
    /// Offset of [`FuncRef::vmctx`].
    pub const VMCTX: i32 = 8;
    /// Offset of [`FuncRef::type_id`].
    pub const TYPE_ID: i32 = 16;
}

/// What stands for an instance context in a reference to a function that compiled code did not make: one that a host hands
/// in, to a function that guest code never refers to or to one of the host. Its code is a reference stub, which does what an
/// import stub does.
#[repr(C)]
#[derive(Debug)]
pub struct ReferenceContext {
    /// As an instance context has it, but the instance is null where the function is the host's.
    pub header: InstanceHeader,
    /// The function.
    pub target: ImportedFunction,
}

impl ReferenceContext {
    /// Offset of [`ReferenceContext::target`].
    pub const TARGET: i32 = 24;
}

/// An exception: an object of the heap. What it carries follows, in slots of [`SLOT_SIZE`] bytes.
#[repr(C)]
#[derive(Debug)]
pub struct ExceptionHeader {
    /// The heap's own.
    pub kind: u32,
    /// Slots.
    pub length: u32,
    /// Its tag: the same address for the same tag, as instance contexts hold it.
    pub tag: *const u8,
    /// The instance context of the code that made it; null for a host.
    pub thrower: *const u8,
    /// Byte offset of the operator that made it, in the thrower's module.
    pub offset: u32,
    /// Zero.
    pub reserved: u32,
}

impl ExceptionHeader {
    /// Offset of [`ExceptionHeader::tag`].
    pub const TAG: i32 = 8;
    /// Bytes before the slots.
    pub const SIZE: i32 = 32;
}

/// Bytes an instance context takes for a tag: one address.
pub const TAG_SIZE: i32 = 8;

/// Bytes a global takes, whatever its type.
pub const GLOBAL_SIZE: i32 = 16;

/// Bytes a parameter or result takes where it travels through memory between host and guest.
pub const SLOT_SIZE: i32 = 16;

/// Free stack that a call leaving guest code must find below it, in bytes.
pub const HOST_HEADROOM: usize = 64 << 10;

/// Where things lie in an instance context of one module.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Layout {
    memories: i32,
    tables: i32,
    imported_globals: i32,
    imported_functions: i32,
    tags: i32,
    func_refs: i32,
    defined_globals: i32,
    size: i32,
    imported_global_count: u32,
}

impl Layout {
    /// The layout for a module. Its counts are validated limits, far below what an `i32` offset can address.
    ///
    /// # Panics
    /// If the context would be larger than 2 GiB: always a bug, since validation bounds the counts.
    #[must_use]
    pub fn new(module: &Module) -> Self {
        let bytes = |count: usize, each: i32| {
            i32::try_from(count)
                .ok()
                .and_then(|count| count.checked_mul(each))
                .expect("instance context over 2 GiB: validation bounds the counts")
        };
        let memories = i32::try_from(size_of::<InstanceHeader>()).expect("a small constant");
        let tables = memories + bytes(module.memories.len(), MemoryEntry::SIZE);
        let imported_globals = tables + bytes(module.tables.len(), TableDef::ENTRY_SIZE);
        let imported_functions = imported_globals + bytes(module.imported_globals as usize, 8);
        let tags = imported_functions + bytes(module.imported_functions as usize, ImportedFunction::SIZE);
        let func_refs = tags + bytes(module.tags.len(), TAG_SIZE);
        let end = func_refs + bytes(module.escaped.len(), FuncRef::SIZE);
        let defined_globals = (end + 15) & !15;
        let size = defined_globals + bytes(module.globals.len() - module.imported_globals as usize, GLOBAL_SIZE);
        Self {
            memories,
            tables,
            imported_globals,
            imported_functions,
            tags,
            func_refs,
            defined_globals,
            size,
            imported_global_count: module.imported_globals,
        }
    }

    /// Bytes of the whole context; align it to 16.
    #[must_use]
    pub const fn size(&self) -> usize {
        self.size.cast_unsigned() as usize
    }

    /// Offset of a [`MemoryEntry`].
    #[must_use]
    pub const fn memory(&self, index: MemoryIndex) -> i32 {
        self.memories + index.0.cast_signed() * MemoryEntry::SIZE
    }

    /// Offset of the address of a [`TableDef`].
    #[must_use]
    pub const fn table(&self, index: TableIndex) -> i32 {
        self.tables + index.0.cast_signed() * TableDef::ENTRY_SIZE
    }

    /// Where a global is.
    #[must_use]
    pub const fn global(&self, index: GlobalIndex) -> GlobalPlace {
        if index.0 < self.imported_global_count {
            GlobalPlace::Pointer(self.imported_globals + index.0.cast_signed() * 8)
        } else {
            let at = index.0 - self.imported_global_count;
            GlobalPlace::Inline(self.defined_globals + at.cast_signed() * GLOBAL_SIZE)
        }
    }

    /// Offset of an [`ImportedFunction`].
    #[must_use]
    pub const fn imported_function(&self, index: FuncIndex) -> i32 {
        self.imported_functions + index.0.cast_signed() * ImportedFunction::SIZE
    }

    /// Offset of the address that stands for a tag.
    #[must_use]
    pub const fn tag(&self, index: TagIndex) -> i32 {
        self.tags + index.0.cast_signed() * TAG_SIZE
    }

    /// Offset of the [`FuncRef`] of the function at a position of [`Module::escaped`].
    ///
    /// # Panics
    /// If `position` does not fit an `i32`: always a bug.
    #[must_use]
    pub fn func_ref(&self, position: usize) -> i32 {
        self.func_refs + i32::try_from(position).expect("bounded by Layout::new") * FuncRef::SIZE
    }
}

/// Where a global is in an instance context.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum GlobalPlace {
    /// The 16-byte cell itself is at this offset.
    Inline(i32),
    /// The address of the cell is at this offset.
    Pointer(i32),
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn constants_are_the_real_offsets() {
        let pairs = [
            (offset_of!(ThreadContext, budget), ThreadContext::BUDGET),
            (offset_of!(ThreadContext, interrupted), ThreadContext::INTERRUPTED),
            (offset_of!(ThreadContext, stack_limit), ThreadContext::STACK_LIMIT),
            (offset_of!(ThreadContext, caller), ThreadContext::CALLER),
            (offset_of!(ThreadContext, exit_frame), ThreadContext::EXIT_FRAME),
            (offset_of!(ThreadContext, exit_address), ThreadContext::EXIT_ADDRESS),
            (offset_of!(InstanceHeader, thread), InstanceHeader::THREAD),
            (offset_of!(InstanceHeader, type_ids), InstanceHeader::TYPE_IDS),
            (offset_of!(InstanceHeader, instance), InstanceHeader::INSTANCE),
            (offset_of!(MemoryEntry, base), MemoryEntry::BASE),
            (offset_of!(MemoryEntry, def), MemoryEntry::DEF),
            (size_of::<MemoryEntry>(), MemoryEntry::SIZE),
            (offset_of!(MemoryDef, length), MemoryDef::LENGTH),
            (offset_of!(TableDef, base), TableDef::BASE),
            (offset_of!(TableDef, length), TableDef::LENGTH),
            (offset_of!(ImportedFunction, code), ImportedFunction::CODE),
            (offset_of!(ImportedFunction, vmctx), ImportedFunction::VMCTX),
            (size_of::<ImportedFunction>(), ImportedFunction::SIZE),
            (offset_of!(FuncRef, code), FuncRef::CODE),
            (offset_of!(FuncRef, vmctx), FuncRef::VMCTX),
            (offset_of!(FuncRef, type_id), FuncRef::TYPE_ID),
            (size_of::<FuncRef>(), FuncRef::SIZE),
            (offset_of!(ReferenceContext, target), ReferenceContext::TARGET),
            (offset_of!(ExceptionHeader, tag), ExceptionHeader::TAG),
            (size_of::<ExceptionHeader>(), ExceptionHeader::SIZE),
        ];
        for (real, constant) in pairs {
            assert_eq!(i32::try_from(real), Ok(constant));
        }
    }
}
