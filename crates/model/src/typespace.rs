//! The types of a module, and which of them are the same: types are equal when their recursion groups are (core spec 3.0,
//! 3.1.3), so a canonical number stands for each.
//!
//! Cost: a look-up a group, linear in its text; a subtype test walks up the declared supertypes, at most 63 of them.

use std::collections::BTreeMap;
use std::ops::Index;

use crate::heap::StructLayout;
use crate::index::TypeIndex;
use crate::types::{CompositeType, FieldType, FuncType, HeapType, RefType, StorageType, SubType, ValType};

/// Set in an index that counts from the start of its own recursion group.
const RELATIVE: u32 = 1 << 31;

/// Canonical numbers for types. Whatever shares an interner can compare its types by number.
#[derive(Clone, Debug, Default)]
pub struct TypeInterner {
    groups: BTreeMap<Vec<SubType>, u32>,
    /// By canonical number, with canonical numbers in place of indices.
    types: Vec<SubType>,
}

impl TypeInterner {
    /// Nothing.
    #[must_use]
    pub const fn new() -> Self {
        Self { groups: BTreeMap::new(), types: Vec::new() }
    }

    /// Numbers the types of a recursion group, which begins at index `ids.len()` of its index space, and appends the
    /// numbers to `ids`. Indices in the group name types by their place in `ids` or in the group.
    ///
    /// # Panics
    /// If the group names a type behind it: validation rejects that.
    pub fn intern(&mut self, group: &[SubType], ids: &mut Vec<TypeIndex>) {
        let start = length(ids);
        let relative = |index: TypeIndex| match index.0.checked_sub(start) {
            Some(at) => TypeIndex(at | RELATIVE),
            None => ids[index.index()],
        };
        let key: Vec<SubType> = group.iter().map(|ty| renumbered(ty, &relative)).collect();
        let next = length(&self.types);
        let first = *self.groups.entry(key).or_insert_with_key(|key| {
            let absolute = |index: TypeIndex| match index.0 & RELATIVE {
                0 => index,
                _ => TypeIndex(next + (index.0 & !RELATIVE)),
            };
            self.types.extend(key.iter().map(|ty| renumbered(ty, &absolute)));
            next
        });
        ids.extend((first..).take(group.len()).map(TypeIndex));
    }

    /// The type of a canonical number.
    #[must_use]
    pub fn get(&self, id: TypeIndex) -> &SubType {
        &self.types[id.index()]
    }

    /// Whether a type is another or a subtype of it, by canonical numbers.
    #[must_use]
    pub fn is_subtype(&self, mut sub: TypeIndex, of: TypeIndex) -> bool {
        loop {
            if sub == of {
                return true;
            }
            match self.get(sub).supertype {
                Some(supertype) => sub = supertype,
                None => return false,
            }
        }
    }

    /// Whether what a heap type admits another does too.
    #[must_use]
    pub fn heap_matches(&self, sub: HeapType, of: HeapType) -> bool {
        use HeapType as H;
        match (sub, of) {
            (H::Type(sub), H::Type(of)) => self.is_subtype(sub, of),
            (H::Type(sub), of) => match self.get(sub).composite {
                CompositeType::Func(_) => of == H::Func,
                CompositeType::Struct(_) => matches!(of, H::Struct | H::Eq | H::Any),
                CompositeType::Array(_) => matches!(of, H::Array | H::Eq | H::Any),
            },
            (sub, H::Type(of)) => match self.get(of).composite {
                CompositeType::Func(_) => sub == H::NoFunc,
                CompositeType::Struct(_) | CompositeType::Array(_) => sub == H::None,
            },
            (sub, of) if sub == of => true,
            (H::None, H::I31 | H::Struct | H::Array | H::Eq | H::Any)
            | (H::I31 | H::Struct | H::Array, H::Eq | H::Any)
            | (H::Eq, H::Any)
            | (H::NoFunc, H::Func)
            | (H::NoExtern, H::Extern)
            | (H::NoExn, H::Exn) => true,
            _ => false,
        }
    }

    /// Whether a value of a type may be an object of the garbage-collected heap.
    #[must_use]
    pub fn may_be_object(&self, ty: ValType) -> bool {
        may_be_object(ty, |index| &self.get(index).composite)
    }

    /// Whether a value of one type is also one of another.
    #[must_use]
    pub fn matches(&self, sub: ValType, of: ValType) -> bool {
        match (sub, of) {
            (ValType::Ref(sub), ValType::Ref(of)) => self.ref_matches(sub, of),
            _ => sub == of,
        }
    }

    /// Whether a reference of one type is also one of another.
    #[must_use]
    pub fn ref_matches(&self, sub: RefType, of: RefType) -> bool {
        (of.nullable || !sub.nullable) && self.heap_matches(sub.heap, of.heap)
    }
}

/// The types of one module, by index.
#[derive(Clone, Debug, Default)]
pub struct TypeSpace {
    types: Vec<SubType>,
    /// Canonical number of each type.
    ids: Vec<TypeIndex>,
    interner: TypeInterner,
    /// Where each recursion group begins.
    groups: Vec<u32>,
    /// Where the fields of each structure lie.
    layouts: BTreeMap<TypeIndex, StructLayout>,
}

impl TypeSpace {
    /// Appends a recursion group.
    pub fn push(&mut self, group: Vec<SubType>) {
        self.groups.push(length(&self.types));
        self.interner.intern(&group, &mut self.ids);
        for (index, ty) in (length(&self.types)..).zip(&group) {
            if let CompositeType::Struct(fields) = &ty.composite {
                self.layouts.insert(TypeIndex(index), StructLayout::new(fields));
            }
        }
        self.types.extend(group);
    }

    /// How many types there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.types.len()
    }

    /// Whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.types.is_empty()
    }

    /// The types with their indices.
    pub fn iter(&self) -> impl Iterator<Item = (TypeIndex, &SubType)> {
        (0..).map(TypeIndex).zip(&self.types)
    }

    /// The function types with their indices.
    pub fn functions(&self) -> impl Iterator<Item = (TypeIndex, &FuncType)> {
        self.iter().filter_map(|(index, ty)| match &ty.composite {
            CompositeType::Func(ty) => Some((index, ty)),
            _ => None,
        })
    }

    /// A function type.
    ///
    /// # Panics
    /// If it is another type: validation rejects that.
    #[must_use]
    pub fn func(&self, index: TypeIndex) -> &FuncType {
        match &self[index].composite {
            CompositeType::Func(ty) => ty,
            other => panic!("type {} is {other:?}, not a function: validation rejects that", index.0),
        }
    }

    /// The fields of a structure type, and where they lie.
    ///
    /// # Panics
    /// If it is another type: validation rejects that.
    #[must_use]
    pub fn structure(&self, index: TypeIndex) -> (&[FieldType], &StructLayout) {
        match &self[index].composite {
            CompositeType::Struct(fields) => (fields, &self.layouts[&index]),
            other => panic!("type {} is {other:?}, not a structure: validation rejects that", index.0),
        }
    }

    /// The elements of an array type.
    ///
    /// # Panics
    /// If it is another type: validation rejects that.
    #[must_use]
    pub fn element(&self, index: TypeIndex) -> FieldType {
        match &self[index].composite {
            CompositeType::Array(element) => *element,
            other => panic!("type {} is {other:?}, not an array: validation rejects that", index.0),
        }
    }

    /// Whether a value of a type may be an object of the garbage-collected heap.
    #[must_use]
    pub fn may_be_object(&self, ty: ValType) -> bool {
        may_be_object(ty, |index| &self[index].composite)
    }

    /// The same number for the same type, within this module.
    #[must_use]
    pub fn canonical(&self, index: TypeIndex) -> TypeIndex {
        self.ids[index.index()]
    }

    /// Whether a type is as a host's functions have it: final, in a recursion group of its own.
    #[must_use]
    pub fn stands_alone(&self, index: TypeIndex) -> bool {
        let at = self.groups.partition_point(|start| *start <= index.0);
        let end = self.groups.get(at).copied().unwrap_or_else(|| length(&self.types));
        let SubType { is_final, supertype, .. } = self[index];
        is_final && supertype.is_none() && self.groups[at - 1] + 1 == end
    }

    /// Whether a type is another or a subtype of it.
    #[must_use]
    pub fn is_subtype(&self, sub: TypeIndex, of: TypeIndex) -> bool {
        self.interner.is_subtype(self.canonical(sub), self.canonical(of))
    }

    /// Numbers the types of this module among those of others: by index.
    #[must_use]
    pub fn intern_into(&self, interner: &mut TypeInterner) -> Vec<TypeIndex> {
        let mut ids = Vec::with_capacity(self.types.len());
        let ends = self.groups.iter().skip(1).copied().chain([length(&self.types)]);
        for (start, end) in self.groups.iter().zip(ends) {
            interner.intern(&self.types[*start as usize..end as usize], &mut ids);
        }
        ids
    }
}

impl Index<TypeIndex> for TypeSpace {
    type Output = SubType;

    fn index(&self, index: TypeIndex) -> &SubType {
        &self.types[index.index()]
    }
}

impl FromIterator<FuncType> for TypeSpace {
    /// Final function types, each in a recursion group of its own.
    fn from_iter<I: IntoIterator<Item = FuncType>>(types: I) -> Self {
        let mut space = Self::default();
        types.into_iter().for_each(|ty| space.push(vec![ty.into()]));
        space
    }
}

/// What externalises an object is the object itself, so a reference of the host's own may be one too.
fn may_be_object<'t>(ty: ValType, composite: impl Fn(TypeIndex) -> &'t CompositeType) -> bool {
    use HeapType as H;
    let ValType::Ref(ty) = ty else { return false };
    match ty.heap {
        H::Any | H::Eq | H::Struct | H::Array | H::Extern | H::Exn => true,
        H::I31 | H::None | H::Func | H::NoFunc | H::NoExtern | H::NoExn => false,
        H::Type(index) => !matches!(composite(index), CompositeType::Func(_)),
    }
}

fn length<T>(items: &[T]) -> u32 {
    u32::try_from(items.len()).expect("wasm index spaces hold at most 2^32 entries, a process far fewer types")
}

/// The type with each index in it mapped.
pub fn renumbered(ty: &SubType, map: &dyn Fn(TypeIndex) -> TypeIndex) -> SubType {
    let val = |ty: &ValType| renumbered_val(*ty, map);
    let field = |field: &FieldType| FieldType {
        storage: match field.storage {
            StorageType::Val(ty) => StorageType::Val(val(&ty)),
            packed => packed,
        },
        ..*field
    };
    SubType {
        is_final: ty.is_final,
        supertype: ty.supertype.map(map),
        composite: match &ty.composite {
            CompositeType::Func(ty) => CompositeType::Func(FuncType {
                params: ty.params.iter().map(val).collect(),
                results: ty.results.iter().map(val).collect(),
            }),
            CompositeType::Struct(fields) => CompositeType::Struct(fields.iter().map(field).collect()),
            CompositeType::Array(element) => CompositeType::Array(field(element)),
        },
    }
}

/// The type with the index in it mapped.
#[must_use]
pub fn renumbered_val(ty: ValType, map: &dyn Fn(TypeIndex) -> TypeIndex) -> ValType {
    match ty {
        ValType::Ref(ty) => ValType::Ref(renumbered_ref(ty, map)),
        number => number,
    }
}

/// The type with the index in it mapped.
#[must_use]
pub fn renumbered_ref(ty: RefType, map: &dyn Fn(TypeIndex) -> TypeIndex) -> RefType {
    match ty.heap {
        HeapType::Type(index) => RefType { heap: HeapType::Type(map(index)), ..ty },
        _ => ty,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn to(index: u32) -> ValType {
        ValType::Ref(RefType { nullable: true, heap: HeapType::Type(TypeIndex(index)) })
    }

    fn func(params: &[ValType]) -> SubType {
        FuncType { params: params.to_vec(), results: Vec::new() }.into()
    }

    #[test]
    fn groups_are_equal_by_what_they_say_wherever_they_stand() {
        let mut space = TypeSpace::default();
        space.push(vec![func(&[to(0)])]);
        space.push(vec![func(&[to(1)])]);
        space.push(vec![func(&[to(0)])]);
        space.push(vec![func(&[to(3)]), func(&[to(4)])]);
        let id = |index| space.canonical(TypeIndex(index));
        assert_eq!(id(0), id(1), "each refers to itself");
        assert_ne!(id(0), id(2), "refers to a type outside its group");
        assert_ne!(id(0), id(3), "is in a larger group");
        assert_ne!(id(3), id(4), "places in a group are told apart");
        assert!((0..3).all(|index| space.stands_alone(TypeIndex(index))));
        assert!((3..5).all(|index| !space.stands_alone(TypeIndex(index))));
        let mut process = TypeInterner::new();
        let first = space.intern_into(&mut process);
        assert_eq!(space.intern_into(&mut process), first, "a second time nothing is new");
        assert_eq!(first[0], first[1]);
    }

    #[test]
    fn subtypes_are_those_declared() {
        let open = |supertype: Option<u32>| SubType {
            is_final: false,
            supertype: supertype.map(TypeIndex),
            composite: CompositeType::Struct(Vec::new()),
        };
        let mut space = TypeSpace::default();
        space.push(vec![open(None)]);
        space.push(vec![open(Some(0))]);
        space.push(vec![open(Some(1))]);
        let is = |sub, of| space.is_subtype(TypeIndex(sub), TypeIndex(of));
        assert!(is(2, 0) && is(1, 1) && !is(0, 1));
        let (types, id) = (&space.interner, |index| HeapType::Type(space.canonical(TypeIndex(index))));
        assert!(types.heap_matches(id(2), HeapType::Eq) && types.heap_matches(HeapType::None, id(0)));
        assert!(!types.heap_matches(id(2), HeapType::Array) && !types.heap_matches(HeapType::Struct, id(0)));
        assert!(!types.heap_matches(id(0), HeapType::Func));
    }
}
