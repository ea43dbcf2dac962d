//! The descriptor table: small numbers to shared descriptors, the lowest free number first.
//!
//! Entries are `Arc`s, so a call in progress keeps its descriptor while another thread closes it, and the lock is never
//! held while a call blocks. Finding, adding and removing cost O(log n).

use std::collections::BTreeSet;
use std::sync::Arc;

use parking_lot::RwLock;

use super::descriptor::Descriptor;
use super::errno::{Errno, Result};

/// Descriptors that a process may have open.
const LIMIT: usize = 1 << 16;

/// The open descriptors of a process.
#[derive(Debug, Default)]
pub(super) struct Table(RwLock<Slots>);

#[derive(Debug, Default)]
struct Slots {
    entries: Vec<Option<Arc<Descriptor>>>,
    /// The numbers below `entries.len()` that are free.
    free: BTreeSet<u32>,
}

impl Slots {
    /// The entry of an open descriptor.
    fn open(&mut self, fd: u32) -> Result<&mut Option<Arc<Descriptor>>> {
        self.entries.get_mut(fd as usize).filter(|entry| entry.is_some()).ok_or(Errno::BadF)
    }
}

impl Table {
    /// A table of these, from 0 up; `None` is a closed number.
    pub(super) fn new(entries: Vec<Option<Arc<Descriptor>>>) -> Self {
        let free = (0..).zip(&entries).filter(|(_, entry)| entry.is_none()).map(|(fd, _)| fd).collect();
        Self(RwLock::new(Slots { entries, free }))
    }

    /// An open descriptor.
    pub(super) fn get(&self, fd: u32) -> Result<Arc<Descriptor>> {
        self.0.read().entries.get(fd as usize).and_then(Clone::clone).ok_or(Errno::BadF)
    }

    /// Gives a descriptor the lowest free number.
    pub(super) fn insert(&self, descriptor: Descriptor) -> Result<u32> {
        let entry = Some(Arc::new(descriptor));
        let slots = &mut *self.0.write();
        if let Some(fd) = slots.free.pop_first() {
            slots.entries[fd as usize] = entry;
            return Ok(fd);
        }
        let fd = slots.entries.len();
        if fd >= LIMIT {
            return Err(Errno::MFile);
        }
        slots.entries.push(entry);
        u32::try_from(fd).map_err(|_| Errno::MFile)
    }

    /// Closes a number. The descriptor itself is dropped here, or when the last call that uses it ends.
    pub(super) fn remove(&self, fd: u32) -> Result<()> {
        let closed = {
            let slots = &mut *self.0.write();
            let closed = slots.open(fd)?.take();
            slots.free.insert(fd);
            closed
        };
        drop(closed);
        Ok(())
    }

    /// Moves `from` onto `to`, both open; what `to` was is closed.
    pub(super) fn renumber(&self, from: u32, to: u32) -> Result<()> {
        let closed = {
            let slots = &mut *self.0.write();
            slots.open(to)?;
            let source = slots.open(from)?;
            if from == to {
                return Ok(());
            }
            let moved = source.take();
            slots.free.insert(from);
            std::mem::replace(slots.open(to)?, moved)
        };
        drop(closed);
        Ok(())
    }
}
