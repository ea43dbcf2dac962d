//! Machine code as text, for `--emit asm` and for tests that look at what became of a guard.
//!
//! Invariant: what is shown is the final code, byte for byte what is placed or written; it is decoded again from the
//! bytes. Constants behind the code are decoded as if they were instructions, or shown as bytes.

use std::fmt::Write as _;

use cranelift_codegen::Context;
use cranelift_codegen::ir::{Function, UserExternalName};
use cranelift_codegen::isa::TargetIsa;
use spinwise_model::symbol::{Builtin, NS_BUILTIN};
use spinwise_model::trap::TrapCode;

use crate::compile::{Callee, Compiled, Input, NO_OFFSET, compile_one};
use crate::error::Error;

/// The code of a function, one instruction a line: its offset, the instruction, and as a comment what it refers to
/// (by `name_of`), how it traps and for which wasm offset, and where what a call throws goes on.
///
/// # Errors
/// If the target has no disassembler.
pub fn listing(
    isa: &dyn TargetIsa,
    function: &Compiled,
    name_of: &dyn Fn(&UserExternalName) -> String,
) -> Result<String, Error> {
    let failed = |reason: String| Error::Compile { function: function.symbol.clone(), reason };
    let disassembler = isa.to_capstone().map_err(|error| failed(format!("cannot be disassembled: {error}")))?;
    let instructions = disassembler
        .disasm_all(&function.code, 0)
        .map_err(|error| failed(format!("cannot be disassembled: {error}")))?;

    let mut text = format!("{}:\n", function.symbol);
    let mut relocations = function.relocations.iter().peekable();
    let mut traps = function.traps.iter().peekable();
    let mut handlers = function.handlers.iter().peekable();
    let mut shown = 0;
    for instruction in instructions.iter() {
        shown = u32::try_from(instruction.address()).unwrap_or(u32::MAX);
        let mnemonic = instruction.mnemonic().unwrap_or_default();
        let operands = instruction.op_str().unwrap_or_default();
        let _ = write!(text, "{shown:6x}  {}", format!("{mnemonic} {operands}").trim_end());
        shown = shown.saturating_add(u32::try_from(instruction.bytes().len()).unwrap_or(u32::MAX));
        while let Some(relocation) = relocations.next_if(|relocation| relocation.offset < shown) {
            match &relocation.callee {
                Callee::Function(name) => {
                    let _ = write!(text, "  ; {}", name_of(name));
                }
                Callee::Helper(helper) => {
                    let _ = write!(text, "  ; helper {helper}");
                }
                Callee::Within(offset) => {
                    let _ = write!(text, "  ; {offset:#x}");
                }
            }
        }
        while let Some(trap) = traps.next_if(|trap| trap.offset < shown) {
            let reason = TrapCode::from_raw(trap.code).map_or("unknown", TrapCode::message);
            let _ = write!(text, "  ; trap: {reason}");
            if trap.wasm_offset != NO_OFFSET {
                let _ = write!(text, " (wasm offset {:#x})", trap.wasm_offset);
            }
        }
        while let Some(site) = handlers.next_if(|site| site.offset <= shown) {
            let _ = write!(text, "  ; handler {:#x}", site.handler);
        }
        text.push('\n');
    }
    if let Some(rest) = function.code.get(shown as usize..).filter(|rest| !rest.is_empty()) {
        let bytes: Vec<_> = rest.iter().map(|byte| format!("{byte:#04x}")).collect();
        let _ = writeln!(text, "{shown:6x}  .byte {}", bytes.join(", "));
    }
    Ok(text)
}

/// Compiles one function as [`crate::compile()`] does, and shows its code. Other functions are named `u0:7`, as in
/// CLIF; builtins by their symbols.
///
/// # Errors
/// If it cannot be compiled, or the target has no disassembler.
pub fn disassemble(isa: &dyn TargetIsa, func: &Function) -> Result<String, Error> {
    let input = Input { symbol: func.name.to_string(), func: func.clone() };
    listing(isa, &compile_one(isa, &mut Context::new(), input)?, &clif_name)
}

/// A builtin's symbol, or the name as CLIF spells it.
fn clif_name(name: &UserExternalName) -> String {
    match Builtin::from_index(name.index) {
        Some(builtin) if name.namespace == NS_BUILTIN => builtin.symbol().to_owned(),
        _ => name.to_string(),
    }
}
