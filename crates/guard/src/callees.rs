//! Which functions an indirect call may reach.
//!
//! Invariant: of a closed table ([`Module::closed_tables`]) every callee of a type is known; of any other, and of a call by
//! reference, none is.
//! Cost: one pass over the element segments, one look-up a call.

use std::collections::{BTreeMap, BTreeSet};

use spinwise_model::index::{TableIndex, TypeIndex};
use spinwise_model::module::{ConstOp, Module};

/// A larger set of callees counts as unknown: polls are never spread over a program for one call.
const MAX_CALLEES: usize = 8;

/// The callees of indirect calls.
#[derive(Debug)]
pub(crate) struct Callees<'m> {
    module: &'m Module,
    /// For each table its functions by type, if it is closed.
    closed: Vec<Option<ByType>>,
}

/// Functions by the canonical number of their type.
type ByType = BTreeMap<TypeIndex, BTreeSet<u32>>;

impl<'m> Callees<'m> {
    pub(crate) fn new(module: &'m Module) -> Self {
        let tables = module.closed_tables();
        let mut closed: Vec<_> = (0u32..)
            .zip(&module.tables)
            .map(|(index, _)| tables.contains(&TableIndex(index)).then(ByType::new))
            .collect();
        for (table, item) in module.initial_elements() {
            if let (Some(by_type), [ConstOp::RefFunc(func)]) = (&mut closed[table.index()], item.as_slice()) {
                let ty = module.types.canonical(module.functions[func.index()].ty);
                by_type.entry(ty).or_default().insert(func.0);
            }
        }
        Self { module, closed }
    }

    /// All functions that the indirect call at a byte offset may reach, ascending, if they are known and few.
    pub(crate) fn at(&self, offset: u32) -> Option<Vec<u32>> {
        let (table, ty) = self.module.indirect_calls.get(&offset)?;
        let by_type = self.closed[table.index()].as_ref()?;
        let types = &self.module.types;
        let found: Vec<u32> = if types[*ty].is_final {
            by_type.get(&types.canonical(*ty)).into_iter().flatten().take(MAX_CALLEES + 1).copied().collect()
        } else {
            let fitting = by_type.iter().filter(|(found, _)| types.is_subtype(**found, *ty));
            let mut all: Vec<u32> =
                fitting.flat_map(|(_, functions)| functions).take(MAX_CALLEES + 1).copied().collect();
            all.sort_unstable();
            all
        };
        (found.len() <= MAX_CALLEES).then_some(found)
    }
}

#[cfg(test)]
mod tests {
    use spinwise_model::index::{FuncIndex, TypeIndex};
    use spinwise_model::module::{ElementMode, ElementSegment, Entity, Export, Function};
    use spinwise_model::types::{FuncType, RefType, TableType, ValType};

    use super::*;

    /// Ten functions, the even ones of type 0, all in table 0, which a call at offset 7 uses with type 1: type 0 again.
    fn module() -> Module {
        let result = FuncType { params: vec![], results: vec![ValType::I32] };
        let functions =
            (0..10).map(|i| Function { ty: TypeIndex(2 * (i % 2)), name: None, body: 0..0 }).collect::<Vec<_>>();
        let items = (0..10).map(|i| vec![ConstOp::RefFunc(FuncIndex(i))]).chain([vec![ConstOp::RefNull]]).collect();
        let mode = ElementMode::Active { table: TableIndex(0), offset: vec![ConstOp::I32(0)] };
        Module {
            types: [FuncType::default(), FuncType::default(), result].into_iter().collect(),
            functions,
            tables: vec![TableType::new(RefType::FUNC, 10, None)],
            elements: vec![ElementSegment { mode, items }],
            indirect_calls: BTreeMap::from([(7, (TableIndex(0), TypeIndex(1)))]),
            ..Module::default()
        }
    }

    #[test]
    fn a_closed_table_has_known_callees_of_an_equal_type() {
        let module = module();
        let callees = Callees::new(&module);
        assert_eq!(callees.at(7), Some(vec![0, 2, 4, 6, 8]));
        assert_eq!(callees.at(8), None);
    }

    #[test]
    fn an_open_table_has_none() {
        let table = TableIndex(0);
        let export = Export { name: String::from("t"), entity: Entity::Table(table) };
        let open = [
            Module { imported_tables: 1, ..module() },
            Module { written_tables: BTreeSet::from([table]), ..module() },
            Module { exports: vec![export], ..module() },
            Module {
                elements: vec![ElementSegment {
                    mode: ElementMode::Active { table, offset: vec![ConstOp::I32(0)] },
                    items: vec![vec![ConstOp::GlobalGet(0.into())]],
                }],
                ..module()
            },
        ];
        for module in &open {
            assert_eq!(Callees::new(module).at(7), None);
        }
    }

    #[test]
    fn many_callees_count_as_unknown() {
        let mut module = module();
        module.functions.iter_mut().for_each(|func| func.ty = TypeIndex(0));
        assert_eq!(Callees::new(&module).at(7), None);
    }
}
