//! Export names as linker symbols, and back.
//!
//! `PREFIX_EEXPORT`, both halves encoded so that the whole is a C identifier: ASCII letters and digits stand for
//! themselves, `_` is `__`, and any other byte is `_` with two lower-case hex digits. Since neither `_` nor a hex digit
//! is `E`, the first `_E` outside an escape is the separator, whatever the names hold. A module's prefix keeps two
//! modules, or a guest function called `main`, apart in one program.

use std::fmt::Write as _;

/// The symbol of an export of the module with that prefix.
#[must_use]
pub fn mangle(prefix: &str, export: &str) -> String {
    format!("{}_E{}", encode(prefix), encode(export))
}

/// The prefix and export that a symbol stands for; `None` if it is not a mangled export.
#[must_use]
pub fn demangle(symbol: &str) -> Option<(String, String)> {
    let bytes = symbol.as_bytes();
    let mut at = 0;
    let separator = loop {
        match (bytes.get(at)?, bytes.get(at + 1)) {
            (b'_', Some(b'E')) => break at,
            (b'_', Some(b'_')) => at += 2,
            (b'_', _) => at += 3,
            _ => at += 1,
        }
    };
    Some((decode(&bytes[..separator])?, decode(&bytes[separator + 2..])?))
}

/// The symbol of a table that travels with the module of that prefix, `PREFIX_TNAME`.
#[must_use]
pub fn table(prefix: &str, name: &str) -> String {
    format!("{}_T{}", encode(prefix), encode(name))
}

/// Encodes a name; a digit at the start is escaped, so that the symbol is an identifier.
fn encode(name: &str) -> String {
    let mut symbol = String::with_capacity(name.len());
    for (at, byte) in name.bytes().enumerate() {
        match byte {
            b'_' => symbol.push_str("__"),
            b'0'..=b'9' if at > 0 => symbol.push(byte.into()),
            b'a'..=b'z' | b'A'..=b'Z' => symbol.push(byte.into()),
            other => {
                let _ = write!(symbol, "_{other:02x}");
            }
        }
    }
    symbol
}

fn decode(symbol: &[u8]) -> Option<String> {
    let mut name = Vec::with_capacity(symbol.len());
    let mut rest = symbol;
    while let [first, after @ ..] = rest {
        rest = match (first, after) {
            (b'_', [b'_', after @ ..]) => {
                name.push(b'_');
                after
            }
            (b'_', [high, low, after @ ..]) => {
                name.push(hex(*high)? << 4 | hex(*low)?);
                after
            }
            (b'_', _) => return None,
            (plain, after) if plain.is_ascii_alphanumeric() => {
                name.push(*plain);
                after
            }
            _ => return None,
        };
    }
    let name = String::from_utf8(name).ok()?;
    // Only what `encode` makes counts: every symbol has one reading, every name one symbol.
    (encode(&name).as_bytes() == symbol).then_some(name)
}

fn hex(digit: u8) -> Option<u8> {
    match digit {
        b'0'..=b'9' => Some(digit - b'0'),
        b'a'..=b'f' => Some(digit - b'a' + 10),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn symbols_are_identifiers_and_come_back() {
        let names = [
            "",
            "main",
            "_start",
            "wasi:cli/run@0.2.0#run",
            "E",
            "_E",
            "a_Eb",
            "7zip",
            "naïve 🦀",
            "__",
            "a.b-c",
            "_5f",
        ];
        for prefix in names {
            for export in names {
                let symbol = mangle(prefix, export);
                assert!(symbol.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_'), "{symbol}");
                assert!(!symbol.starts_with(|first: char| first.is_ascii_digit()), "{symbol}");
                assert_eq!(demangle(&symbol), Some((prefix.to_owned(), export.to_owned())), "{symbol}");
            }
        }
        assert_eq!(mangle("team", "_start"), "team_E__start");
    }

    #[test]
    fn other_symbols_do_not_demangle() {
        for symbol in ["", "main", "a_", "a_E_", "a_E_5F", "a_Eb_", "a_E.b", "a_E_41", "é_Ea"] {
            assert_eq!(demangle(symbol), None, "{symbol}");
        }
    }
}
