//! What compiled code may refer to, and under which name.
//!
//! In CLIF every function is a `UserExternalName { namespace, index }` of the namespaces below; in an object file it is
//! a symbol. The only symbols an object leaves undefined are the [`Builtin`]s, all named `spw_*`.

/// Namespace of wasm functions, by function index. For an imported function it names the *import stub*: the compiled
/// function that charges the budget, checks the host's headroom, and leaves guest code by a tail call through the import's
/// entry in the instance context.
pub const NS_FUNC: u32 = 0;
/// Namespace of [`Builtin`]s, by [`Builtin::index`].
pub const NS_BUILTIN: u32 = 1;
/// Namespace of the poll thunk, index 0: `fn(thread: i64, site: i32)` of convention `PreserveAll`, which calls
/// [`Builtin::Poll`].
pub const NS_POLL_THUNK: u32 = 2;
/// Namespace of host entries, by type index: `fn(vmctx: i64, code: i64, args: i64)` of the host's C convention. It
/// charges the budget, loads parameters from 16-byte slots at `args`, calls `code(vmctx, …)` in the guest convention and
/// stores results into the same slots. Its own result is 0, or the exception that the guest did not catch.
pub const NS_HOST_ENTRY: u32 = 3;
/// Namespace of host adapters, by type index: a function of the guest convention whose first parameter is the address
/// of a host function object. It stores its other parameters into 16-byte slots, calls [`Builtin::HostCall`] and loads
/// its results from the same slots, or traps, or throws, as it was answered.
pub const NS_HOST_ADAPTER: u32 = 4;
/// Namespace of reference stubs, by type index: what the code of a function reference is if compiled code did not make the
/// reference. An import stub over a [`crate::context::ReferenceContext`] instead of an instance context.
pub const NS_REFERENCE_STUB: u32 = 5;

/// The namespaces whose functions are the border of guest code and charge the budget on entry ([`NS_FUNC`]: as glue).
pub const BORDER: &[u32] = &[NS_FUNC, NS_HOST_ENTRY, NS_REFERENCE_STUB];

/// Set in the `site` that a guard passes to `poll` when the site has a watch: it is known to wait.
pub const SITE_HAS_WATCH: u32 = 1 << 31;

/// The `site` that import stubs and host entries pass to `poll`: the border of guest code, which no plan numbers.
pub const SITE_BOUNDARY: u32 = SITE_HAS_WATCH - 1;

/// The type of a builtin's parameter or result.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum AbiType {
    /// 32-bit integer.
    I32,
    /// 64-bit integer or an address.
    I64,
}

/// Defines [`Builtin`] and its tables.
macro_rules! builtins {
    ($($(#[$doc:meta])* $name:ident = $symbol:literal ($($param:ident),*) $(-> $result:ident)?;)*) => {
        /// A function of the runtime that compiled code calls, in the host's C convention.
        ///
        /// Where a builtin returns a *status*, 0 is success and anything else means that the trap to raise is in the
        /// thread context: the caller traps with [`crate::trap::TrapCode::Pending`].
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u32)]
        pub enum Builtin {
            $($(#[$doc])* $name,)*
        }

        impl Builtin {
            /// All of them, by index.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The symbol that an object file refers to.
            #[must_use]
            pub const fn symbol(self) -> &'static str {
                match self { $(Self::$name => $symbol,)* }
            }

            /// Parameter types.
            #[must_use]
            pub const fn params(self) -> &'static [AbiType] {
                match self { $(Self::$name => &[$(AbiType::$param,)*],)* }
            }

            /// Result types: none or one.
            #[must_use]
            pub const fn results(self) -> &'static [AbiType] {
                match self { $(Self::$name => &[$(AbiType::$result,)?],)* }
            }
        }
    };
}

builtins! {
    /// `poll(thread, site)`: the guard's cold call, through the poll thunk.
    Poll = "spw_poll" (I64, I32);
    /// `host_call(host function object, args) -> 0, 1 status failure, or an exception to throw`: calls a host closure. The
    /// calling instance context is `ThreadContext::caller`, written by the import stub. It fails, with nothing pending, if
    /// the thread was interrupted meanwhile.
    HostCall = "spw_host_call" (I64, I64) -> I64;
    /// `memory_grow(vmctx, memory, delta pages) -> old pages or -1`
    MemoryGrow = "spw_memory_grow" (I64, I32, I64) -> I64;
    /// `memory_copy(vmctx, destination memory, source memory, destination, source, length) -> status`
    MemoryCopy = "spw_memory_copy" (I64, I32, I32, I64, I64, I64) -> I32;
    /// `memory_fill(vmctx, memory, destination, byte, length) -> status`
    MemoryFill = "spw_memory_fill" (I64, I32, I64, I32, I64) -> I32;
    /// `memory_init(vmctx, memory, segment, destination, source, length) -> status`
    MemoryInit = "spw_memory_init" (I64, I32, I32, I64, I32, I32) -> I32;
    /// `data_drop(vmctx, segment)`
    DataDrop = "spw_data_drop" (I64, I32);
    /// `table_grow(vmctx, table, initial element, delta) -> old size or -1`
    TableGrow = "spw_table_grow" (I64, I32, I64, I64) -> I64;
    /// `table_fill(vmctx, table, destination, element, length) -> status`
    TableFill = "spw_table_fill" (I64, I32, I64, I64, I64) -> I32;
    /// `table_copy(vmctx, destination table, source table, destination, source, length) -> status`
    TableCopy = "spw_table_copy" (I64, I32, I32, I64, I64, I64) -> I32;
    /// `table_init(vmctx, table, segment, destination, source, length) -> status`
    TableInit = "spw_table_init" (I64, I32, I32, I64, I32, I32) -> I32;
    /// `elem_drop(vmctx, segment)`
    ElemDrop = "spw_elem_drop" (I64, I32);
    /// `atomic_wait32(vmctx, memory, address with offset applied, expected, timeout ns) -> 0 woken, 1 not equal,
    /// 2 timed out, -1 status failure`
    AtomicWait32 = "spw_atomic_wait32" (I64, I32, I64, I32, I64) -> I32;
    /// `atomic_wait64(vmctx, memory, address with offset applied, expected, timeout ns) -> as atomic_wait32`
    AtomicWait64 = "spw_atomic_wait64" (I64, I32, I64, I64, I64) -> I32;
    /// `atomic_notify(vmctx, memory, address with offset applied, count) -> woken (0 to 2^32 - 1) or -1 status failure`
    AtomicNotify = "spw_atomic_notify" (I64, I32, I64, I32) -> I64;
    /// `f32 ceil`, for CPUs without a rounding instruction; the eight below likewise. Floats travel as their own types.
    CeilF32 = "spw_ceil_f32" ();
    /// `f64 ceil`
    CeilF64 = "spw_ceil_f64" ();
    /// `f32 floor`
    FloorF32 = "spw_floor_f32" ();
    /// `f64 floor`
    FloorF64 = "spw_floor_f64" ();
    /// `f32 trunc`
    TruncF32 = "spw_trunc_f32" ();
    /// `f64 trunc`
    TruncF64 = "spw_trunc_f64" ();
    /// `f32 nearest`
    NearestF32 = "spw_nearest_f32" ();
    /// `f64 nearest`
    NearestF64 = "spw_nearest_f64" ();
    /// `f32 fma`
    FmaF32 = "spw_fma_f32" ();
    /// `f64 fma`
    FmaF64 = "spw_fma_f64" ();
    /// `is_subtype(vmctx, type, of) -> 1 or 0`, by canonical type identifiers.
    IsSubtype = "spw_is_subtype" (I64, I32, I32) -> I32;
    /// `host_throw(exception)`: as `throw`, for host adapters, which have no instance context and whose import stub has
    /// looked at the stack.
    HostThrow = "spw_host_throw" (I64);
    /// `exception_new(vmctx, tag, wasm offset) -> exception or 0 status failure`: the caller stores what it carries.
    ExceptionNew = "spw_exception_new" (I64, I32, I32) -> I64;
    /// `throw(vmctx, exception)`: drops frames of compiled code up to one that called with a handler, and goes on there.
    Throw = "spw_throw" (I64, I64);
    /// `object_is(vmctx, object, type) -> 1 or 0`: whether an object is of a type of the module, or of a subtype.
    ObjectIs = "spw_object_is" (I64, I64, I32) -> I32;
    /// `struct_new(vmctx, type) -> structure of zeros and nulls, or 0 status failure`
    StructNew = "spw_struct_new" (I64, I32) -> I64;
    /// `array_new(vmctx, type, length) -> array of zeros or nulls, or 0 status failure`
    ArrayNew = "spw_array_new" (I64, I32, I32) -> I64;
    /// `array_new_data(vmctx, type, segment, source, length) -> array or 0 status failure`
    ArrayNewData = "spw_array_new_data" (I64, I32, I32, I32, I32) -> I64;
    /// `array_new_elem(vmctx, type, segment, source, length) -> array or 0 status failure`
    ArrayNewElem = "spw_array_new_elem" (I64, I32, I32, I32, I32) -> I64;
    /// `array_fill(vmctx, array, start, length, low and high half of the element) -> status`
    ArrayFill = "spw_array_fill" (I64, I64, I32, I32, I64, I64) -> I32;
    /// `array_copy(vmctx, array, destination, source array, source, length) -> status`
    ArrayCopy = "spw_array_copy" (I64, I64, I32, I64, I32, I32) -> I32;
    /// `array_init_data(vmctx, array, destination, segment, source, length) -> status`
    ArrayInitData = "spw_array_init_data" (I64, I64, I32, I32, I32, I32) -> I32;
    /// `array_init_elem(vmctx, array, destination, segment, source, length) -> status`
    ArrayInitElem = "spw_array_init_elem" (I64, I64, I32, I32, I32, I32) -> I32;
}

impl Builtin {
    /// Its index in [`NS_BUILTIN`].
    #[must_use]
    pub const fn index(self) -> u32 {
        self as u32
    }

    /// The builtin of that index.
    #[must_use]
    pub fn from_index(index: u32) -> Option<Self> {
        Self::ALL.get(index as usize).copied()
    }

    /// Whether calling it is a *poll*: a place where the thread can be stopped, cancelled or made to yield.
    ///
    /// `notify`, growth and the bulk operations are not: they end, and bulk ones poll between chunks.
    #[must_use]
    pub const fn is_poll(self) -> bool {
        matches!(self, Self::Poll | Self::HostCall | Self::AtomicWait32 | Self::AtomicWait64)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn indices_round_trip() {
        for (index, builtin) in (0u32..).zip(Builtin::ALL) {
            assert_eq!(builtin.index(), index);
            assert_eq!(Builtin::from_index(index), Some(*builtin));
            assert!(builtin.symbol().starts_with("spw_"));
        }
        assert_eq!(Builtin::from_index(u32::MAX), None);
    }
}
