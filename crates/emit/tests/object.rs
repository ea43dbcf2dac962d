//! An object holds the module and nothing undefined but builtins, on every target, with the same bytes each time.

mod common;

use ::object::{Object, ObjectSection, ObjectSymbol};
use cranelift_codegen::isa::OwnedTargetIsa;
use spinwise_emit::isa::SUPPORTED;
use spinwise_emit::mangle::{mangle, table};
use spinwise_emit::{Input, Tables, Target, compile, isa, object};
use spinwise_model::module::Module;
use spinwise_model::symbol::Builtin;

/// Two functions under one name that a C program has as well, an import stub, a thunk and an entry.
const TEXT: &str = "
    function u0:0(i64) tail {
        sig0 = (i64) tail
        sig1 = (i64, i32) PRESERVE
        fn0 = colocated u2:0 sig1
    block0(v0: i64):
        v1 = iconst.i32 1
        call fn0(v0, v1)
        v2 = load.i64 notrap aligned v0
        call_indirect sig0, v2(v0)
        return
    }
    function u0:1(i64, i32) -> i32 tail {
        fn0 = colocated u0:0(i64) tail
        fn1 = colocated u0:2(i64, f64) -> f64 tail
    block0(v0: i64, v1: i32):
        @0050 v2 = udiv v1, v1
        call fn0(v0)
        @0052 trapz v2, user1
        return v2
    }
    function u0:2(i64, f64) -> f64 tail {
    block0(v0: i64, v1: f64):
        v2 = floor v1
        return v2
    }
    function u2:0(i64, i32) PRESERVE {
        fn0 = u1:0(i64, i32) CCONV
    block0(v0: i64, v1: i32):
        call fn0(v0, v1)
        return
    }
    function u3:0(i64, i64, i64) -> i64 CCONV {
        sig0 = (i64) tail
    block0(v0: i64, v1: i64, v2: i64):
        try_call_indirect v1(v0), sig0, block1, [ default: block2(exn0) ]
    block1:
        v3 = iconst.i64 0
        return v3
    block2(v4: i64) cold:
        return v4
    }
";

fn text(triple: &str) -> String {
    let c = match triple {
        "aarch64-apple-darwin" => "apple_aarch64",
        windows if windows.contains("windows") => "windows_fastcall",
        _ => "system_v",
    };
    let preserve = if triple.starts_with("riscv64") { c } else { "preserve_all" };
    TEXT.replace("CCONV", c).replace("PRESERVE", preserve)
}

fn module() -> Module {
    let mut module = common::module(1, 2);
    for (name, func) in [("run", 1), ("also run", 1), ("main", 2)] {
        common::export(&mut module, name, func);
    }
    module
}

fn target(triple: &str) -> OwnedTargetIsa {
    isa(&Target { triple: Some(triple.to_owned()), verifier: true, ..Target::default() }, true).expect(triple)
}

fn inputs(triple: &str) -> Vec<Input> {
    common::parse(&text(triple)).into_iter().map(|func| Input { func, symbol: "main".to_owned() }).collect()
}

const TABLES: Tables<'_> = Tables { guards: b"guard table", metadata: b"metadata" };

fn emit(triple: &str) -> Vec<u8> {
    let isa = target(triple);
    let compiled = compile(&*isa, inputs(triple), &|_| {}).expect(triple);
    object(&isa, &module(), compiled, "team", TABLES).expect(triple)
}

/// A symbol as C spells it.
fn c_name(name: &str, triple: &str) -> String {
    if triple.contains("apple") { name.strip_prefix('_').expect("Mach-O").to_owned() } else { name.to_owned() }
}

#[test]
fn only_builtins_are_undefined_and_only_prefixed_names_are_global() {
    for triple in SUPPORTED {
        let bytes = emit(triple);
        let file = ::object::File::parse(&*bytes).expect(triple);
        let (mut undefined, mut global) = (Vec::new(), Vec::new());
        for symbol in file.symbols() {
            let name = symbol.name().expect(triple);
            if symbol.is_undefined() && !name.is_empty() {
                undefined.push(c_name(name, triple));
            } else if symbol.is_global() {
                global.push(c_name(name, triple));
            }
        }
        undefined.sort();
        global.sort();
        assert!(undefined.contains(&Builtin::Poll.symbol().to_owned()), "{triple}: {undefined:?}");
        for name in &undefined {
            assert!(Builtin::ALL.iter().any(|builtin| builtin.symbol() == name), "{triple}: {name}");
        }
        let mut expected = ["run", "also run", "main"].map(|export| mangle("team", export)).to_vec();
        expected.extend(["traps", "guards", "metadata"].map(|name| table("team", name)));
        expected.sort();
        assert_eq!(global, expected, "{triple}");
        let local_mains = file.symbols().filter(|symbol| {
            symbol.name().is_ok_and(|name| name.trim_start_matches('_') == "main") && symbol.is_local()
        });
        assert_eq!(local_mains.count(), 5, "{triple}");
    }
}

#[test]
fn an_export_names_its_function() {
    for triple in SUPPORTED {
        let bytes = emit(triple);
        let file = ::object::File::parse(&*bytes).expect(triple);
        let address = |name: &str| {
            let found = file.symbols().find(|symbol| {
                symbol.is_global() && symbol.name().is_ok_and(|spelled| c_name_or(spelled, triple) == name)
            });
            found.map(|symbol| (symbol.section_index(), symbol.address()))
        };
        let (run, also, main) =
            (address(&mangle("team", "run")), address(&mangle("team", "also run")), address(&mangle("team", "main")));
        assert!(run.is_some() && main.is_some(), "{triple}");
        assert_eq!(run, also, "{triple}");
        assert_ne!(run, main, "{triple}");
    }
}

fn c_name_or<'a>(name: &'a str, triple: &str) -> &'a str {
    if triple.contains("apple") { name.strip_prefix('_').unwrap_or(name) } else { name }
}

/// One function of the trap table.
struct Traps {
    namespace: u32,
    index: u32,
    /// (code, wasm offset)
    traps: Vec<(u32, u32)>,
    /// (return, handler) offsets.
    handlers: Vec<(u32, u32)>,
}

/// A reader of the trap table, written by its documentation alone.
fn read_traps(bytes: &[u8], big_endian: bool) -> Vec<Traps> {
    let mut words = bytes.chunks_exact(4).map(|word| {
        let word = [word[0], word[1], word[2], word[3]];
        if big_endian { u32::from_be_bytes(word) } else { u32::from_le_bytes(word) }
    });
    let mut next = || words.next().expect("the table is whole");
    assert_eq!(next(), 2, "version");
    let functions = (0..next())
        .map(|_| {
            let (namespace, index, length) = (next(), next(), next());
            let traps = (0..next())
                .map(|_| {
                    let (offset, code, wasm_offset) = (next(), next(), next());
                    assert!(offset < length);
                    (code, wasm_offset)
                })
                .collect();
            let handlers = (0..next())
                .map(|_| {
                    let (returned, handler, frame) = (next(), next(), next());
                    assert!(returned < length && handler < length && frame.is_multiple_of(8));
                    (returned, handler)
                })
                .collect();
            Traps { namespace, index, traps, handlers }
        })
        .collect();
    assert_eq!(words.next(), None);
    functions
}

#[test]
fn tables_travel_in_their_sections() {
    for triple in SUPPORTED {
        let bytes = emit(triple);
        let file = ::object::File::parse(&*bytes).expect(triple);
        let section = |name: &str| {
            let name = if triple.contains("apple") { format!("__spw_{name}") } else { format!(".spw.{name}") };
            let section = file.sections().find(|section| section.name() == Ok(&name)).expect(triple);
            assert_eq!(section.relocations().count(), 0, "{triple}: {name} needs no address");
            section.data().expect(triple).to_vec()
        };
        assert_eq!(section("guards"), b"guard table", "{triple}");
        assert_eq!(section("meta"), b"metadata", "{triple}");
        let traps = read_traps(&section("traps"), triple.starts_with("s390x"));
        assert_eq!(traps.len(), 5, "{triple}");
        let of_run = traps.iter().find(|function| (function.namespace, function.index) == (0, 1)).expect(triple);
        let of_run = &of_run.traps;
        assert!(of_run.contains(&(8, 0x50)) && of_run.contains(&(1, 0x52)), "{triple}: {of_run:x?}");
        let handling: Vec<_> = traps.iter().filter(|function| !function.handlers.is_empty()).collect();
        let [entry] = handling[..] else { panic!("{triple}: only the entry handles exceptions") };
        assert_eq!((entry.namespace, entry.handlers.len()), (3, 1), "{triple}");
        let (returned, handler) = entry.handlers[0];
        assert!(returned < handler, "{triple}: the handler is laid out cold");
    }
}

#[test]
fn bytes_are_the_same_whatever_the_number_of_threads() {
    let many = |triple: &str| -> Vec<Input> { (0..40).flat_map(|_| inputs(triple)).collect() };
    for triple in SUPPORTED {
        let isa = target(triple);
        let with_threads = |threads: usize| {
            let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().expect("threads");
            pool.install(|| compile(&*isa, many(triple), &|_| {}).expect(triple))
        };
        let one = with_threads(1);
        for threads in [2, 7] {
            assert_eq!(with_threads(threads), one, "{triple}: {threads} threads");
        }
        assert_eq!(emit(triple), emit(triple), "{triple}");
    }
}

#[test]
fn progress_counts_every_function() {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let (calls, highest) = (AtomicUsize::new(0), AtomicUsize::new(0));
    let triple = SUPPORTED[0];
    compile(&*target(triple), inputs(triple), &|done| {
        calls.fetch_add(1, Ordering::Relaxed);
        highest.fetch_max(done, Ordering::Relaxed);
    })
    .expect("valid");
    assert_eq!((calls.into_inner(), highest.into_inner()), (5, 5));
}
