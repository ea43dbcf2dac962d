//! Which store an object belongs to: the first that uses it.
//!
//! Tables and mutable globals are plain memory for compiled code; two threads must not share one.

use std::sync::atomic::{AtomicUsize, Ordering};

use crate::error::Error;
use crate::thread::Running;

/// The store that an object belongs to, once one has used it.
#[derive(Debug, Default)]
pub(crate) struct Affinity(AtomicUsize);

impl Affinity {
    /// Claims the object for the running thread's store; answers whether it was nobody's before.
    ///
    /// # Errors
    /// [`Error::Usage`] where another store has it.
    pub(crate) fn claim(&self, running: Running<'_>, what: &str) -> Result<bool, Error> {
        let store = std::ptr::from_ref(running.thread()).addr();
        match self.0.compare_exchange(0, store, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => Ok(true),
            Err(owner) if owner == store => Ok(false),
            Err(_) => Err(Error::Usage(format!("the {what} belongs to another store"))),
        }
    }
}
