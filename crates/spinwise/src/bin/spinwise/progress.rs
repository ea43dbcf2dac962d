//! A progress bar on a terminal, for a module that takes more than a second.

use std::io::{IsTerminal, stderr};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressStyle};

/// How long a translation may take before it shows itself.
const PATIENCE: Duration = Duration::from_secs(1);

/// Shows how many functions are done, if it takes long and somebody can see it.
#[derive(Debug)]
pub(crate) struct Progress {
    start: Instant,
    bar: Option<Mutex<Option<ProgressBar>>>,
}

impl Progress {
    /// A bar that has not shown itself yet.
    pub(crate) fn new() -> Self {
        Self { start: Instant::now(), bar: stderr().is_terminal().then(Mutex::default) }
    }

    /// Notes that `done` of `all` functions are compiled. Called from any thread.
    pub(crate) fn update(&self, done: usize, all: usize) {
        let Some(bar) = &self.bar else { return };
        if self.start.elapsed() < PATIENCE {
            return;
        }
        let Ok(mut bar) = bar.try_lock() else { return };
        bar.get_or_insert_with(|| new_bar(all)).set_position(done as u64);
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = self.bar.as_ref().and_then(|bar| bar.lock().ok()?.take()) {
            bar.finish_and_clear();
        }
    }
}

fn new_bar(all: usize) -> ProgressBar {
    let style = ProgressStyle::with_template("compiling {bar:40} {pos}/{len} functions, {eta} left")
        .unwrap_or_else(|_| ProgressStyle::default_bar());
    ProgressBar::new(all as u64).with_style(style)
}
