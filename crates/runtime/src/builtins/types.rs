//! Subtyping at run time, where equality does not decide.

use spinwise_model::index::TypeIndex;

use crate::types;

/// `spw_is_subtype`
pub(super) extern "C" fn is_subtype(_context: *const u8, ty: u32, of: u32) -> u32 {
    types::is_subtype(TypeIndex(ty), TypeIndex(of)).into()
}
