//! What an instruction of CLIF means to the guard.
//!
//! Invariant: an instruction this table does not know counts as an atomic read *and* as impure, so that a new version of
//! Cranelift can only make the guard more careful. A test walks all opcodes, so that additions are noticed.
//! Cost: one table look-up an instruction.

use cranelift_codegen::ir::{ExternalName, FuncRef, Function, Inst, InstructionData, Opcode};
use spinwise_model::symbol::{Builtin, NS_BUILTIN, NS_FUNC};

/// The effect of an instruction, as far as the guard cares.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Effect {
    /// Nothing that matters here.
    None,
    /// A load: of guest memory if it may trap, of the instance's or the thread's own data if it may not.
    Load,
    /// An atomic load, read-modify-write or compare-and-exchange of any width: another thread may change its result.
    AtomicRead,
    /// A call, with or without an exception table, or a tail call.
    Call,
}

/// The effect of an opcode.
#[must_use]
pub fn effect(opcode: Opcode) -> Effect {
    known(opcode).unwrap_or(Effect::AtomicRead)
}

/// The table; `None` for an opcode that was not there when it was written. A stack switch goes anywhere: it is counted as a
/// read.
fn known(opcode: Opcode) -> Option<Effect> {
    use Opcode as O;
    Some(match opcode {
        O::StackSwitch | O::AtomicRmw | O::AtomicCas | O::AtomicLoad => Effect::AtomicRead,
        O::Call | O::CallIndirect | O::ReturnCall | O::ReturnCallIndirect | O::TryCall | O::TryCallIndirect => {
            Effect::Call
        }
        O::Load
        | O::Uload8
        | O::Sload8
        | O::Uload16
        | O::Sload16
        | O::Uload32
        | O::Sload32
        | O::Uload8x8
        | O::Sload8x8
        | O::Uload16x4
        | O::Sload16x4
        | O::Uload32x2
        | O::Sload32x2 => Effect::Load,
        #[rustfmt::skip]
        O::Jump | O::Brif | O::BrTable | O::Debugtrap | O::Trap | O::Trapz | O::Trapnz | O::Return | O::FuncAddr
        | O::Splat | O::Swizzle | O::X86Pshufb | O::Insertlane | O::Extractlane | O::Smin | O::Umin | O::Smax
        | O::Umax | O::AvgRound | O::UaddSat | O::SaddSat | O::UsubSat | O::SsubSat | O::Store | O::Istore8
        | O::Istore16 | O::Istore32 | O::StackAddr | O::DynamicStackAddr | O::SymbolValue | O::TlsValue
        | O::GetPinnedReg | O::SetPinnedReg | O::GetFramePointer | O::GetStackPointer | O::GetReturnAddress
        | O::GetExceptionHandlerAddress | O::Iconst | O::F16const | O::F32const | O::F64const | O::F128const
        | O::Vconst | O::Shuffle | O::Nop | O::Select | O::SelectSpectreGuard | O::Bitselect | O::Blendv | O::VanyTrue
        | O::VallTrue | O::VhighBits | O::Icmp | O::Iadd | O::Isub | O::Ineg | O::Iabs | O::Imul | O::Umulhi
        | O::Smulhi | O::SqmulRoundSat | O::X86Pmulhrsw | O::Udiv | O::Sdiv | O::Urem | O::Srem | O::SaddOverflowCin
        | O::UaddOverflowCin | O::UaddOverflow | O::SaddOverflow | O::UsubOverflow | O::SsubOverflow | O::UmulOverflow
        | O::SmulOverflow | O::UaddOverflowTrap | O::SsubOverflowBin | O::UsubOverflowBin | O::Band | O::Bor | O::Bxor
        | O::Bnot | O::Rotl | O::Rotr | O::Ishl | O::Ushr | O::Sshr | O::Bitrev | O::Clz | O::Cls | O::Ctz | O::Bswap
        | O::Popcnt | O::Fcmp | O::Fadd | O::Fsub | O::Fmul | O::Fdiv | O::Sqrt | O::Fma | O::Fneg | O::Fabs
        | O::Fcopysign | O::Fmin | O::Fmax | O::Ceil | O::Floor | O::Trunc | O::Nearest | O::Bitcast
        | O::ScalarToVector | O::Bmask | O::Ireduce | O::Snarrow | O::Unarrow | O::Uunarrow | O::SwidenLow
        | O::SwidenHigh | O::UwidenLow | O::UwidenHigh | O::IaddPairwise | O::X86Pmaddubsw | O::Uextend | O::Sextend
        | O::Fpromote | O::Fdemote | O::Fvdemote | O::FvpromoteLow | O::FcvtToUint | O::FcvtToSint | O::FcvtToUintSat
        | O::FcvtToSintSat | O::X86Cvtt2dq | O::FcvtFromUint | O::FcvtFromSint | O::Isplit | O::Iconcat
        | O::AtomicStore | O::Fence | O::ExtractVector | O::SequencePoint => Effect::None,
        #[expect(unreachable_patterns, reason = "reached with a newer Cranelift, where this warning then disappears")]
        _ => return None,
    })
}

/// What a call instruction calls.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Target {
    /// A wasm function, by its index.
    Function(u32),
    /// A function of the runtime.
    Builtin(Builtin),
    /// Whatever a table holds: the instruction's source location says which.
    Indirect,
    /// A function of the compiler's own, which is not guest code.
    Other,
}

/// What an instruction calls; `None` if it is not a call.
#[must_use]
pub fn target(func: &Function, inst: Inst) -> Option<Target> {
    let data = &func.dfg.insts[inst];
    match data {
        InstructionData::Call { func_ref, .. } | InstructionData::TryCall { func_ref, .. } => {
            Some(direct(func, *func_ref))
        }
        _ if effect(data.opcode()) == Effect::Call => Some(Target::Indirect),
        _ => None,
    }
}

fn direct(func: &Function, callee: FuncRef) -> Target {
    let ExternalName::User(name) = func.dfg.ext_funcs[callee].name else { return Target::Other };
    let name = &func.params.user_named_funcs()[name];
    match name.namespace {
        NS_FUNC => Target::Function(name.index),
        NS_BUILTIN => Builtin::from_index(name.index).map_or(Target::Other, Target::Builtin),
        _ => Target::Other,
    }
}

/// Whether an instruction loads guest memory plainly: such a load names a trap, the instance's own data does not.
#[must_use]
pub fn is_plain_guest_load(func: &Function, inst: Inst) -> bool {
    let data = &func.dfg.insts[inst];
    effect(data.opcode()) == Effect::Load && data.memflags_trap_code(&func.dfg).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_opcode_of_cranelift_is_in_the_table() {
        let missing: Vec<_> = Opcode::all().iter().filter(|opcode| known(**opcode).is_none()).collect();
        assert!(missing.is_empty(), "decide what these mean to the guard: {missing:?}");
    }

    #[test]
    fn the_table_agrees_with_what_cranelift_says_of_its_opcodes() {
        for opcode in Opcode::all() {
            let effect = effect(*opcode);
            let call = opcode.is_call() && *opcode != Opcode::StackSwitch;
            assert_eq!(effect == Effect::Call, call, "{opcode}");
            if effect == Effect::None {
                assert!(!opcode.can_load() || *opcode == Opcode::Debugtrap, "{opcode}");
            }
            if effect == Effect::Load {
                assert!(opcode.can_load() && !opcode.can_store() && !opcode.other_side_effects(), "{opcode}");
            }
        }
    }

    #[test]
    fn reads_are_what_another_thread_can_answer() {
        let reads: Vec<_> = Opcode::all().iter().copied().filter(|o| effect(*o) == Effect::AtomicRead).collect();
        assert_eq!(reads, [Opcode::StackSwitch, Opcode::AtomicRmw, Opcode::AtomicCas, Opcode::AtomicLoad]);
    }
}
