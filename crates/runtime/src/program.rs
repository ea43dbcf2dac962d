//! Translated modules, and where their code is: the table in which the signal handler looks up an address.
//!
//! Invariant: a handler may read the table at any time, without a lock: it counts itself in, loads the pointer, and counts
//! itself out. A writer publishes a new table, waits until nobody is counted in, and frees the old one. Whoever is
//! counted in before the exchange keeps the writer waiting; whoever comes later sees the new table (all SeqCst).
//! Cost: a look-up is a scan over the programs of the process and a binary search.
#![expect(unsafe_code, reason = "a table shared with signal handlers")]

use std::fmt;
use std::hint;
use std::ops::Range;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering};

use parking_lot::Mutex;
use spinwise_model::image::CodeImage;
use spinwise_model::module::Module;

use crate::signal;
use crate::types::Types;

/// A module and its code: immutable, shared by all threads that run it.
pub struct Program {
    /// What the module declares.
    pub module: Arc<Module>,
    /// Its code.
    pub image: Arc<CodeImage>,
    /// Its types.
    pub(crate) types: Types,
}

impl Program {
    /// Makes code known to the runtime, so that its traps are recognised, for as long as the program lives.
    #[must_use]
    pub fn new(module: Arc<Module>, image: Arc<CodeImage>) -> Arc<Self> {
        signal::install();
        let types = Types::new(&module);
        let program = Arc::new(Self { module, image, types });
        change(|entries| {
            entries.push(Entry { text: program.image.text.clone(), program: Arc::as_ptr(&program) });
        });
        program
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let this = ptr::from_ref(self);
        change(|entries| entries.retain(|entry| entry.program != this));
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Program").field("name", &self.module.name).field("image", &self.image).finish_non_exhaustive()
    }
}

#[derive(Clone)]
struct Entry {
    text: Range<usize>,
    program: *const Program,
}

type Entries = Vec<Entry>;

static TABLE: AtomicPtr<Entries> = AtomicPtr::new(ptr::null_mut());
static READERS: AtomicUsize = AtomicUsize::new(0);
static WRITERS: Mutex<()> = Mutex::new(());

/// Publishes a changed copy of the table.
fn change(change: impl FnOnce(&mut Entries)) {
    let _one_at_a_time = WRITERS.lock();
    let old = TABLE.load(Ordering::SeqCst);
    // SAFETY: null, or a table published below and not freed yet: only writers free, one at a time.
    let mut entries = unsafe { old.as_ref() }.cloned().unwrap_or_default();
    change(&mut entries);
    TABLE.store(Box::into_raw(Box::new(entries)), Ordering::SeqCst);
    while READERS.load(Ordering::SeqCst) != 0 {
        hint::spin_loop();
    }
    if !old.is_null() {
        // SAFETY: made by `Box::into_raw`, not published any more, and nobody who may have seen it is still reading.
        drop(unsafe { Box::from_raw(old) });
    }
}

/// Looks up the program whose code holds an address. Allocates nothing and takes no lock: for signal handlers too.
pub(crate) fn with_program_at<T>(address: usize, look: impl FnOnce(&Program) -> T) -> Option<T> {
    let _reading = Reading::begin();
    let table = TABLE.load(Ordering::SeqCst);
    // SAFETY: null, or a table that writers do not free while this reader is counted.
    let entries = unsafe { table.as_ref() };
    // A program leaves the table, and waits for readers, before it is gone.
    // SAFETY: so a program in the table is alive.
    let mut programs =
        entries.into_iter().flatten().filter(|e| e.text.contains(&address)).map(|e| unsafe { &*e.program });
    programs.find(|program| program.image.range_at(address).is_some()).map(look)
}

/// Counts a reader in, and out when dropped.
struct Reading;

impl Reading {
    fn begin() -> Self {
        READERS.fetch_add(1, Ordering::SeqCst);
        Self
    }
}

impl Drop for Reading {
    fn drop(&mut self) {
        READERS.fetch_sub(1, Ordering::SeqCst);
    }
}
