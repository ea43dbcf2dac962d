//! What the tests share: hand-written CLIF, a module around it, and both ways out.

#![allow(dead_code, reason = "each test binary uses a part")]

use cranelift_codegen::ir::Function;
use cranelift_codegen::isa::OwnedTargetIsa;
use spinwise_emit::{Compiled, Input, Target, compile, isa};
use spinwise_model::image::CodeImage;
use spinwise_model::index::{FuncIndex, TypeIndex};
use spinwise_model::module::{Entity, Export, Function as Declared, Import, Module};
use spinwise_model::symbol::Builtin;
use spinwise_model::types::FuncType;

/// The functions of a text.
pub(crate) fn parse(text: &str) -> Vec<Function> {
    cranelift_reader::parse_functions(text).expect("well-formed CLIF")
}

/// A module of so many functions, all of the empty type.
pub(crate) fn module(imported: u32, defined: u32) -> Module {
    let declared = Declared { ty: TypeIndex(0), name: None, body: 0..0 };
    Module {
        types: [FuncType::default()].into_iter().collect(),
        imports: (0..imported)
            .map(|index| Import {
                module: "env".to_owned(),
                field: format!("import{index}"),
                entity: Entity::Function(FuncIndex(index)),
            })
            .collect(),
        functions: vec![declared; (imported + defined) as usize],
        imported_functions: imported,
        ..Module::default()
    }
}

/// Exports a function.
pub(crate) fn export(module: &mut Module, name: &str, func: u32) {
    module.exports.push(Export { name: name.to_owned(), entity: Entity::Function(FuncIndex(func)) });
}

/// The host's machine description.
pub(crate) fn host(target: &Target) -> OwnedTargetIsa {
    isa(&Target { verifier: true, ..target.clone() }, false).expect("the host is supported")
}

/// Compiles functions, each under its CLIF name.
pub(crate) fn compiled(isa: &OwnedTargetIsa, functions: Vec<Function>) -> Vec<Compiled> {
    let inputs = functions.into_iter().map(|func| Input { symbol: func.name.to_string(), func }).collect();
    compile(&**isa, inputs, &|_| {}).expect("valid CLIF")
}

/// Compiles and loads the functions of a text.
pub(crate) fn load(target: &Target, module: &Module, text: &str, resolve: &dyn Fn(Builtin) -> *const u8) -> CodeImage {
    let isa = host(target);
    let compiled = compiled(&isa, parse(text));
    spinwise_emit::load(&isa, module, compiled, resolve).expect("complete code")
}

/// For code that calls no builtin.
pub(crate) fn no_builtins(builtin: Builtin) -> *const u8 {
    panic!("{builtin:?} is not called here")
}
