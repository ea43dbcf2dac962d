//! `--invoke`: arguments as typed and results as printed.

use spinwise::types::ValType;
use spinwise::{AnyRef, Val};

/// An argument of that type: integers decimal or 0x, floats decimal.
pub(crate) fn parse(text: &str, ty: ValType) -> Result<Val, String> {
    let wrong = || format!("`{text}` is not a value of type {ty}");
    match ty {
        ValType::I32 => Ok(Val::I32(i32::from_le_bytes(integer::<4>(text).ok_or_else(wrong)?))),
        ValType::I64 => Ok(Val::I64(i64::from_le_bytes(integer::<8>(text).ok_or_else(wrong)?))),
        ValType::V128 => Ok(Val::V128(u128::from_le_bytes(integer::<16>(text).ok_or_else(wrong)?))),
        ValType::F32 => text.parse().map(|v: f32| Val::F32(v.to_bits())).map_err(|_| wrong()),
        ValType::F64 => text.parse().map(|v: f64| Val::F64(v.to_bits())).map_err(|_| wrong()),
        ValType::Ref(_) => Err(format!("a parameter of type {ty} cannot be given on a command line")),
    }
}

/// The low `N` bytes of an integer that fits them, signed or unsigned.
fn integer<const N: usize>(text: &str) -> Option<[u8; N]> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, text),
    };
    let magnitude = match digits.strip_prefix("0x").or_else(|| digits.strip_prefix("0X")) {
        Some(hex) if !hex.starts_with('+') => u128::from_str_radix(hex, 16).ok()?,
        Some(_) => return None,
        None if digits.starts_with('+') => return None,
        None => digits.parse().ok()?,
    };
    let bits = N * 8;
    let limit = if negative { 1u128 << (bits - 1) } else { u128::MAX >> (128 - bits) };
    if magnitude > limit {
        return None;
    }
    let value = if negative { magnitude.wrapping_neg() } else { magnitude };
    value.to_le_bytes()[..N].try_into().ok()
}

/// A result as one line.
pub(crate) fn print(value: &Val) -> String {
    match value {
        Val::I32(v) => v.to_string(),
        Val::I64(v) => v.to_string(),
        Val::F32(bits) => f32::from_bits(*bits).to_string(),
        Val::F64(bits) => f64::from_bits(*bits).to_string(),
        Val::V128(bits) => format!("0x{bits:032x}"),
        Val::FuncRef(None) | Val::ExternRef(None) | Val::ExnRef(None) | Val::AnyRef(None) => String::from("null"),
        Val::FuncRef(Some(_)) => String::from("funcref"),
        Val::ExnRef(Some(_)) => String::from("exnref"),
        Val::ExternRef(Some(token)) => format!("externref {token}"),
        Val::AnyRef(Some(any)) => print_any(any),
        Val::Externalized(any) => format!("externref of {}", print_any(any)),
    }
}

fn print_any(any: &AnyRef) -> String {
    match any {
        AnyRef::I31(value) => format!("i31ref {value}"),
        AnyRef::Host(token) => format!("anyref {token}"),
        AnyRef::Object(object) if object.is_struct() => String::from("structref"),
        AnyRef::Object(_) => String::from("arrayref"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn integers_may_be_signed_unsigned_or_hexadecimal() {
        let i32_of = |text: &str| match parse(text, ValType::I32) {
            Ok(Val::I32(v)) => Some(v),
            _ => None,
        };
        assert_eq!(i32_of("-1"), Some(-1));
        assert_eq!(i32_of("4294967295"), Some(-1));
        assert_eq!(i32_of("0xffffffff"), Some(-1));
        assert_eq!(i32_of("-2147483648"), Some(i32::MIN));
        for wrong in ["4294967296", "-2147483649", "", "0x", "1.0", "+1", "--1", "0x+1", "a"] {
            assert_eq!(i32_of(wrong), None, "{wrong}");
        }
        assert!(matches!(parse("0xffffffffffffffffffffffffffffffff", ValType::V128), Ok(Val::V128(u128::MAX))));
        assert!(matches!(parse("18446744073709551615", ValType::I64), Ok(Val::I64(-1))));
    }

    #[test]
    fn floats_are_decimal() {
        assert!(matches!(parse("-1.5", ValType::F32), Ok(Val::F32(bits)) if bits == (-1.5f32).to_bits()));
        assert!(parse("1,5", ValType::F64).is_err());
        assert!(parse("1", ValType::FUNCREF).is_err());
    }

    #[test]
    fn printed_floats_read_back() {
        for value in [0.1f64, -0.0, 1e300, f64::INFINITY, 3.0] {
            let printed = print(&Val::F64(value.to_bits()));
            assert!(
                matches!(parse(&printed, ValType::F64), Ok(Val::F64(bits)) if bits == value.to_bits()),
                "{printed}"
            );
        }
    }
}
