//! Bad modules: each rejection says what is wrong and where, in one line, and nothing panics.

mod common;

use common::{config, lift_text};
use spinwise_lift::{Config, Error, Features, lift};

fn error(text: &str) -> Error {
    let error = lift_text(text).expect_err("a bad module");
    let line = error.to_string();
    assert!(!line.contains('\n') && line.contains(&format!("(wasm offset {:#x})", error.offset())), "{line}");
    error
}

#[test]
fn missing_features_are_named() {
    let config = Config { features: Features::parse("wasm2,threads").unwrap(), ..config() };
    let cases = [
        ("tail calls", r#"(func $bad (return_call $bad))"#, Some("bad")),
        ("tail calls", r#"(table 1 funcref) (func (export "x") (return_call_indirect (i32.const 0)))"#, Some("x")),
        ("exception handling", "(tag $t)", None),
        ("exception handling", "(func (try_table))", Some("func[0]")),
        ("memory64", "(memory i64 1)", None),
        ("multi-memory", "(memory 1) (memory 1)", None),
        ("multi-memory", "(memory 1) (func $f (drop (memory.size 0))) (memory 1)", None),
        (
            "relaxed SIMD",
            "(func $relax (param v128) (result v128) (i8x16.relaxed_swizzle (local.get 0) (local.get 0)))",
            Some("relax"),
        ),
        (
            "wide arithmetic",
            "(func (param i64 i64) (result i64 i64) (i64.mul_wide_s (local.get 0) (local.get 1)))",
            Some("func[0]"),
        ),
        ("typed function references", "(type $f (func)) (func (param (ref $f)) (call_ref $f (local.get 0)))", None),
        ("typed function references", "(type $f (func)) (func (local (ref null $f)))", Some("func[0]")),
        ("garbage collection", "(type (struct))", None),
        ("garbage collection", "(func (result i32) (ref.eq (ref.null eq) (ref.null eq)))", Some("func[0]")),
        ("custom page sizes", "(memory 1 (pagesize 1))", None),
        ("stack switching", "(type $f (func)) (type $k (cont $f))", None),
    ];
    for (feature, body, function) in cases {
        let error = lift(&wat::parse_str(format!("(module {body})")).unwrap(), &config).unwrap_err();
        assert!(
            matches!(
                &error,
                Error::Unsupported { feature: found, .. } | Error::SwitchedOff { feature: found, .. }
                    if found.starts_with(feature)
            ),
            "{error}: {body}"
        );
        assert_eq!(error.function(), function, "{error}: {body}");
        assert!(error.offset() >= 8, "{error}");
    }
}

#[test]
fn a_component_is_not_a_module() {
    let bytes = wat::parse_str("(component)").unwrap();
    let error = lift(&bytes, &config()).unwrap_err();
    assert!(matches!(&error, Error::Unsupported { feature, .. } if feature == "component model"), "{error}");
}

#[test]
fn what_is_not_wasm_is_said_to_be_not_wasm() {
    let cases: [(&[u8], &str); 4] = [
        (b"", "the file is empty"),
        (b"\x7fELF\x02\x01\x01", "not a WebAssembly binary"),
        (b"(module)", "not a WebAssembly binary"),
        (b"\0as", "not a WebAssembly binary"),
    ];
    for (bytes, message) in cases {
        let error = lift(bytes, &config()).unwrap_err();
        assert!(matches!(&error, Error::Malformed { message: found, .. } if found == message), "{error}");
    }
}

#[test]
fn invalid_bodies_name_their_function_and_operator() {
    let text = "(module (func $good) (func $adds (result i32) (i32.add (i32.const 1) (f32.const 2))))";
    let bytes = wat::parse_str(text).unwrap();
    let error = error(text);
    assert!(matches!(error, Error::Invalid { .. }), "{error}");
    assert_eq!(error.function(), Some("adds"));
    assert_eq!(bytes[usize::try_from(error.offset()).unwrap()], 0x6a, "i32.add");
}

#[test]
fn of_several_bad_bodies_the_first_is_reported() {
    let good = "(func (drop (i32.const 1)))".repeat(200);
    let text = format!("(module {good} (func $first (drop)) {good} (func $second (drop)))");
    for _ in 0..20 {
        assert_eq!(error(&text).function(), Some("first"));
    }
}

#[test]
fn names_cannot_break_the_line() {
    let text = "(module (func $\"two\\0alines\" (drop)))";
    assert_eq!(error(text).function(), Some("two\nlines"));
}

#[test]
fn malformed_bodies_are_told_from_invalid_ones() {
    let mut bytes = wat::parse_str("(module (func $f (drop (i32.const 1))))").unwrap();
    let at = bytes.windows(3).position(|window| window == [0x41, 0x01, 0x1a]).unwrap();
    bytes[at] = 0xff;
    let error = lift(&bytes, &config()).unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }), "{error}");
    assert_eq!(error.offset(), at as u64);
    assert_eq!(error.function(), Some("f"));
}

#[test]
fn damage_is_not_taken_for_a_feature() {
    let mut bytes = wat::parse_str("(module (func $f (return_call $f)) (func (drop (i32.const 1))))").unwrap();
    let at = bytes.windows(3).position(|window| window == [0x41, 0x01, 0x1a]).unwrap();
    bytes[at] = 0xff;
    let error = lift(&bytes, &config()).unwrap_err();
    assert!(matches!(error, Error::Malformed { .. }), "{error}");
    assert_eq!(error.offset(), at as u64);
}

const SMALL: &str = r#"(module $m
  (import "a" "b" (func (param i32)))
  (table 2 funcref) (memory 1 2) (global $g (mut i32) (i32.const 1))
  (func $f (export "f") (param i32) (result i32) (local i64 v128)
    (block (result i32) (loop (br_if 0 (local.get 0)) (br_table 0 1 (i32.const 7) (local.get 0))) (i32.const 2))
    (call 0) (global.get $g) (i32.load offset=4) (call_indirect (param i32) (i32.const 0) (i32.const 1)))
  (elem (i32.const 0) func $f) (data (i32.const 3) "xyz"))"#;

#[test]
fn every_truncation_is_rejected_without_a_panic() {
    let bytes = wat::parse_str(SMALL).expect("it parses");
    // Custom sections may be cut off whole, and a cut behind a section may leave a valid module.
    let mut rejected = 0;
    for length in 0..bytes.len() {
        if let Err(error) = lift(&bytes[..length], &config()) {
            assert!(!error.to_string().contains('\n') && error.offset() <= length as u64, "{error}");
            rejected += 1;
        }
    }
    assert!(rejected > bytes.len() * 9 / 10, "{rejected} of {}", bytes.len());
}

#[test]
fn no_changed_byte_makes_it_panic() {
    let bytes = wat::parse_str(SMALL).expect("it parses");
    for at in 0..bytes.len() {
        for change in [0x01, 0x03, 0x40, 0x80, 0xff] {
            let mut changed = bytes.clone();
            changed[at] ^= change;
            if let Ok(lifted) = lift(&changed, &config()) {
                common::verify(&lifted);
            }
        }
    }
}
