//! Machine code as text, for `--emit asm` and for tests that look at what became of a guard.
//!
//! Invariant: what is shown is the final code, byte for byte what [`crate::compile()`] makes of the same function.

use cranelift_codegen::Context;
use cranelift_codegen::control::ControlPlane;
use cranelift_codegen::ir;
use cranelift_codegen::isa::TargetIsa;

use crate::error::Error;

/// The machine code of a function as assembly text: one block after another, relocations and traps as comments.
///
/// Relocations show the names of [`spinwise_model::symbol`], as `u0:7` for function 7.
///
/// # Errors
/// If it cannot be compiled, or the target has no disassembler.
pub fn disassemble(isa: &dyn TargetIsa, func: &ir::Function) -> Result<String, Error> {
    let symbol = func.name.to_string();
    let failed = |reason: String| Error::Compile { function: symbol.clone(), reason };
    let mut context = Context::for_function(func.clone());
    let code =
        context.compile(isa, &mut ControlPlane::default()).map_err(|error| Error::compile(&symbol, &error.inner))?;
    let disassembler = isa.to_capstone().map_err(|error| failed(format!("cannot be disassembled: {error}")))?;
    code.disassemble(Some(&func.params), &disassembler)
        .map_err(|error| failed(format!("cannot be disassembled: {error}")))
}
