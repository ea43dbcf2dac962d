//! What lifting tells about a module: its tables, and the facts that only its code holds.

mod common;

use common::{lift_text, verify};
use spinwise_model::index::{FuncIndex, GlobalIndex, MemoryIndex, TableIndex, TypeIndex};
use spinwise_model::module::{ConstOp, ElementMode, Entity};
use spinwise_model::symbol::{NS_FUNC, NS_HOST_ADAPTER, NS_HOST_ENTRY, NS_POLL_THUNK, NS_REFERENCE_STUB};
use spinwise_model::types::{FuncType, RefType, ValType};

const EVERYTHING: &str = r#"(module $shop
  (type $unit (func))
  (type $same (func))
  (import "env" "log" (func $log (param i32)))
  (import "env" "tick" (func (type $same)))
  (import "env" "base" (global $base i32))
  (import "env" "memory" (memory 1 4 shared))
  (import "env" "host_table" (table 1 externref))
  (table $t 4 8 funcref)
  (table $quiet 2 2 funcref)
  (global $g (mut i64) (i64.add (i64.const 40) (i64.const 2)))
  (global $f funcref (ref.func $held))
  (func $start)
  (func $held)
  (func (export "by_export") (param f64) (result f64) local.get 0)
  (func $in_table)
  (func $declared)
  (func $uses (result funcref)
    i32.const 0
    ref.func $declared
    table.set $t
    i32.const 0
    call_indirect $t (type $unit)
    i32.const 1
    call_indirect $quiet (type $same)
    ref.func $also_in_code)
  (func $exported_only (export "again"))
  (func $also_in_code (export "held_by_code"))
  (export "m" (memory 0))
  (start $start)
  (elem (table $t) (i32.const 1) func $in_table $log)
  (elem declare func $declared)
  (elem $p funcref (ref.null func) (ref.func $in_table))
  (data (global.get $base) "abc")
  (data $passive "defg"))"#;

#[test]
fn sections() {
    let lifted = lift_text(EVERYTHING).unwrap();
    verify(&lifted);
    let module = &lifted.module;
    assert_eq!(module.name.as_deref(), Some("shop"));
    assert_eq!(module.imports.len(), 5);
    assert_eq!(module.imports[0].module, "env");
    assert_eq!(module.imports[0].field, "log");
    let entities: Vec<_> = module.imports.iter().map(|import| import.entity).collect();
    let expected = [
        Entity::Function(FuncIndex(0)),
        Entity::Function(FuncIndex(1)),
        Entity::Global(GlobalIndex(0)),
        Entity::Memory(MemoryIndex(0)),
        Entity::Table(TableIndex(0)),
    ];
    assert_eq!(entities, expected);
    assert_eq!((module.imported_functions, module.functions.len()), (2, 10));
    assert_eq!((module.imported_tables, module.tables.len()), (1, 3));
    assert_eq!((module.imported_memories, module.memories.len()), (1, 1));
    assert_eq!((module.imported_globals, module.globals.len()), (1, 3));
    assert!(module.has_shared_memory());
    assert_eq!(module.tables[0].element, RefType::EXTERN);
    assert_eq!((module.tables[1].min, module.tables[1].max), (4, Some(8)));
    assert!(module.globals[1].mutable && !module.globals[2].mutable);
    assert_eq!(module.global_inits[0], [ConstOp::I64(40), ConstOp::I64(2), ConstOp::I64Add]);
    assert_eq!(module.global_inits[1], [ConstOp::RefFunc(FuncIndex(3))]);
    assert_eq!(module.start, Some(FuncIndex(2)));
    assert_eq!(module.exports.len(), 4);
    assert_eq!(module.export("m"), Some(Entity::Memory(MemoryIndex(0))));
    assert_eq!(*module.func_type(FuncIndex(0)), FuncType { params: vec![ValType::I32], results: vec![] });
    assert_eq!(module.func_name(FuncIndex(0)), "log");
    assert_eq!(module.func_name(FuncIndex(4)), "by_export");
    assert_eq!(module.elements.len(), 3);
    assert!(matches!(module.elements[0].mode, ElementMode::Active { table: TableIndex(1), .. }));
    assert!(matches!(module.elements[1].mode, ElementMode::Declared));
    assert!(matches!(module.elements[2].mode, ElementMode::Passive));
    assert_eq!(module.elements[2].items, [vec![ConstOp::RefNull], vec![ConstOp::RefFunc(FuncIndex(5))]]);
    assert_eq!(module.data[0].active, Some((MemoryIndex(0), vec![ConstOp::GlobalGet(GlobalIndex(0))])));
    assert_eq!((module.data[1].active.is_none(), module.data[1].bytes.as_slice()), (true, b"defg".as_slice()));
}

#[test]
fn references_and_tables() {
    let lifted = lift_text(EVERYTHING).unwrap();
    let module = &lifted.module;
    // Exports escape to the host alone; what the guest can hold excludes them.
    assert_eq!(module.escaped, [0, 3, 4, 5, 6, 8, 9].map(FuncIndex));
    assert_eq!(module.address_taken, [0, 3, 5, 6, 9].map(FuncIndex));
    assert_eq!(module.written_tables.iter().copied().collect::<Vec<_>>(), [TableIndex(1)]);
    let calls: Vec<_> = module.indirect_calls.values().copied().collect();
    assert_eq!(calls, [(TableIndex(1), TypeIndex(0)), (TableIndex(2), TypeIndex(1))]);
    let uses = &module.functions[7].body;
    assert!(module.indirect_calls.keys().all(|offset| uses.contains(offset)));
}

#[test]
fn functions_and_glue_have_their_names() {
    let lifted = lift_text(EVERYTHING).unwrap();
    let name = |function: &cranelift_codegen::ir::Function| {
        let name = function.name.get_user().unwrap();
        (name.namespace, name.index)
    };
    let functions: Vec<_> = lifted.functions.iter().map(name).collect();
    assert_eq!(functions, (2..10).map(|index| (NS_FUNC, index)).collect::<Vec<_>>());
    // `$same` equals `$unit`, whose index is smaller.
    let log = lifted.module.functions[0].ty.0;
    let (float, uses) = (lifted.module.functions[4].ty.0, lifted.module.functions[7].ty.0);
    let mut expected = vec![(NS_FUNC, 0), (NS_FUNC, 1)];
    expected.extend([(NS_HOST_ENTRY, 0), (NS_HOST_ENTRY, float), (NS_HOST_ENTRY, uses)]);
    expected.extend([(NS_HOST_ADAPTER, 0), (NS_HOST_ADAPTER, log)]);
    // What is exported and never referred to, and what an open table is called with.
    expected.extend([(NS_REFERENCE_STUB, 0), (NS_REFERENCE_STUB, float), (NS_POLL_THUNK, 0)]);
    assert_eq!(lifted.glue.iter().map(name).collect::<Vec<_>>(), expected);
}

#[test]
fn broken_name_sections_are_passed_over() {
    let mut bytes = wat::parse_str("(module (func $a) (func $b))").unwrap();
    let section = bytes.windows(4).position(|window| window == b"name").unwrap();
    // The length of the first name of the function subsection now runs past its end.
    let length = section + 4 + 2 + 2;
    bytes[length] = 0x7f;
    let lifted = spinwise_lift::lift(&bytes, &common::config()).unwrap();
    assert_eq!(lifted.module.func_names(), ["func[0]", "func[1]"]);
}

#[test]
fn output_does_not_depend_on_threads() {
    let bytes = wat::parse_str(EVERYTHING).unwrap();
    let with = |threads| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let lifted = pool.install(|| spinwise_lift::lift(&bytes, &common::config())).unwrap();
        common::all(&lifted).map(|function| function.display().to_string()).collect::<Vec<_>>()
    };
    assert_eq!(with(1), with(4));
}
