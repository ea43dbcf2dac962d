//! Finished machine code in memory, as the linker hands it to the runtime.

use std::any::Any;
use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use crate::index::{FuncIndex, TypeIndex};

/// The code of one module. Addresses stay valid while the image lives.
pub struct CodeImage {
    /// All compiled ranges of this image lie in here (addresses). Other memory may lie between them.
    pub text: Range<usize>,
    /// Address of each function of the index space, by [`FuncIndex`]; for an imported one of its import stub.
    pub functions: Vec<usize>,
    /// Address of the host entry of a function type ([`crate::symbol::NS_HOST_ENTRY`]). Equal types may share one.
    pub host_entries: BTreeMap<TypeIndex, usize>,
    /// Address of the host adapter of a function type ([`crate::symbol::NS_HOST_ADAPTER`]).
    pub host_adapters: BTreeMap<TypeIndex, usize>,
    /// Address of the reference stub of a function type ([`crate::symbol::NS_REFERENCE_STUB`]).
    pub reference_stubs: BTreeMap<TypeIndex, usize>,
    /// Every compiled range, ascending and disjoint.
    pub ranges: Vec<CodeRange>,
    /// Every instruction that may trap, ascending by address.
    pub traps: Vec<TrapSite>,
    /// Every call that has a handler for exceptions, ascending by return address.
    pub handlers: Vec<HandlerSite>,
    /// Every call during which references lie in its caller's frame, ascending by return address.
    pub stack_maps: Vec<StackMap>,
    /// Keeps the memory mapped.
    pub owner: Arc<dyn Any + Send + Sync>,
}

/// One compiled function's code.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CodeRange {
    /// Its addresses.
    pub addresses: Range<usize>,
    /// The wasm function it is; `None` for glue (thunk, entries, adapters).
    pub function: Option<FuncIndex>,
    /// From native addresses to wasm: (address, wasm offset) pairs, ascending; each holds until the next.
    pub offsets: Vec<(usize, u32)>,
}

/// An instruction that may trap.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TrapSite {
    /// Its address.
    pub address: usize,
    /// [`crate::trap::TrapCode::raw`].
    pub code: u8,
    /// Byte offset of the wasm operator in the module; `u32::MAX` where there is none.
    pub wasm_offset: u32,
}

/// A call whose caller handles exceptions.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HandlerSite {
    /// Where the call returns to.
    pub return_address: usize,
    /// Where an exception goes on instead, with the frame's own stack and frame pointer, the exception in the guest
    /// convention's first payload register, and nothing expected of any other register.
    pub handler: usize,
    /// What the stack pointer is below the frame pointer, in bytes.
    pub frame: u32,
}

/// Where references that a collector must find lie in a frame during one call.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct StackMap {
    /// Where the call returns to.
    pub return_address: usize,
    /// What the stack pointer is below the frame pointer, in bytes.
    pub frame: u32,
    /// Offsets from the stack pointer of references.
    pub references: Box<[u32]>,
    /// Offsets from the stack pointer of 64-bit numbers, behind each of which lie as many references.
    pub counted: Box<[u32]>,
}

impl CodeImage {
    /// The references in the frame of a call that returns to exactly this address.
    #[must_use]
    pub fn stack_map_at(&self, return_address: usize) -> Option<&StackMap> {
        let at = self.stack_maps.binary_search_by_key(&return_address, |map| map.return_address).ok()?;
        Some(&self.stack_maps[at])
    }

    /// The range that holds an address.
    #[must_use]
    pub fn range_at(&self, address: usize) -> Option<&CodeRange> {
        let after = self.ranges.partition_point(|r| r.addresses.start <= address);
        let range = self.ranges.get(after.checked_sub(1)?)?;
        range.addresses.contains(&address).then_some(range)
    }

    /// The trap site at exactly this address.
    #[must_use]
    pub fn trap_at(&self, address: usize) -> Option<&TrapSite> {
        let at = self.traps.binary_search_by_key(&address, |t| t.address).ok()?;
        Some(&self.traps[at])
    }

    /// The handler of the call that returns to exactly this address.
    #[must_use]
    pub fn handler_at(&self, return_address: usize) -> Option<&HandlerSite> {
        let at = self.handlers.binary_search_by_key(&return_address, |site| site.return_address).ok()?;
        Some(&self.handlers[at])
    }

    /// The wasm offset of the code at an address, where it is known. What comes before a function's first operator, where
    /// its frame is made, counts as that operator's.
    #[must_use]
    pub fn wasm_offset_at(&self, address: usize) -> Option<u32> {
        let range = self.range_at(address)?;
        let after = range.offsets.partition_point(|(start, _)| *start <= address);
        Some(range.offsets.get(after.saturating_sub(1))?.1)
    }
}

impl fmt::Debug for CodeImage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CodeImage")
            .field("text", &self.text)
            .field("functions", &self.functions.len())
            .field("traps", &self.traps.len())
            .finish_non_exhaustive()
    }
}
