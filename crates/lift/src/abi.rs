//! How WebAssembly types and calling conventions look in CLIF.
//!
//! Invariant: a guest function's first parameter is its instance context (`vmctx`, [`spinwise_model::context`]); at every
//! boundary (parameters, results, locals, block parameters, globals) a `v128` is `i8x16` and a reference is `i64`.

use cranelift_codegen::ir::{AbiParam, Endianness, MemFlagsData, Signature, TrapCode as ClifTrap, Type, types};
use cranelift_codegen::isa::CallConv;
use spinwise_model::symbol::{AbiType, Builtin};
use spinwise_model::trap::TrapCode;
use spinwise_model::types::{FuncType, ValType};

/// The CLIF type of a WebAssembly type.
pub(crate) const fn clif_type(ty: ValType) -> Type {
    match ty {
        ValType::I32 => types::I32,
        ValType::I64 | ValType::Ref(_) => types::I64,
        ValType::F32 => types::F32,
        ValType::F64 => types::F64,
        ValType::V128 => types::I8X16,
    }
}

/// The signature of a guest function: `vmctx`, then its own parameters.
pub(crate) fn guest_signature(ty: &FuncType) -> Signature {
    let mut signature = Signature::new(CallConv::Tail);
    signature.params.push(AbiParam::new(types::I64));
    signature.params.extend(ty.params.iter().map(|ty| AbiParam::new(clif_type(*ty))));
    signature.returns.extend(ty.results.iter().map(|ty| AbiParam::new(clif_type(*ty))));
    signature
}

/// The signature of a builtin: 32-bit arguments are sign-extended where the convention wants them extended.
pub(crate) fn builtin_signature(builtin: Builtin, call_conv: CallConv) -> Signature {
    let param = |ty: &AbiType| match ty {
        AbiType::I32 => AbiParam::new(types::I32).sext(),
        AbiType::I64 => AbiParam::new(types::I64),
    };
    let mut signature = Signature::new(call_conv);
    signature.params.extend(builtin.params().iter().map(param));
    signature.returns.extend(builtin.results().iter().map(param));
    signature
}

/// A trap of ours as CLIF carries it.
pub(crate) const fn trap(code: TrapCode) -> ClifTrap {
    ClifTrap::unwrap_user(code.raw())
}

/// Flags of an access to context memory that may change while guest code runs.
pub(crate) const CONTEXT: MemFlagsData = MemFlagsData::trusted();

/// Flags of a load of context memory that never changes while guest code runs.
pub(crate) const CONSTANT: MemFlagsData = MemFlagsData::trusted().with_readonly().with_can_move();

/// Flags of an access to a 16-byte cell that holds a value of that type: a global, or a slot between host and guest.
pub(crate) const fn cell_flags(ty: ValType) -> MemFlagsData {
    match ty {
        // Lane 0 is at the lowest address on every target. Hosts align cells to 8 bytes, as other values need.
        ValType::V128 => MemFlagsData::new().with_notrap().with_endianness(Endianness::Little),
        _ => CONTEXT,
    }
}

/// Flags of an access to guest memory: little endian, unaligned, and trapping on the guard pages.
pub(crate) const GUEST: MemFlagsData =
    MemFlagsData::new().with_endianness(Endianness::Little).with_trap_code(Some(trap(TrapCode::MemoryOutOfBounds)));

/// Flags of a bitcast between vector types: lane 0 is at the lowest address.
pub(crate) const LANES: MemFlagsData = MemFlagsData::new().with_endianness(Endianness::Little);
