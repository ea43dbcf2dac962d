//! Reading inputs and replacing outputs: `-` is a standard stream, and an output file is whole or not there.

use std::fs;
use std::io::{self, Read, Write};
use std::path::Path;

use crate::exit::{Failure, IO, NO_INPUT};

/// Whether a path means a standard stream.
fn is_stream(path: &Path) -> bool {
    path.as_os_str() == "-"
}

/// All bytes of an input.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    if is_stream(path) {
        let mut bytes = Vec::new();
        io::stdin()
            .lock()
            .read_to_end(&mut bytes)
            .map_err(|e| Failure::new(IO, format!("cannot read standard input: {e}")))?;
        return Ok(bytes);
    }
    fs::read(path).map_err(|error| {
        let code = match error.kind() {
            io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied | io::ErrorKind::NotADirectory => NO_INPUT,
            _ => IO,
        };
        Failure::new(code, format!("cannot read {}: {error}", path.display()))
    })
}

/// Writes an output: beside its place first, then renamed into it, so that no reader and no failure sees half a file.
pub(crate) fn write(path: &Path, bytes: &[u8]) -> Result<(), Failure> {
    let (result, name) = if is_stream(path) {
        (write_stream(bytes), "standard output".into())
    } else {
        (replace(path, bytes), path.to_string_lossy())
    };
    result.map_err(|error| Failure::new(IO, format!("cannot write {name}: {error}")))
}

fn write_stream(bytes: &[u8]) -> io::Result<()> {
    let mut out = io::stdout().lock();
    out.write_all(bytes)?;
    out.flush()
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    // A device or pipe cannot be replaced, only written.
    if fs::metadata(path).is_ok_and(|m| !m.is_file() && !m.is_dir()) {
        return fs::OpenOptions::new().write(true).open(path)?.write_all(bytes);
    }
    let folder = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let mut builder = tempfile::Builder::new();
    builder.prefix(".spinwise-");
    #[cfg(unix)]
    {
        use std::os::unix::fs::PermissionsExt;
        builder.permissions(fs::Permissions::from_mode(0o666));
    }
    // The message names the output; the temporary file beside it is nobody's business.
    let mut file = builder.tempfile_in(folder).map_err(|error| io::Error::from(error.kind()))?;
    file.write_all(bytes)?;
    file.persist(path).map_err(|e| e.error)?;
    Ok(())
}
