//! Input bytes: a binary module as it is, a text module in its binary form.

use crate::error::Error;

/// Every binary module begins with this (core spec 5.5.16).
const MAGIC: &[u8] = b"\0asm";

/// The binary form of a module given as binary or as text.
///
/// Text keeps its identifiers as the name section of the result, without `$`.
///
/// # Errors
/// If the input is neither binary nor well-formed text.
pub fn binary_form(bytes: Vec<u8>) -> Result<Vec<u8>, Error> {
    if bytes.starts_with(MAGIC) || MAGIC.starts_with(&bytes) || bytes.first() == Some(&0) {
        return Ok(bytes);
    }
    let Ok(text) = str::from_utf8(&bytes) else {
        return Err(Error::Text(String::from(
            "the input is neither a binary module (it does not begin with \\0asm) nor UTF-8 text",
        )));
    };
    wat::parse_str(text).map_err(|error| Error::Text(one_line(&error.to_string())))
}

/// The parser draws a picture of the place over several lines; messages have one line, so say line and column.
pub(crate) fn one_line(message: &str) -> String {
    let mut parts = message.lines().map(str::trim).filter(|line| !line.is_empty());
    let what = parts.next().unwrap_or("unknown error");
    let place = parts.next().and_then(|line| line.strip_prefix("--> "));
    place.map_or_else(|| what.to_owned(), |place| format!("{what} ({})", place.replace("<anon>:", "line:column ")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn binary_passes_through() -> Result<(), Error> {
        for bytes in [&b"\0asm\x01\0\0\0"[..], b"\0as", b"", b"\0xyz"] {
            assert_eq!(binary_form(bytes.to_vec())?, bytes);
        }
        Ok(())
    }

    #[test]
    fn text_keeps_its_identifiers() -> Result<(), Error> {
        let wasm = binary_form(b"(module (func $spin))".to_vec())?;
        assert!(wasm.windows(4).any(|w| w == b"spin"));
        Ok(())
    }

    #[test]
    fn an_error_is_one_line_with_its_place() {
        let error = binary_form(b"(module\n  (func $f i32.nonsense))".to_vec()).unwrap_err().to_string();
        assert_eq!(error.lines().count(), 1);
        assert!(error.contains("line:column 2:"), "{error}");
        let error = binary_form(vec![0xff, 0xfe]).unwrap_err().to_string();
        assert!(error.contains("UTF-8"), "{error}");
    }
}
