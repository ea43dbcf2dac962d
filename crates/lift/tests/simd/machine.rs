//! Lifted functions compiled for this host and called with 16-byte slots for arguments and result.

#![expect(unsafe_code, reason = "runs compiled code")]

#[cfg(all(target_arch = "x86_64", not(windows)))]
use std::arch::x86_64::__m128i;

use cranelift_codegen::ir::{AbiParam, InstBuilder, MemFlagsData, Signature, Type, UserFuncName, types};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_frontend::{FunctionBuilder, FunctionBuilderContext};
use cranelift_jit::{JITBuilder, JITModule};
use cranelift_module::{FuncId, Module, default_libcall_names};
use spinwise_lift::Lifted;
use spinwise_model::context::{Layout, MemoryEntry};
use spinwise_model::index::MemoryIndex;

use crate::case::WINDOW;

/// The most operands a case has, and its result.
const SLOTS: usize = 3;

/// What the wrapper of a function looks like to Rust.
type Entry = unsafe extern "C" fn(context: *const u128, slots: *mut u128);

/// A module in memory, with an instance context that holds nothing but the base of memory 0.
pub(crate) struct Machine {
    /// Keeps the code.
    _code: JITModule,
    entries: Vec<Entry>,
    context: Vec<u128>,
    pub(crate) memory: Box<[u8; WINDOW]>,
}

impl Machine {
    pub(crate) fn new(lifted: &Lifted, isa: OwnedTargetIsa) -> Self {
        let mut builder = JITBuilder::with_isa(isa, default_libcall_names());
        // What Cranelift calls for a rounding on a CPU that has no instruction for it.
        builder.symbols([
            ("ceilf", ceilf as *const u8),
            ("ceil", ceil as *const u8),
            ("floorf", floorf as *const u8),
            ("floor", floor as *const u8),
            ("truncf", truncf as *const u8),
            ("trunc", trunc as *const u8),
            ("nearbyintf", nearbyintf as *const u8),
            ("nearbyint", nearbyint as *const u8),
        ]);
        #[cfg(all(target_arch = "x86_64", not(windows)))]
        builder.symbol("__cranelift_x86_pshufb", pshufb as *const u8);
        let mut code = JITModule::new(builder);
        let wrappers: Vec<FuncId> = lifted.functions.iter().map(|function| define(&mut code, function)).collect();
        code.finalize_definitions().expect("everything is defined");
        let entry = |wrapper: &FuncId| {
            let address = code.get_finalized_function(*wrapper);
            // SAFETY: `define` gave the wrapper the signature of `Entry` in the host's C convention.
            unsafe { std::mem::transmute::<*const u8, Entry>(address) }
        };
        let entries = wrappers.iter().map(entry).collect();
        let mut memory = Box::new([0; WINDOW]);
        let layout = Layout::new(&lifted.module);
        let base = usize::try_from(layout.memory(MemoryIndex(0)) + MemoryEntry::BASE).expect("an offset");
        let mut bytes = vec![0u8; layout.size().next_multiple_of(16)];
        bytes[base..base + 8].copy_from_slice(&memory.as_mut_ptr().addr().to_ne_bytes());
        let context = bytes.chunks_exact(16).map(|word| u128::from_ne_bytes(word.try_into().expect("16"))).collect();
        Self { _code: code, entries, context, memory }
    }

    /// Calls a function; the result is 0 if it has none.
    pub(crate) fn call(&mut self, function: usize, args: &[u128]) -> u128 {
        let mut slots = [0; SLOTS];
        slots[..args.len()].copy_from_slice(args);
        // SAFETY: the code reads as many slots as the function has parameters and writes the first; its accesses to
        // guest memory stay in the window, by the choice of operands.
        unsafe { self.entries[function](self.context.as_ptr(), slots.as_mut_ptr()) };
        slots[0]
    }
}

/// Defines a guest function and a wrapper that calls it. Returns the wrapper.
fn define(code: &mut JITModule, function: &cranelift_codegen::ir::Function) -> FuncId {
    let guest = code.declare_anonymous_function(&function.signature).expect("a new function");
    let mut context = code.make_context();
    context.func = function.clone();
    code.define_function(guest, &mut context).unwrap_or_else(|error| panic!("{}: {error:?}", function.name));

    code.clear_context(&mut context);
    let mut signature = Signature::new(code.isa().default_call_conv());
    signature.params.extend([AbiParam::new(types::I64); 2]);
    let wrapper = code.declare_anonymous_function(&signature).expect("a new function");
    context.func.signature = signature;
    context.func.name = UserFuncName::user(1, wrapper.as_u32());
    let callee = code.declare_func_in_func(guest, &mut context.func);
    let mut builder_context = FunctionBuilderContext::new();
    let mut b = FunctionBuilder::new(&mut context.func, &mut builder_context);
    let block = b.create_block();
    b.append_block_params_for_function_params(block);
    b.switch_to_block(block);
    b.seal_block(block);
    let (vmctx, slots) = (b.block_params(block)[0], b.block_params(block)[1]);
    let offset = |slot: usize| i32::try_from(16 * slot).expect("few slots");
    let mut args = vec![vmctx];
    let params: Vec<Type> = function.signature.params[1..].iter().map(|param| param.value_type).collect();
    for (slot, ty) in params.into_iter().enumerate() {
        args.push(b.ins().load(ty, MemFlagsData::trusted(), slots, offset(slot)));
    }
    let call = b.ins().call(callee, &args);
    let zero = b.ins().iconst(types::I64, 0);
    for half in [0, 8] {
        b.ins().store(MemFlagsData::trusted(), zero, slots, half);
    }
    if let Some(result) = b.inst_results(call).first().copied() {
        b.ins().store(MemFlagsData::trusted(), result, slots, 0);
    }
    b.ins().return_(&[]);
    b.finalize(code.target_config());
    assert_eq!(function.signature.call_conv, CallConv::Tail, "a guest function");
    code.define_function(wrapper, &mut context).expect("a plain wrapper");
    wrapper
}

macro_rules! roundings {
    ($($name:ident $ty:ty = $f:path;)*) => { $(
        extern "C" fn $name(x: $ty) -> $ty {
            // Adding makes a signalling NaN quiet, as an instruction would.
            if x.is_nan() { x + x } else { $f(x) }
        }
    )* };
}

roundings! {
    ceilf f32 = f32::ceil;
    ceil f64 = f64::ceil;
    floorf f32 = f32::floor;
    floor f64 = f64::floor;
    truncf f32 = f32::trunc;
    trunc f64 = f64::trunc;
    nearbyintf f32 = f32::round_ties_even;
    nearbyint f64 = f64::round_ties_even;
}

/// What Cranelift calls for a byte shuffle on a CPU from before SSSE3.
#[cfg(all(target_arch = "x86_64", not(windows)))]
#[expect(improper_ctypes_definitions, reason = "a vector register on both sides, as Cranelift passes it")]
extern "C" fn pshufb(from: __m128i, selectors: __m128i) -> __m128i {
    let bytes = |vector: __m128i| {
        // SAFETY: both are 16 bytes of any value.
        unsafe { std::mem::transmute::<__m128i, [u8; 16]>(vector) }
    };
    let from = bytes(from);
    let moved = bytes(selectors).map(|at| if at & 0x80 != 0 { 0 } else { from[usize::from(at & 15)] });
    // SAFETY: both are 16 bytes of any value.
    unsafe { std::mem::transmute::<[u8; 16], __m128i>(moved) }
}
