//! What is in an object of a type, for whoever marks, copies or casts it.
//!
//! Invariant: a shape lives as long as the process, as the number of its type does. Cost: once a type.

use spinwise_model::heap::{ARRAY, KIND, STRUCT, StructLayout, size_of, word};
use spinwise_model::index::TypeIndex;
use spinwise_model::types::{CompositeType, FieldType};
use spinwise_model::typespace::TypeInterner;

/// What is in objects of a type.
#[derive(Debug)]
pub(crate) struct Shape {
    /// The number of the type.
    pub(crate) id: TypeIndex,
    /// What objects of it begin with.
    pub(crate) word: u32,
    /// The type's supertypes, the furthest first, and the type itself.
    pub(crate) line: Box<[TypeIndex]>,
    pub(crate) content: Content,
}

/// What follows an object's first word.
#[derive(Debug)]
pub(crate) enum Content {
    /// A structure.
    Struct {
        /// Its fields, with types of the process.
        fields: Box<[FieldType]>,
        layout: StructLayout,
        /// Offsets of fields that may refer to objects.
        references: Box<[u32]>,
    },
    /// An array.
    Array {
        element: FieldType,
        /// Bytes an element.
        size: u32,
        /// Whether elements may refer to objects.
        references: bool,
    },
}

impl Shape {
    /// The shape of a type of the process; none of a function's.
    pub(crate) fn new(types: &TypeInterner, id: TypeIndex) -> Option<Self> {
        let traced = |field: &FieldType| match field.storage {
            spinwise_model::types::StorageType::Val(ty) => types.may_be_object(ty),
            _ => false,
        };
        let (kind, content) = match &types.get(id).composite {
            CompositeType::Func(_) => return None,
            CompositeType::Struct(fields) => {
                let layout = StructLayout::new(fields);
                let references =
                    layout.offsets.iter().zip(fields).filter(|(_, field)| traced(field)).map(|(at, _)| *at).collect();
                (STRUCT, Content::Struct { fields: fields.as_slice().into(), layout, references })
            }
            CompositeType::Array(element) => (
                ARRAY,
                Content::Array { element: *element, size: size_of(element.storage), references: traced(element) },
            ),
        };
        let mut line = vec![id];
        while let Some(above) = types.get(line[line.len() - 1]).supertype {
            line.push(above);
        }
        line.reverse();
        Some(Self { id, word: word(kind, id), line: line.into(), content })
    }

    /// Whether the type is another or a subtype of it.
    pub(crate) fn is(&self, of: &Self) -> bool {
        self.line.get(of.line.len() - 1) == Some(&of.id)
    }

    /// Bytes of a structure.
    ///
    /// # Panics
    /// If it is an array's: validation rejects that.
    pub(crate) fn struct_size(&self) -> usize {
        match &self.content {
            Content::Struct { layout, .. } => layout.size as usize,
            Content::Array { .. } => panic!("an array is no structure: validation rejects that"),
        }
    }

    /// Bytes of an array element.
    ///
    /// # Panics
    /// If it is a structure's: validation rejects that.
    pub(crate) fn element_size(&self) -> usize {
        match self.content {
            Content::Array { size, .. } => size as usize,
            Content::Struct { .. } => panic!("a structure is no array: validation rejects that"),
        }
    }
}

/// The number of an object's type.
pub(crate) fn id_of(word: u32) -> TypeIndex {
    TypeIndex(word & !KIND)
}
