//! The shape of the project itself: which crate may know which, where `unsafe` may live, how files open.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).parent().expect("the workspace root").to_path_buf()
}

/// Who may depend on whom. The compiler and the runtime meet only in `model`.
const ARROWS: &[(&str, &[&str])] = &[
    ("model", &[]),
    ("lift", &["model"]),
    ("loops", &[]),
    ("guard", &["model", "loops"]),
    ("emit", &["model"]),
    ("team", &[]),
    ("runtime", &["model", "team"]),
    ("spinwise", &["model", "lift", "guard", "emit", "team", "runtime"]),
];

/// Crates that must not know a code generator or wasm.
const IGNORANT: &[(&str, &[&str])] = &[
    ("model", &["cranelift", "wasmparser"]),
    ("loops", &["cranelift", "wasmparser"]),
    ("team", &["cranelift", "wasmparser"]),
    ("runtime", &["cranelift", "wasmparser"]),
    ("guard", &["wasmparser", "cranelift-module", "cranelift-jit"]),
];

/// The `[dependencies]` of a crate, without those for tests and for special builds.
fn dependencies(krate: &str) -> Vec<String> {
    let path = root().join("crates").join(krate).join("Cargo.toml");
    let text = fs::read_to_string(&path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let section = text.split("\n[").find_map(|s| s.strip_prefix("dependencies]"));
    let name = |line: &str| line.split(['.', '=', ' ']).next().map(str::to_owned);
    section.unwrap_or("").lines().filter_map(name).filter(|n| !n.is_empty() && !n.starts_with('#')).collect()
}

#[test]
fn crates_follow_the_arrows() {
    let allowed: BTreeMap<_, _> = ARROWS.iter().copied().collect();
    let mut crates: Vec<_> = fs::read_dir(root().join("crates"))
        .expect("crates")
        .map(|e| e.expect("an entry").file_name().into_string().expect("UTF-8"))
        .collect();
    crates.sort();
    let mut known: Vec<_> = allowed.keys().map(|k| (*k).to_owned()).collect();
    known.sort();
    assert_eq!(crates, known, "each crate has its line in ARROWS");
    for krate in &crates {
        for dependency in dependencies(krate) {
            let ours = dependency.strip_prefix("spinwise-").or((dependency == "spinwise").then_some("spinwise"));
            if let Some(other) = ours {
                assert!(allowed[krate.as_str()].contains(&other), "{krate} must not depend on {other}");
            }
        }
    }
}

#[test]
fn crates_stay_ignorant() {
    for (krate, forbidden) in IGNORANT {
        for dependency in dependencies(krate) {
            for word in *forbidden {
                assert!(!dependency.starts_with(word), "{krate} must not depend on {dependency}");
            }
        }
    }
}

/// All Rust files below a folder.
fn rust_files(folder: &Path, out: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(folder).unwrap_or_else(|e| panic!("{}: {e}", folder.display())) {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            rust_files(&path, out);
        } else if path.extension().is_some_and(|e| e == "rs") {
            out.push(path);
        }
    }
}

fn sources() -> Vec<PathBuf> {
    let mut files = Vec::new();
    for folder in ["crates", "tests", "benches"] {
        rust_files(&root().join(folder), &mut files);
    }
    files.sort();
    files
}

#[test]
fn every_file_says_what_it_is() {
    for file in sources() {
        let text = fs::read_to_string(&file).expect("readable");
        assert!(text.starts_with("//!"), "{} does not open with //!", file.display());
    }
}

#[test]
fn unsafe_code_lives_where_it_may() {
    let may = [
        "crates/runtime/",
        "crates/emit/src/jit",
        "crates/emit/tests/",
        "crates/team/src/",
        "crates/lift/tests/",
        "tests/",
    ];
    for file in sources() {
        let path = file.strip_prefix(root()).expect("below the root").display().to_string();
        let text = fs::read_to_string(&file).expect("readable");
        let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
        let found =
            code.filter(|line| line.contains("unsafe {") || line.contains("unsafe fn") || line.contains("unsafe impl"));
        if found.count() > 0 {
            assert!(may.iter().any(|m| path.starts_with(m)), "{path} holds unsafe code");
        }
    }
}

#[test]
fn no_stub_and_no_ignored_test() {
    let words = [concat!("todo", "!("), concat!("unimplemented", "!("), concat!("#[ign", "ore"), concat!("FIX", "ME")];
    for file in sources() {
        let text = fs::read_to_string(&file).expect("readable");
        // The official WASI programs are not ours to keep: the test that runs them must be asked for.
        let asked_for = file.ends_with("crates/spinwise/tests/wasi_testsuite.rs");
        for word in words.into_iter().filter(|word| !(asked_for && word.ends_with("ore"))) {
            assert!(!text.contains(word), "{} holds {word}", file.display());
        }
    }
}
