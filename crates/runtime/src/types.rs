//! The types of the process: equal types have equal numbers in it, whatever module they come from.
//!
//! Cost: a lock and a look-up a recursion group, at instantiation. The table only grows, by distinct types.

use parking_lot::RwLock;
use spinwise_model::index::TypeIndex;
use spinwise_model::module::Module;
use spinwise_model::types::{CompositeType, FuncType, RefType, SubType, ValType};
use spinwise_model::typespace::{TypeInterner, renumbered_ref, renumbered_val};

use crate::heap::shape::Shape;

static TYPES: RwLock<All> = RwLock::new(All { interner: TypeInterner::new(), shapes: Vec::new() });

/// The types of the process.
struct All {
    interner: TypeInterner,
    /// What is in objects of each type that has objects, by number.
    shapes: Vec<Option<&'static Shape>>,
}

impl All {
    /// What is in objects of a type. A shape lives as long as its type's number does: for ever.
    fn shape(&mut self, id: TypeIndex) -> Option<&'static Shape> {
        let at = id.index();
        if at >= self.shapes.len() {
            self.shapes.resize(at + 1, None);
        }
        if self.shapes[at].is_none() {
            self.shapes[at] = Shape::new(&self.interner, id).map(|shape| &*Box::leak(Box::new(shape)));
        }
        self.shapes[at]
    }
}

/// The types of a module, as types of the process.
#[derive(Debug)]
pub(crate) struct Types {
    /// Numbers, by the module's index.
    ids: Box<[TypeIndex]>,
    /// What compiled code knows them by, by the module's index.
    words: Box<[u32]>,
    /// The types themselves, numbers in place of indices.
    types: Box<[SubType]>,
    /// What is in objects of them.
    shapes: Box<[Option<&'static Shape>]>,
}

impl Types {
    pub(crate) fn new(module: &Module) -> Self {
        let mut all = TYPES.write();
        let ids = module.types.intern_into(&mut all.interner);
        let types = ids.iter().map(|id| all.interner.get(*id).clone()).collect();
        let shapes: Box<[_]> = ids.iter().map(|id| all.shape(*id)).collect();
        let words = ids.iter().zip(&shapes).map(|(id, shape)| shape.map_or(id.0, |shape| shape.word)).collect();
        Self { ids: ids.into(), words, types, shapes }
    }

    /// The number of a type.
    pub(crate) fn id(&self, index: TypeIndex) -> TypeIndex {
        self.ids[index.index()]
    }

    /// What compiled code knows the types by: [`spinwise_model::context::InstanceHeader::type_ids`].
    pub(crate) fn words(&self) -> *const u32 {
        self.words.as_ptr()
    }

    /// What is in objects of a type.
    ///
    /// # Panics
    /// If it is a function's: validation rejects that.
    pub(crate) fn shape(&self, index: TypeIndex) -> &'static Shape {
        self.shapes[index.index()].expect("a structure or an array: validation rejects others")
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
    TYPES.write().interner.intern(&[SubType::from(ty.clone())], &mut ids);
    ids[0]
}

/// Whether a type of the process is another or a subtype of it.
pub(crate) fn is_subtype(sub: TypeIndex, of: TypeIndex) -> bool {
    sub == of || TYPES.read().interner.is_subtype(sub, of)
}

/// Whether a value of one type is also one of another.
pub(crate) fn matches(sub: ValType, of: ValType) -> bool {
    sub == of || TYPES.read().interner.matches(sub, of)
}

/// Whether a value of a type may be an object of a heap.
pub(crate) fn may_be_object(ty: ValType) -> bool {
    TYPES.read().interner.may_be_object(ty)
}

/// Whether a type of the process is a function's.
pub(crate) fn is_func(id: TypeIndex) -> bool {
    matches!(TYPES.read().interner.get(id).composite, CompositeType::Func(_))
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
