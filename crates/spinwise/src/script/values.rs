//! Values of a script: arguments to pass, results to compare, NaN patterns included.

use spinwise_runtime::Val;
use wast::core::{AbstractHeapType, HeapType, NanPattern, V128Const, V128Pattern, WastArgCore, WastRetCore};
use wast::{WastArg, WastRet};

/// The bit that a quiet NaN has set, and all bits of a canonical one, by width.
const QUIET_F32: u32 = 0x7fc0_0000;
const QUIET_F64: u64 = 0x7ff8_0000_0000_0000;

/// An argument as a value, or what kind of argument we do not have.
pub(super) fn argument(arg: &WastArg<'_>) -> Result<Val, String> {
    let WastArg::Core(arg) = arg else { return Err(String::from("component values")) };
    Ok(match arg {
        WastArgCore::I32(v) => Val::I32(*v),
        WastArgCore::I64(v) => Val::I64(*v),
        WastArgCore::F32(v) => Val::F32(v.bits),
        WastArgCore::F64(v) => Val::F64(v.bits),
        WastArgCore::V128(v) => Val::V128(vector(v)),
        WastArgCore::RefNull(heap) if is_extern(heap) => Val::ExternRef(None),
        WastArgCore::RefNull(heap) if is_exn(heap) => Val::ExnRef(None),
        WastArgCore::RefNull(_) => Val::FuncRef(None),
        WastArgCore::RefExtern(v) => Val::ExternRef(Some(u64::from(*v))),
        WastArgCore::RefHost(_) => return Err(String::from("host references")),
    })
}

fn is_extern(heap: &HeapType<'_>) -> bool {
    matches!(heap, HeapType::Abstract { ty: AbstractHeapType::Extern | AbstractHeapType::NoExtern, .. })
}

fn is_exn(heap: &HeapType<'_>) -> bool {
    matches!(heap, HeapType::Abstract { ty: AbstractHeapType::Exn | AbstractHeapType::NoExn, .. })
}

fn vector(v: &V128Const) -> u128 {
    u128::from_le_bytes(v.to_le_bytes())
}

/// Whether a result is what the script expects.
pub(super) fn matches(value: &Val, expected: &WastRet<'_>) -> bool {
    let WastRet::Core(expected) = expected else { return false };
    matches_core(value, expected)
}

fn matches_core(value: &Val, expected: &WastRetCore<'_>) -> bool {
    match (value, expected) {
        (Val::I32(v), WastRetCore::I32(e)) => v == e,
        (Val::I64(v), WastRetCore::I64(e)) => v == e,
        (Val::F32(v), WastRetCore::F32(e)) => f32_matches(*v, e),
        (Val::F64(v), WastRetCore::F64(e)) => f64_matches(*v, e),
        (Val::V128(v), WastRetCore::V128(e)) => vector_matches(*v, e),
        (Val::FuncRef(None), WastRetCore::RefNull(heap)) => {
            !heap.as_ref().is_some_and(|heap| is_extern(heap) || is_exn(heap))
        }
        (Val::ExnRef(None), WastRetCore::RefNull(heap)) => heap.as_ref().is_none_or(is_exn),
        (Val::ExternRef(None), WastRetCore::RefNull(heap)) => heap.as_ref().is_none_or(is_extern),
        (Val::ExternRef(Some(v)), WastRetCore::RefExtern(e)) => e.is_none_or(|e| u64::from(e) == *v),
        (Val::FuncRef(Some(_)), WastRetCore::RefFunc(None)) => true,
        (_, WastRetCore::Either(cases)) => cases.iter().any(|case| matches_core(value, case)),
        _ => false,
    }
}

fn f32_matches(bits: u32, expected: &NanPattern<wast::token::F32>) -> bool {
    match expected {
        NanPattern::CanonicalNan => bits & 0x7fff_ffff == QUIET_F32,
        NanPattern::ArithmeticNan => bits & QUIET_F32 == QUIET_F32,
        NanPattern::Value(v) => bits == v.bits,
    }
}

fn f64_matches(bits: u64, expected: &NanPattern<wast::token::F64>) -> bool {
    match expected {
        NanPattern::CanonicalNan => bits & 0x7fff_ffff_ffff_ffff == QUIET_F64,
        NanPattern::ArithmeticNan => bits & QUIET_F64 == QUIET_F64,
        NanPattern::Value(v) => bits == v.bits,
    }
}

fn vector_matches(bits: u128, expected: &V128Pattern) -> bool {
    match expected {
        V128Pattern::I8x16(e) => bits == vector(&V128Const::I8x16(*e)),
        V128Pattern::I16x8(e) => bits == vector(&V128Const::I16x8(*e)),
        V128Pattern::I32x4(e) => bits == vector(&V128Const::I32x4(*e)),
        V128Pattern::I64x2(e) => bits == vector(&V128Const::I64x2(*e)),
        V128Pattern::F32x4(e) => {
            let bytes = bits.to_le_bytes();
            let lanes = bytes.as_chunks::<4>().0.iter().map(|lane| u32::from_le_bytes(*lane));
            lanes.zip(e).all(|(lane, e)| f32_matches(lane, e))
        }
        V128Pattern::F64x2(e) => {
            let bytes = bits.to_le_bytes();
            let lanes = bytes.as_chunks::<8>().0.iter().map(|lane| u64::from_le_bytes(*lane));
            lanes.zip(e).all(|(lane, e)| f64_matches(lane, e))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nan_patterns_are_bits_not_values() {
        let canonical = NanPattern::CanonicalNan;
        assert!(f32_matches(0x7fc0_0000, &canonical) && f32_matches(0xffc0_0000, &canonical));
        assert!(!f32_matches(0x7fc0_0001, &canonical) && !f32_matches(0x7fa0_0000, &canonical));
        let arithmetic = NanPattern::ArithmeticNan;
        assert!(f32_matches(0x7fc0_0001, &arithmetic) && !f32_matches(0x7fa0_0000, &arithmetic));
        assert!(f64_matches(0xfff8_0000_0000_0001, &NanPattern::ArithmeticNan));
        assert!(!f64_matches(0x7ff0_0000_0000_0000, &NanPattern::ArithmeticNan), "infinity is no NaN");
    }

    #[test]
    fn null_references_have_their_kind() {
        let any = WastRetCore::RefNull(None);
        assert!(matches_core(&Val::FuncRef(None), &any) && matches_core(&Val::ExternRef(None), &any));
        assert!(!matches_core(&Val::ExternRef(Some(1)), &any));
        assert!(!matches_core(&Val::I32(0), &any));
    }
}
