//! `spinwise compile`: a module to a relocatable object, or to its guarded CLIF.

use crate::args::{CompileArgs, Emit};
use crate::exit::Failure;
use crate::progress::Progress;
use crate::{files, settings};

/// Runs the command.
pub(crate) fn compile(args: &CompileArgs) -> Result<(), Failure> {
    let mut config = settings::config(&args.translation);
    config.target.clone_from(&args.target);
    config.cpu = settings::cpu(args.cpu);
    let wasm = settings::module(&args.input)?;
    let progress = Progress::new();
    let bytes = settings::with_jobs(&config, || match args.emit {
        Emit::Obj => spinwise::object(&wasm, &config, &|done, all| progress.update(done, all)),
        Emit::Clif => spinwise::translate(&wasm, &config).map(|t| spinwise::clif_text(&t).into_bytes()),
    })??;
    drop(progress);
    files::write(&args.output, &bytes)
}
