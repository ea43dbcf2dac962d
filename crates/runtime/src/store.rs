//! A store: one guest thread's home, with everything that runs on it.
//!
//! Invariants: a store is used by one OS thread at a time (it is `Send`, not `Sync`, and calls take it by `&mut`). Its
//! instances live as long as it does, so references between them in tables stay good; so does an instance whose start
//! failed, since it may have left references behind. Cost: see [`GuestThread`].
#![expect(unsafe_code, reason = "hands out the running thread")]

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem;
use std::sync::Arc;

use crate::error::Error;
use crate::heap::Heap;
use crate::instance;
use crate::process::Process;
use crate::thread::{GuestThread, Running};

/// One guest thread and its instances.
#[derive(Debug)]
pub struct Store {
    thread: Arc<GuestThread>,
    not_sync: PhantomData<Cell<()>>,
}

impl Store {
    /// A store for a thread of the host's own.
    ///
    /// # Errors
    /// The process's reason where it has ended; [`Error::Resource`] where it has too many threads.
    pub fn new(process: &Process) -> Result<Self, Error> {
        Self::with_thread(process.add_thread(false)?)
    }

    /// A store for a thread that the guest starts.
    pub(crate) fn numbered(process: &Process) -> Result<Self, Error> {
        Self::with_thread(process.add_thread(true)?)
    }

    #[expect(clippy::unnecessary_wraps, reason = "both constructors end in it")]
    fn with_thread(thread: Arc<GuestThread>) -> Result<Self, Error> {
        Ok(Self { thread, not_sync: PhantomData })
    }

    /// The process it belongs to.
    #[must_use]
    pub fn process(&self) -> &Process {
        self.thread.process()
    }

    /// Bytes that its garbage-collected heap has taken from the system.
    #[must_use]
    pub fn heap_bytes(&self) -> usize {
        self.heap().taken()
    }

    /// How often its heap has been collected.
    #[must_use]
    pub fn collections(&self) -> u64 {
        self.heap().collections()
    }

    /// Collects its heap now.
    ///
    /// # Errors
    /// The trap `interrupted` where the process has ended.
    pub fn collect(&mut self) -> Result<(), Error> {
        let running = self.running();
        Ok(running.own().heap.collect(running)?)
    }

    fn heap(&self) -> &Heap {
        // SAFETY: whoever has the store to itself runs its thread; a shared borrow of it is not used on another.
        unsafe { Running::new(&self.thread) }.heap()
    }

    pub(crate) fn thread(&self) -> &Arc<GuestThread> {
        &self.thread
    }

    /// Keeps an instance for as long as the store lives.
    pub(crate) fn keep(&mut self, instance: Arc<instance::Inner>) {
        self.running().own().instances.borrow_mut().push(instance);
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        let own = self.running().own();
        own.references.take();
        let instances = own.instances.take();
        own.heap.clear();
        drop(instances);
        let stacks = mem::take(&mut *self.running().own().stacks.borrow_mut());
        let process = self.thread.process().clone();
        process.stacks().put(stacks);
        process.remove_thread(&self.thread);
    }
}

/// Where guest functions can be called from: a [`Store`], or the [`crate::Caller`] inside a host function.
pub trait Context: sealed::Context {
    #[doc(hidden)]
    fn running(&mut self) -> Running<'_>;
}

mod sealed {
    /// Keeps the set closed.
    pub trait Context {}
    impl Context for super::Store {}
    impl Context for crate::host::Caller<'_> {}
}

impl Context for Store {
    fn running(&mut self) -> Running<'_> {
        // SAFETY: whoever has the store to itself runs its thread, and cannot give it away meanwhile.
        unsafe { Running::new(&self.thread) }
    }
}
