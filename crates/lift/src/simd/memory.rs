//! Vector loads and stores (core spec 4.4.7): whole, widening, splatted, zero-extended, and of one lane.
//!
//! Bounds, offsets and flags are those of the scalar accesses: [`crate::memory::access`]. As there, an access is one
//! load or store instruction that carries the trap code. Cost: at most one lane instruction beside it.

use cranelift_codegen::ir::types::{I8, I8X16, I16, I16X8, I32, I32X4, I64, I64X2};
use cranelift_codegen::ir::{InstBuilder, Type, Value};
use wasmparser::{MemArg, Operator as Op};

use super::pop_as;
use crate::func::FuncCx;
use crate::memory::{Access, access};

/// Translates an operator of this family; `false` if `op` is none.
pub(super) fn translate(cx: &mut FuncCx<'_>, op: &Op<'_>) -> bool {
    match op {
        Op::V128Load { memarg } => {
            let loaded = load(cx, memarg, I8X16);
            cx.push(loaded);
        }
        Op::V128Store { memarg } => {
            // In whatever type it has: little endian throughout, so the bytes are the same.
            let vector = cx.pop();
            store(cx, memarg, vector);
        }

        Op::V128Load8x8S { memarg } => widening(cx, memarg, |cx, at| cx.b.ins().sload8x8(at.flags, at.address, at.offset)),
        Op::V128Load8x8U { memarg } => widening(cx, memarg, |cx, at| cx.b.ins().uload8x8(at.flags, at.address, at.offset)),
        Op::V128Load16x4S { memarg } => {
            widening(cx, memarg, |cx, at| cx.b.ins().sload16x4(at.flags, at.address, at.offset));
        }
        Op::V128Load16x4U { memarg } => {
            widening(cx, memarg, |cx, at| cx.b.ins().uload16x4(at.flags, at.address, at.offset));
        }
        Op::V128Load32x2S { memarg } => {
            widening(cx, memarg, |cx, at| cx.b.ins().sload32x2(at.flags, at.address, at.offset));
        }
        Op::V128Load32x2U { memarg } => {
            widening(cx, memarg, |cx, at| cx.b.ins().uload32x2(at.flags, at.address, at.offset));
        }

        Op::V128Load8Splat { memarg } => load_splat(cx, memarg, I8X16),
        Op::V128Load16Splat { memarg } => load_splat(cx, memarg, I16X8),
        Op::V128Load32Splat { memarg } => load_splat(cx, memarg, I32X4),
        Op::V128Load64Splat { memarg } => load_splat(cx, memarg, I64X2),

        Op::V128Load32Zero { memarg } => load_zero(cx, memarg, I32X4),
        Op::V128Load64Zero { memarg } => load_zero(cx, memarg, I64X2),

        Op::V128Load8Lane { memarg, lane } => load_lane(cx, memarg, I8X16, *lane),
        Op::V128Load16Lane { memarg, lane } => load_lane(cx, memarg, I16X8, *lane),
        Op::V128Load32Lane { memarg, lane } => load_lane(cx, memarg, I32X4, *lane),
        Op::V128Load64Lane { memarg, lane } => load_lane(cx, memarg, I64X2, *lane),

        Op::V128Store8Lane { memarg, lane } => store_lane(cx, memarg, I8X16, *lane),
        Op::V128Store16Lane { memarg, lane } => store_lane(cx, memarg, I16X8, *lane),
        Op::V128Store32Lane { memarg, lane } => store_lane(cx, memarg, I32X4, *lane),
        Op::V128Store64Lane { memarg, lane } => store_lane(cx, memarg, I64X2, *lane),
        _ => return false,
    }
    true
}
