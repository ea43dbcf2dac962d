//! The types of the process: equal types have equal numbers in it, whatever module they come from.
//!
//! Cost: a lock and a look-up a recursion group, at instantiation. The table only grows, by distinct types.

use parking_lot::RwLock;
use spinwise_model::index::TypeIndex;
use spinwise_model::module::Module;
use spinwise_model::types::{CompositeType, FuncType, RefType, SubType, ValType};
use spinwise_model::typespace::{TypeInterner, renumbered_ref, renumbered_val};

static TYPES: RwLock<TypeInterner> = RwLock::new(TypeInterner::new());

/// The types of a module, as types of the process.
#[derive(Debug)]
pub(crate) struct Types {
    /// Numbers, by the module's index. Compiled code reads them.
    ids: Box<[TypeIndex]>,
    /// The types themselves, numbers in place of indices.
    types: Box<[SubType]>,
}

impl Types {
    pub(crate) fn new(module: &Module) -> Self {
        let mut all = TYPES.write();
        let ids = module.types.intern_into(&mut all);
        let types = ids.iter().map(|id| all.get(*id).clone()).collect();
        Self { ids: ids.into(), types }
    }

    /// The number of a type.
    pub(crate) fn id(&self, index: TypeIndex) -> TypeIndex {
        self.ids[index.index()]
    }

    /// Where the numbers are: one `u32` each.
    pub(crate) fn ids(&self) -> *const u32 {
        const { assert!(size_of::<TypeIndex>() == size_of::<u32>()) };
        self.ids.as_ptr().cast()
    }

    /// A function type.
    ///
    /// # Panics
    /// If it is another type: validation rejects that.
    pub(crate) fn func(&self, index: TypeIndex) -> &FuncType {
        match &self.types[index.index()].composite {
            CompositeType::Func(ty) => ty,
            other => panic!("{other:?} is not a function: validation rejects that"),
        }
    }

    /// A type of the module as one of the process.
    pub(crate) fn val(&self, ty: ValType) -> ValType {
        renumbered_val(ty, &|index| self.id(index))
    }

    /// A reference type of the module as one of the process.
    pub(crate) fn reference(&self, ty: RefType) -> RefType {
        renumbered_ref(ty, &|index| self.id(index))
    }
}

/// The number of a final function type that stands alone.
pub(crate) fn intern(ty: &FuncType) -> TypeIndex {
    let mut ids = Vec::new();
    TYPES.write().intern(&[SubType::from(ty.clone())], &mut ids);
    ids[0]
}

/// Whether a type of the process is another or a subtype of it.
pub(crate) fn is_subtype(sub: TypeIndex, of: TypeIndex) -> bool {
    sub == of || TYPES.read().is_subtype(sub, of)
}

/// Whether a value of one type is also one of another.
pub(crate) fn matches(sub: ValType, of: ValType) -> bool {
    sub == of || TYPES.read().matches(sub, of)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_types_and_only_they_have_equal_numbers() {
        let ty =
            |params: &[ValType], results: &[ValType]| FuncType { params: params.to_vec(), results: results.to_vec() };
        let one = intern(&ty(&[ValType::I32], &[]));
        assert_eq!(intern(&ty(&[ValType::I32], &[])), one);
        assert_ne!(intern(&ty(&[], &[ValType::I32])), one);
        let module = Module { types: [ty(&[ValType::I32], &[])].into_iter().collect(), ..Module::default() };
        assert_eq!(Types::new(&module).id(TypeIndex(0)), one);
    }
}
