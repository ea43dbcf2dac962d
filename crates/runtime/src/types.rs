//! Canonical numbers of function types: equal types have equal numbers in a process, whatever module they come from.
//!
//! Cost: a lock and a look-up a type, at instantiation. The table only grows, by distinct types.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use spinwise_model::types::FuncType;

use crate::number::to_u32;

static TYPES: Mutex<BTreeMap<FuncType, u32>> = Mutex::new(BTreeMap::new());

/// The number of a function type.
pub(crate) fn intern(ty: &FuncType) -> u32 {
    let mut types = TYPES.lock();
    if let Some(id) = types.get(ty) {
        return *id;
    }
    let id = to_u32(types.len());
    types.insert(ty.clone(), id);
    id
}

#[cfg(test)]
mod tests {
    use spinwise_model::types::ValType;

    use super::*;

    #[test]
    fn equal_types_and_only_they_have_equal_numbers() {
        let ty =
            |params: &[ValType], results: &[ValType]| FuncType { params: params.to_vec(), results: results.to_vec() };
        let one = intern(&ty(&[ValType::I32], &[]));
        assert_eq!(intern(&ty(&[ValType::I32], &[])), one);
        assert_ne!(intern(&ty(&[], &[ValType::I32])), one);
    }
}
