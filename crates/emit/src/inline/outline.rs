//! What deciding about inlining needs to know of a function: so little that a whole module's fits without its code.
//!
//! Cost: one pass over the instructions; 12 bytes a call.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::num::NonZeroU32;

use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::ir::{
    ExternalName, FuncRef, Function, InstructionData, Opcode, SigRef, Signature, UserExternalName, UserFuncName,
};
use cranelift_codegen::isa::CallConv;
use spinwise_model::symbol::NS_FUNC;

/// A function's size and direct calls.
#[derive(Clone, Debug)]
pub struct Outline {
    /// Its function index, if it has one.
    pub(super) index: Option<u32>,
    /// How many instructions it has.
    pub(super) size: usize,
    pub(super) signature: Digest,
    /// Whether it calls by another convention than the guest's own.
    pub(super) leaves_guest: bool,
    /// Its direct calls of functions that have an index, in layout order.
    pub(super) calls: Box<[DirectCall]>,
}

/// One direct call.
#[derive(Clone, Copy, Debug)]
pub(super) struct DirectCall {
    /// The function index of the callee.
    pub(super) callee: u32,
    /// What the call is.
    pub(super) opcode: Opcode,
    /// The signature it is called by; `None` where nothing is ever copied to: in a cold block, or at a kind of call
    /// that Cranelift's inliner is not used for.
    pub(super) copied_as: Option<Digest>,
}

/// Stands for a signature: equal ones have equal digests. Whoever copies compares the signatures themselves.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) struct Digest(NonZeroU32);

impl Digest {
    #[expect(clippy::cast_possible_truncation, reason = "any 32 bits of the hash will do")]
    fn of(signature: &Signature) -> Self {
        // A hasher with fixed keys: the same digest in every process.
        let mut hasher = DefaultHasher::new();
        signature.hash(&mut hasher);
        Self(NonZeroU32::new(hasher.finish() as u32).unwrap_or(NonZeroU32::MIN))
    }
}

impl Outline {
    /// The outline of a function that nothing was copied into.
    #[must_use]
    pub fn new(func: &Function) -> Self {
        let mut digests: SecondaryMap<SigRef, Option<Digest>> = SecondaryMap::new();
        let (mut size, mut leaves_guest, mut calls) = (0, false, Vec::new());
        for block in func.layout.blocks() {
            let cold = func.layout.is_cold(block);
            for inst in func.layout.block_insts(block) {
                size += 1;
                let convention = |signature| func.dfg.signatures[signature].call_conv;
                leaves_guest |= func.dfg.call_signature(inst).is_some_and(|sig| convention(sig) != CallConv::Tail);
                let (InstructionData::Call { opcode, func_ref, .. }
                | InstructionData::TryCall { opcode, func_ref, .. }) = func.dfg.insts[inst]
                else {
                    continue;
                };
                let Some(callee) = callee(func, func_ref) else { continue };
                let signature = func.dfg.ext_funcs[func_ref].signature;
                let digest = *digests[signature].get_or_insert_with(|| Digest::of(&func.dfg.signatures[signature]));
                let copied_as = (!cold && is_replaceable(opcode)).then_some(digest);
                calls.push(DirectCall { callee, opcode, copied_as });
            }
        }
        let index = match &func.name {
            UserFuncName::User(UserExternalName { namespace: NS_FUNC, index }) => Some(*index),
            _ => None,
        };
        Self { index, size, signature: Digest::of(&func.signature), leaves_guest, calls: calls.into() }
    }
}

/// Whether a callee's body may take the place of a call.
pub(super) fn is_replaceable(opcode: Opcode) -> bool {
    matches!(opcode, Opcode::Call | Opcode::ReturnCall | Opcode::TryCall)
}

/// The function index that a reference means, if it means one.
pub(super) fn callee(func: &Function, func_ref: FuncRef) -> Option<u32> {
    let ExternalName::User(name) = func.dfg.ext_funcs[func_ref].name else { return None };
    match func.params.user_named_funcs()[name] {
        UserExternalName { namespace: NS_FUNC, index } => Some(index),
        _ => None,
    }
}
