//! Names of in-memory code for Linux `perf`: a file of `START SIZE NAME` lines that it looks for by process number.
//!
//! Source: `tools/perf/Documentation/jit-interface.txt` of Linux.

use std::fmt::Write as _;
use std::fs::OpenOptions;
use std::io::{self, Write as _};
use std::path::PathBuf;

use spinwise_model::image::CodeImage;

/// Appends the functions of an image to `/tmp/perf-PID.map`; `names` are those of its index space, as
/// [`func_names`](spinwise_model::module::Module::func_names) gives them.
///
/// # Errors
/// If the file cannot be written.
pub fn perf_map(image: &CodeImage, names: &[String]) -> io::Result<PathBuf> {
    let path = PathBuf::from(format!("/tmp/perf-{}.map", std::process::id()));
    OpenOptions::new().create(true).append(true).open(&path)?.write_all(lines(image, names).as_bytes())?;
    Ok(path)
}

/// One line a range. Names come from the guest: what would break the line is replaced.
fn lines(image: &CodeImage, names: &[String]) -> String {
    let mut text = String::new();
    for range in &image.ranges {
        let name = match range.function {
            Some(func) => names.get(func.index()).map_or("[unnamed]", String::as_str),
            None => "[glue]",
        };
        let name = name.replace(char::is_control, "?");
        let _ = writeln!(text, "{:x} {:x} {name}", range.addresses.start, range.addresses.len());
    }
    text
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::sync::Arc;

    use spinwise_model::image::CodeRange;
    use spinwise_model::index::FuncIndex;

    use super::*;

    #[test]
    fn a_line_a_function_whatever_its_name() {
        let range = |addresses, function| CodeRange { addresses, function, offsets: Vec::new() };
        let image = CodeImage {
            text: 0x1000..0x3000,
            functions: vec![0x1000, 0x2000],
            host_entries: BTreeMap::new(),
            host_adapters: BTreeMap::new(),
            reference_stubs: BTreeMap::new(),
            ranges: vec![
                range(0x1000..0x1010, Some(FuncIndex(0))),
                range(0x2000..0x2020, Some(FuncIndex(1))),
                range(0x2020..0x3000, None),
            ],
            traps: Vec::new(),
            handlers: Vec::new(),
            stack_maps: Vec::new(),
            owner: Arc::new(()),
        };
        let names = ["operator new(unsigned)".to_owned(), "evil\n0 ffff main".to_owned()];
        assert_eq!(
            lines(&image, &names),
            "1000 10 operator new(unsigned)\n2000 20 evil?0 ffff main\n2020 fe0 [glue]\n"
        );
    }
}
