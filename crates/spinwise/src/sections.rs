//! The sections of a binary module, as far as an object file carries them.

/// Section identifiers (core spec 5.5.2).
const CUSTOM: u8 = 0;
const CODE: u8 = 10;

/// A validated module without its code and custom sections; a module that cannot be walked is given as far as it could.
pub(crate) fn without_code(wasm: &[u8]) -> Vec<u8> {
    let (header, mut rest) = wasm.split_at(wasm.len().min(8));
    let mut out = header.to_vec();
    while let Some((section, after)) = split_section(rest) {
        if !matches!(section.first(), Some(&(CUSTOM | CODE))) {
            out.extend_from_slice(section);
        }
        rest = after;
    }
    out
}

/// The first section, identifier and length included, and what follows it.
fn split_section(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (mut length, mut at) = (0usize, 1usize);
    for shift in (0..35).step_by(7) {
        let byte = *bytes.get(at)?;
        at += 1;
        length |= usize::from(byte & 0x7f) << shift;
        if byte & 0x80 == 0 {
            return bytes.split_at_checked(at.checked_add(length)?);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_goes_and_data_stays() -> Result<(), wat::Error> {
        let wasm = wat::parse_str(r#"(module $m (memory 1) (func $f (nop)) (data (i32.const 0) "kept"))"#)?;
        let kept = without_code(&wasm);
        assert!(kept.len() < wasm.len());
        assert!(kept.starts_with(b"\0asm\x01\0\0\0"));
        assert!(kept.windows(4).any(|w| w == b"kept"));
        assert!(split_section(&[10, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]).is_none());
        assert!(split_section(&[10, 5, 0]).is_none());
        Ok(())
    }
}
