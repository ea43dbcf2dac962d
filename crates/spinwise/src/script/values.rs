//! Values of a script: arguments to pass, results to compare, NaN patterns included.

use spinwise_runtime::{AnyRef, Val};
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
        WastArgCore::RefNull(heap) => match hierarchy(heap) {
            Hierarchy::Extern => Val::ExternRef(None),
            Hierarchy::Func => Val::FuncRef(None),
            Hierarchy::Exn => Val::ExnRef(None),
            Hierarchy::Any => Val::AnyRef(None),
        },
        WastArgCore::RefExtern(v) => Val::ExternRef(Some(u64::from(*v))),
        WastArgCore::RefHost(v) => Val::AnyRef(Some(AnyRef::Host(u64::from(*v)))),
    })
}

/// What a null is of.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hierarchy {
    Extern,
    Func,
    Exn,
    Any,
}

fn hierarchy(heap: &HeapType<'_>) -> Hierarchy {
    use AbstractHeapType as H;
    match heap {
        HeapType::Abstract { ty: H::Extern | H::NoExtern, .. } => Hierarchy::Extern,
        HeapType::Abstract { ty: H::Func | H::NoFunc, .. } => Hierarchy::Func,
        HeapType::Abstract { ty: H::Exn | H::NoExn, .. } => Hierarchy::Exn,
        // Scripts name defined types for functions only.
        HeapType::Concrete(_) => Hierarchy::Func,
        _ => Hierarchy::Any,
    }
}

/// Whether a null of a hierarchy is what is expected.
fn null_matches(found: Hierarchy, expected: Option<&HeapType<'_>>) -> bool {
    expected.is_none_or(|heap| hierarchy(heap) == found)
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
        (Val::FuncRef(None), WastRetCore::RefNull(heap)) => null_matches(Hierarchy::Func, heap.as_ref()),
        (Val::ExnRef(None), WastRetCore::RefNull(heap)) => null_matches(Hierarchy::Exn, heap.as_ref()),
        (Val::ExternRef(None), WastRetCore::RefNull(heap)) => null_matches(Hierarchy::Extern, heap.as_ref()),
        (Val::AnyRef(None), WastRetCore::RefNull(heap)) => null_matches(Hierarchy::Any, heap.as_ref()),
        (Val::ExternRef(Some(v)), WastRetCore::RefExtern(e)) => e.is_none_or(|e| u64::from(e) == *v),
        (Val::Externalized(_), WastRetCore::RefExtern(None)) => true,
        (Val::AnyRef(Some(any)), expected) => any_matches(any, expected),
        (Val::FuncRef(Some(_)), WastRetCore::RefFunc(None)) => true,
        (_, WastRetCore::Either(cases)) => cases.iter().any(|case| matches_core(value, case)),
        _ => false,
    }
}

fn any_matches(any: &AnyRef, expected: &WastRetCore<'_>) -> bool {
    let object = |is_struct: bool| matches!(any, AnyRef::Object(object) if object.is_struct() == is_struct);
    match expected {
        WastRetCore::RefAny => true,
        WastRetCore::RefEq => !matches!(any, AnyRef::Host(_)),
        WastRetCore::RefI31 => matches!(any, AnyRef::I31(_)),
        WastRetCore::RefStruct => object(true),
        WastRetCore::RefArray => object(false),
        WastRetCore::RefHost(e) => matches!(any, AnyRef::Host(v) if *v == u64::from(*e)),
        WastRetCore::Either(cases) => cases.iter().any(|case| any_matches(any, case)),
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
