//! `pshufb` for x86-64 CPUs that lack it (before SSSE3): a function that is compiled beside the code that needs it.
//!
//! Invariant: byte `i` of the result is byte `mask[i] & 15` of the source, or 0 where bit 7 of `mask[i]` is set.
//! Source: Intel SDM, PSHUFB. It is written in CLIF so that a baseline object needs no symbol for it.
//! Cost: 16 loads and stores a call, against one instruction.

use cranelift_codegen::Context;
use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::types::{I8, I8X16, I64};
use cranelift_codegen::ir::{
    Function, InstBuilder, LibCall, MemFlagsData, StackSlotData, StackSlotKind, UserExternalName, UserFuncName,
};
use cranelift_codegen::isa::TargetIsa;
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};

use crate::compile::{Compiled, Input, compile_one};
use crate::error::Error;

/// Its name: in a namespace that no stage before linking uses.
pub(crate) const NAME: UserExternalName = UserExternalName { namespace: u32::MAX, index: 0 };

/// Compiles it for a target.
pub(crate) fn compile(isa: &dyn TargetIsa) -> Result<Compiled, Error> {
    compile_one(isa, &mut Context::new(), Input { func: function(isa), symbol: "spw.pshufb".to_owned() })
}

fn function(isa: &dyn TargetIsa) -> Function {
    let signature = LibCall::X86Pshufb.signature(isa.default_call_conv(), I64);
    let mut func = Function::with_name_signature(UserFuncName::User(NAME), signature);
    let slot = || StackSlotData::new(StackSlotKind::ExplicitSlot, 16, 4);
    let [source, mask, result] = [(); 3].map(|()| func.create_sized_stack_slot(slot()));

    let mut state = FunctionBuilderContext::new();
    let mut builder = FunctionBuilder::new(&mut func, &mut state);
    let entry = builder.create_block();
    builder.append_block_params_for_function_params(entry);
    builder.switch_to_block(entry);
    builder.seal_block(entry);
    let [source_value, mask_value] = *builder.block_params(entry) else { unreachable!("two parameters") };
    builder.ins().stack_store(I64, source_value, source, 0);
    builder.ins().stack_store(I64, mask_value, mask, 0);
    let source = builder.ins().stack_addr(I64, source, 0);
    for lane in 0..16 {
        let selector = builder.ins().stack_load(I64, I8, mask, lane);
        let index = builder.ins().band_imm_u(selector, 15);
        let index = builder.ins().uextend(I64, index);
        let address = builder.ins().iadd(source, index);
        let byte = builder.ins().load(I8, MemFlagsData::trusted(), address, 0);
        let zero = builder.ins().iconst(I8, 0);
        let clear = builder.ins().icmp_imm_s(IntCC::SignedLessThan, selector, 0);
        let byte = builder.ins().select(clear, zero, byte);
        builder.ins().stack_store(I64, byte, result, lane);
    }
    let value = builder.ins().stack_load(I64, I8X16, result, 0);
    builder.ins().return_(&[value]);
    builder.finalize(isa.frontend_config());
    func
}
