//! Scalar arithmetic: constants, comparisons, integer and float operators, conversions, and the parametric operators.
//!
//! Invariant: where CLIF's operator differs from WebAssembly's, the difference is made up here; where it does not, the two
//! are paired without a word. CLIF masks shift counts, propagates NaN through `fmin`/`fmax`, rounds `nearest` to even and
//! traps on division and conversion exactly as the core specification (section 4.3) asks.

use cranelift_codegen::ir::condcodes::{FloatCC, IntCC};
use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{InstBuilder, MemFlagsData, Type, Value, types};
use cranelift_frontend::FuncInstBuilder;
use wasmparser::Operator;

use crate::func::FuncCx;
use crate::types::val_type;

/// Lifts a scalar operator; `false` if it is not one.
pub(crate) fn translate(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    constant(cx, op)
        || parametric(cx, op)
        || comparison(cx, op)
        || integer(cx, op)
        || float(cx, op)
        || conversion(cx, op)
}

fn constant(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    use Operator as Op;
    match op {
        Op::I32Const { value } => {
            // CLIF keeps immediates of narrow types zero-extended.
            let value = cx.b.ins().iconst(types::I32, i64::from(value.cast_unsigned()));
            cx.push(value);
        }
        Op::I64Const { value } => {
            let value = cx.b.ins().iconst(types::I64, *value);
            cx.push(value);
        }
        Op::F32Const { value } => {
            let value = cx.b.ins().f32const(Ieee32::with_bits(value.bits()));
            cx.push(value);
        }
        Op::F64Const { value } => {
            let value = cx.b.ins().f64const(Ieee64::with_bits(value.bits()));
            cx.push(value);
        }
        _ => return false,
    }
    true
}

fn parametric(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    match op {
        Operator::Drop => {
            cx.pop_condition();
        }
        Operator::Select | Operator::TypedSelect { .. } => {
            let condition = cx.pop_condition();
            let no = cx.pop_canonical();
            let yes = cx.pop_canonical();
            let value = cx.b.ins().select(condition, yes, no);
            match op {
                Operator::TypedSelect { ty } => cx.push_typed(value, val_type(*ty).expect("validated type")),
                _ => cx.push(value),
            }
        }
        _ => return false,
    }
    true
}

fn comparison(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    use Operator as Op;
    match op {
        Op::I32Eqz | Op::I64Eqz => {
            let value = cx.pop_condition();
            let zero = cx.b.ins().icmp_imm_u(IntCC::Equal, value, 0);
            cx.push(zero);
        }
        Op::I32Eq | Op::I64Eq => icmp(cx, IntCC::Equal),
        Op::I32Ne | Op::I64Ne => icmp(cx, IntCC::NotEqual),
        Op::I32LtS | Op::I64LtS => icmp(cx, IntCC::SignedLessThan),
        Op::I32LtU | Op::I64LtU => icmp(cx, IntCC::UnsignedLessThan),
        Op::I32GtS | Op::I64GtS => icmp(cx, IntCC::SignedGreaterThan),
        Op::I32GtU | Op::I64GtU => icmp(cx, IntCC::UnsignedGreaterThan),
        Op::I32LeS | Op::I64LeS => icmp(cx, IntCC::SignedLessThanOrEqual),
        Op::I32LeU | Op::I64LeU => icmp(cx, IntCC::UnsignedLessThanOrEqual),
        Op::I32GeS | Op::I64GeS => icmp(cx, IntCC::SignedGreaterThanOrEqual),
        Op::I32GeU | Op::I64GeU => icmp(cx, IntCC::UnsignedGreaterThanOrEqual),
        Op::F32Eq | Op::F64Eq => fcmp(cx, FloatCC::Equal),
        Op::F32Ne | Op::F64Ne => fcmp(cx, FloatCC::NotEqual),
        Op::F32Lt | Op::F64Lt => fcmp(cx, FloatCC::LessThan),
        Op::F32Gt | Op::F64Gt => fcmp(cx, FloatCC::GreaterThan),
        Op::F32Le | Op::F64Le => fcmp(cx, FloatCC::LessThanOrEqual),
        Op::F32Ge | Op::F64Ge => fcmp(cx, FloatCC::GreaterThanOrEqual),
        _ => return false,
    }
    true
}

fn integer(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    use Operator as Op;
    match op {
        Op::I32Clz | Op::I64Clz => unary(cx, |i, a| i.clz(a)),
        Op::I32Ctz | Op::I64Ctz => unary(cx, |i, a| i.ctz(a)),
        Op::I32Popcnt | Op::I64Popcnt => unary(cx, |i, a| i.popcnt(a)),
        Op::I32Add | Op::I64Add => binary(cx, |i, a, b| i.iadd(a, b)),
        Op::I32Sub | Op::I64Sub => binary(cx, |i, a, b| i.isub(a, b)),
        Op::I32Mul | Op::I64Mul => binary(cx, |i, a, b| i.imul(a, b)),
        Op::I32DivS | Op::I64DivS => binary(cx, |i, a, b| i.sdiv(a, b)),
        Op::I32DivU | Op::I64DivU => binary(cx, |i, a, b| i.udiv(a, b)),
        Op::I32RemS | Op::I64RemS => binary(cx, |i, a, b| i.srem(a, b)),
        Op::I32RemU | Op::I64RemU => binary(cx, |i, a, b| i.urem(a, b)),
        Op::I32And | Op::I64And => binary(cx, |i, a, b| i.band(a, b)),
        Op::I32Or | Op::I64Or => binary(cx, |i, a, b| i.bor(a, b)),
        Op::I32Xor | Op::I64Xor => binary(cx, |i, a, b| i.bxor(a, b)),
        Op::I32Shl | Op::I64Shl => binary(cx, |i, a, b| i.ishl(a, b)),
        Op::I32ShrS | Op::I64ShrS => binary(cx, |i, a, b| i.sshr(a, b)),
        Op::I32ShrU | Op::I64ShrU => binary(cx, |i, a, b| i.ushr(a, b)),
        Op::I32Rotl | Op::I64Rotl => binary(cx, |i, a, b| i.rotl(a, b)),
        Op::I32Rotr | Op::I64Rotr => binary(cx, |i, a, b| i.rotr(a, b)),
        Op::I32Extend8S => extend_low(cx, types::I8, types::I32),
        Op::I32Extend16S => extend_low(cx, types::I16, types::I32),
        Op::I64Extend8S => extend_low(cx, types::I8, types::I64),
        Op::I64Extend16S => extend_low(cx, types::I16, types::I64),
        Op::I64Extend32S => extend_low(cx, types::I32, types::I64),
        _ => return false,
    }
    true
}

fn float(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    use Operator as Op;
    match op {
        Op::F32Abs | Op::F64Abs => unary(cx, |i, a| i.fabs(a)),
        Op::F32Neg | Op::F64Neg => unary(cx, |i, a| i.fneg(a)),
        Op::F32Ceil | Op::F64Ceil => unary(cx, |i, a| i.ceil(a)),
        Op::F32Floor | Op::F64Floor => unary(cx, |i, a| i.floor(a)),
        Op::F32Trunc | Op::F64Trunc => unary(cx, |i, a| i.trunc(a)),
        Op::F32Nearest | Op::F64Nearest => unary(cx, |i, a| i.nearest(a)),
        Op::F32Sqrt | Op::F64Sqrt => unary(cx, |i, a| i.sqrt(a)),
        Op::F32Add | Op::F64Add => binary(cx, |i, a, b| i.fadd(a, b)),
        Op::F32Sub | Op::F64Sub => binary(cx, |i, a, b| i.fsub(a, b)),
        Op::F32Mul | Op::F64Mul => binary(cx, |i, a, b| i.fmul(a, b)),
        Op::F32Div | Op::F64Div => binary(cx, |i, a, b| i.fdiv(a, b)),
        Op::F32Min | Op::F64Min => binary(cx, |i, a, b| i.fmin(a, b)),
        Op::F32Max | Op::F64Max => binary(cx, |i, a, b| i.fmax(a, b)),
        Op::F32Copysign | Op::F64Copysign => binary(cx, |i, a, b| i.fcopysign(a, b)),
        _ => return false,
    }
    true
}

fn conversion(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    use Operator as Op;
    use types::{F32, F64, I32, I64};
    match op {
        Op::I32WrapI64 => unary(cx, |i, a| i.ireduce(I32, a)),
        Op::I64ExtendI32S => unary(cx, |i, a| i.sextend(I64, a)),
        Op::I64ExtendI32U => {
            // A truth value is widened in one step.
            let value = cx.pop_condition();
            let value = cx.b.ins().uextend(I64, value);
            cx.push(value);
        }
        Op::I32TruncF32S | Op::I32TruncF64S => unary(cx, |i, a| i.fcvt_to_sint(I32, a)),
        Op::I32TruncF32U | Op::I32TruncF64U => unary(cx, |i, a| i.fcvt_to_uint(I32, a)),
        Op::I64TruncF32S | Op::I64TruncF64S => unary(cx, |i, a| i.fcvt_to_sint(I64, a)),
        Op::I64TruncF32U | Op::I64TruncF64U => unary(cx, |i, a| i.fcvt_to_uint(I64, a)),
        Op::I32TruncSatF32S | Op::I32TruncSatF64S => unary(cx, |i, a| i.fcvt_to_sint_sat(I32, a)),
        Op::I32TruncSatF32U | Op::I32TruncSatF64U => unary(cx, |i, a| i.fcvt_to_uint_sat(I32, a)),
        Op::I64TruncSatF32S | Op::I64TruncSatF64S => unary(cx, |i, a| i.fcvt_to_sint_sat(I64, a)),
        Op::I64TruncSatF32U | Op::I64TruncSatF64U => unary(cx, |i, a| i.fcvt_to_uint_sat(I64, a)),
        Op::F32ConvertI32S | Op::F32ConvertI64S => unary(cx, |i, a| i.fcvt_from_sint(F32, a)),
        Op::F32ConvertI32U | Op::F32ConvertI64U => unary(cx, |i, a| i.fcvt_from_uint(F32, a)),
        Op::F64ConvertI32S | Op::F64ConvertI64S => unary(cx, |i, a| i.fcvt_from_sint(F64, a)),
        Op::F64ConvertI32U | Op::F64ConvertI64U => unary(cx, |i, a| i.fcvt_from_uint(F64, a)),
        Op::F32DemoteF64 => unary(cx, |i, a| i.fdemote(F32, a)),
        Op::F64PromoteF32 => unary(cx, |i, a| i.fpromote(F64, a)),
        Op::I32ReinterpretF32 => reinterpret(cx, I32),
        Op::I64ReinterpretF64 => reinterpret(cx, I64),
        Op::F32ReinterpretI32 => reinterpret(cx, F32),
        Op::F64ReinterpretI64 => reinterpret(cx, F64),
        _ => return false,
    }
    true
}

fn unary(cx: &mut FuncCx<'_, '_>, build: impl FnOnce(FuncInstBuilder<'_, '_>, Value) -> Value) {
    let a = cx.pop();
    let value = build(cx.b.ins(), a);
    cx.push(value);
}

fn binary(cx: &mut FuncCx<'_, '_>, build: impl FnOnce(FuncInstBuilder<'_, '_>, Value, Value) -> Value) {
    let (a, b) = cx.pop2();
    let value = build(cx.b.ins(), a, b);
    cx.push(value);
}

fn icmp(cx: &mut FuncCx<'_, '_>, condition: IntCC) {
    binary(cx, |i, a, b| i.icmp(condition, a, b));
}

fn fcmp(cx: &mut FuncCx<'_, '_>, condition: FloatCC) {
    binary(cx, |i, a, b| i.fcmp(condition, a, b));
}

/// Sign-extends the low bits.
fn extend_low(cx: &mut FuncCx<'_, '_>, low: Type, ty: Type) {
    let value = cx.pop();
    let value = cx.b.ins().ireduce(low, value);
    let value = cx.b.ins().sextend(ty, value);
    cx.push(value);
}

fn reinterpret(cx: &mut FuncCx<'_, '_>, ty: Type) {
    unary(cx, |i, a| i.bitcast(ty, MemFlagsData::new(), a));
}
