//! `spinwise wast`: runs spec scripts and prints a line a script and a total.

use std::fmt::Write as _;

use spinwise::script::{self, Report};

use crate::args::WastArgs;
use crate::exit::{BAD_MODULE, FAILED_CHECK, Failure, say};
use crate::{files, settings};

/// Runs the command.
pub(crate) fn wast(args: &WastArgs) -> Result<(), Failure> {
    let config = settings::config(&args.translation);
    let mut total = Report::default();
    let mut out = String::new();
    for path in &args.files {
        let name = path.display();
        let text = String::from_utf8(files::read(path)?)
            .map_err(|_| Failure::new(BAD_MODULE, format!("{name}: a script is UTF-8 text")))?;
        let report = script::run(&text, &config).map_err(|e| Failure::new(BAD_MODULE, format!("{name}: {e}")))?;
        for failure in &report.failed {
            say(&format!("{name}: {failure}"));
        }
        for skip in &report.skipped {
            say(&format!("{name}: skipped: {skip}"));
        }
        // Writing to a string cannot fail.
        let _ = writeln!(out, "{name}: {}", counts(&report));
        total.add(report);
    }
    if args.files.len() > 1 {
        let _ = writeln!(out, "total: {}", counts(&total));
    }
    files::write("-".as_ref(), out.as_bytes())?;
    match total.failed.len() {
        0 => Ok(()),
        n => Err(Failure::new(FAILED_CHECK, format!("{n} failed"))),
    }
}

fn counts(report: &Report) -> String {
    format!("{} passed, {} failed, {} skipped", report.passed, report.failed.len(), report.skipped.len())
}
