//! Instances that share functions, tables, memories and globals, and imports that do not fit.

use spinwise_model::trap::TrapCode;
use spinwise_model::types::{GlobalType, MemoryType, RefType, TableType, ValType};
use spinwise_runtime::{Extern, Func, Global, Instance, Memory, Table, Val};

use crate::common::{func, i32_of, instantiate, store};

fn export(instance: &Instance, name: &str) -> Extern {
    instance.export(name).unwrap_or_else(|| panic!("an export {name}"))
}

#[test]
fn instances_share_what_they_export() {
    let mut store = store();
    let one = r#"(module
        (memory (export "memory") 1) (global (export "count") (mut i32) (i32.const 5))
        (table (export "table") 4 funcref) (elem (i32.const 1) $own)
        (func $own (result i32) (i32.const 11))
        (func (export "add") (param i32) (result i32) (i32.add (local.get 0) (global.get 0))))"#;
    let one = instantiate(&mut store, one, &[]).expect("an instance");
    let two = r#"(module
        (import "one" "memory" (memory 1)) (import "one" "count" (global $count (mut i32)))
        (import "one" "table" (table 4 funcref)) (import "one" "add" (func $add (param i32) (result i32)))
        (type $t (func (result i32)))
        (elem (i32.const 2) $mine)
        (func $mine (result i32) (i32.load (i32.const 8)))
        (data (i32.const 8) "\2a\00\00\00")
        (func (export "run") (param i32) (result i32) (call_indirect (type $t) (local.get 0)))
        (func (export "count") (result i32) (global.set $count (i32.const 7)) (call $add (i32.const 1)))
        (export "add" (func $add)))"#;
    let names = ["memory", "count", "table", "add"];
    let imports = names.map(|name| ("one", name, export(&one, name)));
    let two = instantiate(&mut store, two, &imports).expect("an instance");
    let mut run = |index| two.call(&mut store, "run", &[Val::I32(index)]);
    assert_eq!(i32_of(&run(1).expect("one's function")), 11);
    assert_eq!(i32_of(&run(2).expect("two's own")), 42);
    assert_eq!(i32_of(&two.call(&mut store, "count", &[]).expect("a sum")), 8);
    let (Extern::Global(count), Extern::Table(table)) = (export(&one, "count"), export(&one, "table")) else {
        panic!("a global and a table")
    };
    assert!(matches!(count.get(&mut store).expect("its value"), Val::I32(7)));
    count.set(&mut store, &Val::I32(1)).expect("it is mutable");
    assert_eq!(i32_of(&two.call(&mut store, "add", &[Val::I32(1)]).expect("a sum")), 2);

    let Ok(Some(Val::FuncRef(Some(mine)))) = table.get(&mut store, 2) else { panic!("a function") };
    assert_eq!(i32_of(&mine.call(&mut store, &[]).expect("a result")), 42);
    table.set(&mut store, 0, &Val::FuncRef(Some(mine))).expect("room");
    assert_eq!(i32_of(&two.call(&mut store, "run", &[Val::I32(0)]).expect("as before")), 42);
    assert!(matches!(table.get(&mut store, 4), Ok(None)));
    assert_eq!(table.grow(&mut store, 2, &Val::FuncRef(None)).expect("its type"), Some(4));
    let error = two.call(&mut store, "run", &[Val::I32(5)]).expect_err("null");
    assert_eq!(error.trap().map(|trap| trap.code), Some(TrapCode::UninitializedElement));
}

#[test]
fn references_to_imported_host_functions_work() {
    let text = r#"(module (import "host" "f" (func $f (param i32) (result i32)))
        (type $t (func (param i32) (result i32))) (table (export "table") 1 funcref) (elem (i32.const 0) $f)
        (func (export "run") (param i32) (result i32) (call_indirect (type $t) (local.get 0) (i32.const 0)))
        (func (export "get") (result funcref) (ref.func $f))
        (func (export "same") (param funcref) (result i32) (ref.is_null (local.get 0))))"#;
    let f = Func::typed(|_: spinwise_runtime::Caller<'_>, x: i32| Ok(x * 2));
    let mut store = store();
    let instance = instantiate(&mut store, text, &[("host", "f", func(f.clone()))]).expect("an instance");
    assert_eq!(i32_of(&instance.call(&mut store, "run", &[Val::I32(21)]).expect("a result")), 42);
    let got = instance.call(&mut store, "get", &[]).expect("a reference");
    let [Val::FuncRef(Some(got))] = &got[..] else { panic!("{got:?}") };
    assert!(got.same(&f));
    assert_eq!(i32_of(&instance.call(&mut store, "same", &[Val::FuncRef(Some(got.clone()))]).expect("a result")), 0);
    assert_eq!(i32_of(&instance.call(&mut store, "same", &[Val::FuncRef(Some(f))]).expect("a result")), 0);
}

#[test]
fn misfits_name_import_and_difference() {
    let mut store = store();
    let memory = |min, max, shared| {
        Extern::Memory(Memory::new(MemoryType { shared, ..MemoryType::new(min, max) }).expect("a memory"))
    };
    let table = Extern::Table(Table::new(TableType::new(RefType::FUNC, 2, None)).expect("a table"));
    let global = GlobalType { content: ValType::I32, mutable: false };
    let global = Extern::Global(Global::new(global, &Val::I32(1)).expect("a global"));
    let function = func(Func::typed(|_: spinwise_runtime::Caller<'_>, _: i32| Ok(())));
    let cases = [
        ("(func)", function.clone(), "expected () -> (), found (i32) -> ()"),
        ("(func (param i32) (result i32))", function, "expected (i32) -> (i32), found (i32) -> ()"),
        ("(func)", memory(1, None, false), "expected a function, found a memory"),
        ("(memory 2)", memory(1, None, false), "expected at least 2 pages, found 1"),
        ("(memory 1 2)", memory(1, None, false), "expected at most 2 pages, found no maximum"),
        ("(memory 1 2)", memory(1, Some(3), false), "expected at most 2 pages, found a maximum of 3"),
        ("(memory 1 2 shared)", memory(1, Some(2), false), "expected a shared memory, found an unshared memory"),
        ("(memory 1)", memory(1, Some(2), true), "expected an unshared memory, found a shared memory"),
        ("(table 3 funcref)", table.clone(), "expected at least 3 elements, found 2"),
        ("(table 1 externref)", table, "expected elements of externref, found funcref"),
        ("(global i64)", global.clone(), "expected immutable i64, found immutable i32"),
        ("(global (mut i32))", global, "expected mutable i32, found immutable i32"),
    ];
    for (wanted, given, why) in cases {
        let text = format!(r#"(module (import "m" "x" {wanted}))"#);
        let error = instantiate(&mut store, &text, &[("m", "x", given)]).expect_err("it does not fit");
        assert_eq!(error.to_string(), format!("incompatible import type: m.x: {why}"));
    }
    let error = instantiate(&mut store, r#"(module (import "m" "y" (func)))"#, &[]).expect_err("nothing given");
    assert_eq!(error.to_string(), "unknown import: m.y");
}

#[test]
fn segments_trap_and_what_was_done_before_stays() {
    let mut store = store();
    let memory = Memory::new(MemoryType::new(1, None)).expect("a memory");
    let table = Table::new(TableType::new(RefType::FUNC, 2, None)).expect("a table");
    let text = r#"(module (import "m" "memory" (memory 1)) (import "m" "table" (table 2 funcref))
        (func $f (result i32) (i32.const 9)) (elem (i32.const 1) $f)
        (data (i32.const 0) "ab") (data (i32.const 65535) "cd"))"#;
    let imports = [("m", "memory", Extern::Memory(memory.clone())), ("m", "table", Extern::Table(table.clone()))];
    let error = instantiate(&mut store, text, &imports).expect_err("out of bounds");
    assert_eq!(error.to_string(), "out of bounds memory access");
    assert_eq!(memory.load::<u16>(0), Ok(u16::from_le_bytes(*b"ab")));
    let Ok(Some(Val::FuncRef(Some(f)))) = table.get(&mut store, 1) else { panic!("a function") };
    assert_eq!(i32_of(&f.call(&mut store, &[]).expect("its instance lives")), 9);

    let text = r#"(module (import "m" "table" (table 2 funcref)) (func $f) (elem (i32.const 1) $f $f))"#;
    let error = instantiate(&mut store, text, &imports).expect_err("out of bounds");
    assert_eq!(error.to_string(), "out of bounds table access");
    let text = r#"(module (func $boom unreachable) (start $boom))"#;
    let error = instantiate(&mut store, text, &[]).expect_err("the start function traps");
    assert!(error.to_string().starts_with("unreachable: boom"), "{error}");
}

#[test]
fn constant_expressions_compute() {
    let text = r#"(module
        (import "m" "base" (global $base i32))
        (global (export "sum") i32 (i32.add (global.get $base) (i32.mul (i32.const 3) (i32.sub (i32.const 1) (i32.const 5)))))
        (global (export "wide") i64 (i64.sub (i64.const 1) (i64.const 2)))
        (memory (export "memory") 1) (data (offset (i32.add (global.get $base) (i32.const 4))) "x"))"#;
    let ty = GlobalType { content: ValType::I32, mutable: false };
    let base = Extern::Global(Global::new(ty, &Val::I32(-1)).expect("a global"));
    let mut store = store();
    let instance = instantiate(&mut store, text, &[("m", "base", base)]).expect("an instance");
    let mut value = |name: &str| match export(&instance, name) {
        Extern::Global(global) => format!("{:?}", global.get(&mut store).expect("its value")),
        other => panic!("{other:?}"),
    };
    assert_eq!((value("sum"), value("wide")), ("I32(-13)".into(), "I64(-1)".into()));
    assert_eq!(instance.memory().expect("a memory").load::<u8>(3), Ok(b'x'));
}

#[test]
fn bulk_operations_do_what_they_say() {
    let text = r#"(module (memory (export "memory") 40) (data $d "0123456789")
        (func (export "run")
            (memory.init $d (i32.const 0) (i32.const 2) (i32.const 8))
            (data.drop $d)
            (memory.fill (i32.const 100) (i32.const 0x1aa) (i32.const 5))
            (memory.copy (i32.const 2) (i32.const 0) (i32.const 8))
            ;; Overlapping and longer than a chunk (2^20 bytes), both ways.
            (memory.copy (i32.const 1) (i32.const 0) (i32.const 2500000))
            (memory.copy (i32.const 0) (i32.const 1) (i32.const 2500000)))
        (func (export "init") (memory.init $d (i32.const 0) (i32.const 0) (i32.const 1))))"#;
    let mut store = store();
    let instance = instantiate(&mut store, text, &[]).expect("an instance");
    let memory = instance.memory().expect("a memory").clone();
    memory.write(1_048_573, b"across").expect("inside");
    memory.write(2_400_000, b"end").expect("inside");
    instance.call(&mut store, "run", &[]).expect("no trap");
    let read = |at, length| {
        let mut bytes = vec![0; length];
        memory.read(at, &mut bytes).expect("inside");
        bytes
    };
    assert_eq!(read(0, 10), b"2323456789");
    assert_eq!(read(99, 7), [0, 0xaa, 0xaa, 0xaa, 0xaa, 0xaa, 0]);
    assert_eq!((read(1_048_573, 6), read(2_400_000, 3)), (b"across".to_vec(), b"end".to_vec()));
    let error = instance.call(&mut store, "init", &[]).expect_err("dropped");
    assert_eq!(error.trap().map(|trap| trap.code), Some(TrapCode::MemoryOutOfBounds));
}
