//! `spinwise explain`: what was guarded, and why, as text or JSON.

use crate::args::{ExplainArgs, Format};
use crate::exit::Failure;
use crate::{files, settings};

/// Runs the command.
pub(crate) fn explain(args: &ExplainArgs) -> Result<(), Failure> {
    let config = settings::config(&args.translation);
    let wasm = settings::module(&args.input)?;
    let translation = settings::with_jobs(&config, || spinwise::translate(&wasm, &config))??;
    let text = match args.format {
        Format::Text => spinwise::explain_text(&translation),
        Format::Json => format!("{}\n", spinwise::explain_json(&translation)),
    };
    files::write(&args.output, text.as_bytes())
}
