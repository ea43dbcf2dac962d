//! What compiled code calls: one function for each [`Builtin`], under its `spw_*` name.
//!
//! [`entry`] is where calls arrive, [`call`] polls and leaves guest code, [`exceptions`] throws, [`objects`] makes objects,
//! [`bulk`] copies memory, [`tables`] tables, [`atomics`] waits, [`types`] compares types, [`float`] rounds where the CPU
//! cannot.

mod atomics;
mod bulk;
mod call;
pub(crate) mod entry;
mod exceptions;
mod float;
mod objects;
mod tables;
mod types;

use spinwise_model::symbol::Builtin;

/// The address of a builtin, for code that is linked in memory.
#[must_use]
pub fn builtin_address(builtin: Builtin) -> *const u8 {
    match builtin {
        Builtin::Poll => entry::spw_poll as *const u8,
        Builtin::HostCall => entry::spw_host_call as *const u8,
        Builtin::HostThrow => exceptions::spw_host_throw as *const u8,
        Builtin::ExceptionNew => entry::spw_exception_new as *const u8,
        Builtin::Throw => entry::spw_throw as *const u8,
        Builtin::MemoryGrow => entry::spw_memory_grow as *const u8,
        Builtin::MemoryCopy => entry::spw_memory_copy as *const u8,
        Builtin::MemoryFill => entry::spw_memory_fill as *const u8,
        Builtin::MemoryInit => entry::spw_memory_init as *const u8,
        Builtin::DataDrop => entry::spw_data_drop as *const u8,
        Builtin::TableGrow => entry::spw_table_grow as *const u8,
        Builtin::TableFill => entry::spw_table_fill as *const u8,
        Builtin::TableCopy => entry::spw_table_copy as *const u8,
        Builtin::TableInit => entry::spw_table_init as *const u8,
        Builtin::ElemDrop => entry::spw_elem_drop as *const u8,
        Builtin::IsSubtype => entry::spw_is_subtype as *const u8,
        Builtin::ObjectIs => entry::spw_object_is as *const u8,
        Builtin::StructNew => entry::spw_struct_new as *const u8,
        Builtin::ArrayNew => entry::spw_array_new as *const u8,
        Builtin::ArrayNewData => entry::spw_array_new_data as *const u8,
        Builtin::ArrayNewElem => entry::spw_array_new_elem as *const u8,
        Builtin::ArrayFill => entry::spw_array_fill as *const u8,
        Builtin::ArrayCopy => entry::spw_array_copy as *const u8,
        Builtin::ArrayInitData => entry::spw_array_init_data as *const u8,
        Builtin::ArrayInitElem => entry::spw_array_init_elem as *const u8,
        Builtin::AtomicWait32 => entry::spw_atomic_wait32 as *const u8,
        Builtin::AtomicWait64 => entry::spw_atomic_wait64 as *const u8,
        Builtin::AtomicNotify => entry::spw_atomic_notify as *const u8,
        Builtin::CeilF32 => float::spw_ceil_f32 as *const u8,
        Builtin::CeilF64 => float::spw_ceil_f64 as *const u8,
        Builtin::FloorF32 => float::spw_floor_f32 as *const u8,
        Builtin::FloorF64 => float::spw_floor_f64 as *const u8,
        Builtin::TruncF32 => float::spw_trunc_f32 as *const u8,
        Builtin::TruncF64 => float::spw_trunc_f64 as *const u8,
        Builtin::NearestF32 => float::spw_nearest_f32 as *const u8,
        Builtin::NearestF64 => float::spw_nearest_f64 as *const u8,
        Builtin::FmaF32 => float::spw_fma_f32 as *const u8,
        Builtin::FmaF64 => float::spw_fma_f64 as *const u8,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn every_builtin_has_an_address_of_its_own() {
        let addresses: BTreeSet<_> = Builtin::ALL.iter().map(|builtin| builtin_address(*builtin).addr()).collect();
        assert_eq!(addresses.len(), Builtin::ALL.len());
    }
}
