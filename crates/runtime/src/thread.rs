//! One guest thread: its context with compiled code, what others may do to it, and what is its own.
//!
//! Invariants: the [`ThreadContext`] lies at offset 0, where compiled code finds it. `own` is touched only through
//! [`Running`], which exists only on the OS thread that runs the guest thread now. Everything else is for anyone.
//! Cost: a page or so a thread, plus its stacks.
#![expect(unsafe_code, reason = "state that only the running thread may touch")]

use std::cell::{Cell, RefCell};
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicI32, AtomicU32, AtomicU64, Ordering};

use parking_lot::Mutex;
use spinwise_model::budget;
use spinwise_model::context::ThreadContext;
use spinwise_model::trap::TrapCode;
use spinwise_team::{Crowd, Deadline, FutexParker, Member, Parker, Settings, SpinBudget, Ticket, Waiter};

use crate::backtrace::Backtrace;
use crate::error::Error;
use crate::heap::roots::Exit;
use crate::heap::{self, Heap};
use crate::instance::Inner as Instance;
use crate::number::to_usize;
use crate::poll::Pace;
use crate::process::Process;
use crate::reference::References;
use crate::sample::Sample;
use crate::stack::GuestStack;

/// One guest thread.
#[repr(C)]
pub(crate) struct GuestThread {
    context: ThreadContext,
    /// How many entries from the host are active. Written by the thread, read by whoever ends the process.
    entries: AtomicU32,
    /// 0 for a host's own thread, else its wasi-threads identifier.
    id: u32,
    process: Process,
    parker: Arc<GuestParker>,
    /// What it waits on in `memory.atomic.wait`.
    ticket: Mutex<Option<Arc<Ticket>>>,
    sample: Sample,
    own: Own,
}

// SAFETY: `own` is reached only through `Running`, on one OS thread at a time; the rest is made for sharing.
unsafe impl Sync for GuestThread {}
// SAFETY: nothing in it is bound to an OS thread; a store moves between threads only between calls.
unsafe impl Send for GuestThread {}

/// What only the thread itself touches.
pub(crate) struct Own {
    /// Why the trap [`TrapCode::Pending`] is about to be raised.
    pub(crate) pending: Cell<Option<Error>>,
    /// Waits with a spin budget, and without one: the latter while threads outnumber CPUs.
    keen: RefCell<Waiter>,
    meek: RefCell<Waiter>,
    pub(crate) pace: Pace,
    pub(crate) stacks: RefCell<Vec<GuestStack>>,
    pub(crate) backtrace: Backtrace,
    pub(crate) references: RefCell<References>,
    pub(crate) heap: Heap,
    /// The store's instances, which live as long as it does.
    pub(crate) instances: RefCell<Vec<Arc<Instance>>>,
    /// Where outer entries called the host functions that entered again, outermost first.
    pub(crate) exits: RefCell<Vec<Exit>>,
}

impl GuestThread {
    pub(crate) fn new(process: Process, id: u32, settings: &Settings, heap: heap::Settings) -> Self {
        let parker = Arc::new(GuestParker::new(Arc::clone(process.crowd())));
        let waiter = |budget| RefCell::new(Waiter::new(Arc::<GuestParker>::clone(&parker), budget));
        Self {
            context: ThreadContext {
                budget: AtomicI32::new(budget::FULL),
                interrupted: AtomicU32::new(0),
                stack_limit: AtomicU64::new(0),
                caller: AtomicU64::new(0),
                exit_frame: AtomicU64::new(0),
                exit_address: AtomicU64::new(0),
            },
            entries: AtomicU32::new(0),
            id,
            process,
            ticket: Mutex::new(None),
            sample: Sample::default(),
            own: Own {
                pending: Cell::new(None),
                keen: waiter(settings.budget()),
                meek: waiter(SpinBudget::passive()),
                pace: Pace::default(),
                stacks: RefCell::default(),
                backtrace: Backtrace::default(),
                references: RefCell::default(),
                heap: Heap::new(heap),
                instances: RefCell::default(),
                exits: RefCell::default(),
            },
            parker,
        }
    }

    pub(crate) fn id(&self) -> u32 {
        self.id
    }

    pub(crate) fn process(&self) -> &Process {
        &self.process
    }

    pub(crate) fn sample(&self) -> &Sample {
        &self.sample
    }

    pub(crate) fn context(&self) -> &ThreadContext {
        &self.context
    }

    /// Whether the process has been ended.
    pub(crate) fn interrupted(&self) -> bool {
        // Whoever ends the process wakes sleepers before it has told every thread: what woke must not go on meanwhile.
        self.context.interrupted.load(Ordering::Acquire) != 0 || self.process.has_ended()
    }

    /// Whether guest code, or a host function that it called, is running.
    pub(crate) fn is_inside(&self) -> bool {
        self.entries.load(Ordering::SeqCst) != 0
    }

    /// Calls the thread to its next poll, where it will find that it is interrupted, and ends its wait. To be repeated
    /// until it has arrived: its own store of the budget may overwrite this one.
    pub(crate) fn interrupt(&self) {
        // Release: what the ender wrote (the reason) is visible to whoever sees the flag.
        self.context.interrupted.store(1, Ordering::Release);
        self.context.budget.store(-1, Ordering::Relaxed);
        // Under the lock, so that a thread that registers its ticket later sees the flag.
        if let Some(ticket) = self.ticket.lock().as_ref() {
            ticket.poison();
        }
        self.parker.unpark();
    }

    /// Counts an entry. The answer is the number before.
    pub(crate) fn enter(&self) -> u32 {
        // SeqCst: either this thread sees that the process has ended, or the ender sees this entry.
        self.entries.fetch_add(1, Ordering::SeqCst)
    }

    /// Takes an entry back.
    pub(crate) fn leave(&self) {
        self.entries.fetch_sub(1, Ordering::Release);
    }
}

impl fmt::Debug for GuestThread {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GuestThread").field("id", &self.id).field("inside", &self.is_inside()).finish_non_exhaustive()
    }
}

/// A guest thread on the OS thread that runs it: the key to what is its own.
#[derive(Clone, Copy, Debug)]
pub struct Running<'a> {
    thread: &'a GuestThread,
    here: PhantomData<*const ()>,
}

impl<'a> Running<'a> {
    /// # Safety
    /// The calling OS thread runs this guest thread for all of `'a`: it owns its store, or is inside a call of it.
    pub(crate) unsafe fn new(thread: &'a GuestThread) -> Self {
        Self { thread, here: PhantomData }
    }

    pub(crate) fn thread(self) -> &'a GuestThread {
        self.thread
    }

    pub(crate) fn own(self) -> &'a Own {
        &self.thread.own
    }

    /// A handle to the thread.
    pub(crate) fn share(self) -> Arc<GuestThread> {
        let thread = std::ptr::from_ref(self.thread);
        // SAFETY: every guest thread is in an `Arc` (`Process::add_thread`), which `self` keeps alive.
        unsafe { Arc::increment_strong_count(thread) };
        // SAFETY: the count was raised for this handle.
        unsafe { Arc::from_raw(thread) }
    }

    /// Where compiled code of the innermost entry called what is running now.
    pub(crate) fn exit(self) -> Exit {
        let ThreadContext { exit_frame, exit_address, .. } = self.thread.context();
        let load = |word: &AtomicU64| to_usize(word.load(Ordering::Relaxed));
        Exit { frame: load(exit_frame), address: load(exit_address) }
    }

    /// Notes it, or that there is none.
    pub(crate) fn set_exit(self, exit: Exit) {
        let ThreadContext { exit_frame, exit_address, .. } = self.thread.context();
        exit_frame.store(exit.frame as u64, Ordering::Relaxed);
        exit_address.store(exit.address as u64, Ordering::Relaxed);
    }

    /// Its heap.
    pub(crate) fn heap(self) -> &'a Heap {
        &self.own().heap
    }

    /// Leaves the reason for the trap that compiled code is about to raise.
    pub(crate) fn set_pending(self, error: Error) {
        self.own().pending.set(Some(error));
    }

    /// Waits on a ticket that others can reach already; ended early if the process ends.
    pub(crate) fn wait(self, ticket: &Arc<Ticket>, deadline: Option<Deadline>) -> spinwise_team::Outcome {
        *self.thread.ticket.lock() = Some(Arc::clone(ticket));
        // After the registration: `interrupt` sets the flag before it looks for a ticket, under the same lock.
        if self.thread.interrupted() {
            ticket.poison();
        }
        let outcome = self.with_waiter(|waiter| ticket.wait(waiter, deadline));
        *self.thread.ticket.lock() = None;
        self.own().pace.resumed();
        outcome
    }

    /// Sleeps until the deadline (`None`: for ever) or until the process ends; answers whether it did.
    pub(crate) fn sleep(self, deadline: Option<Deadline>) -> bool {
        let slept = self.with_waiter(|waiter| self.thread.process.wait_for_end(waiter, deadline));
        self.own().pace.resumed();
        slept
    }

    /// A short sleep as part of a poll: any wake-up ends it.
    pub(crate) fn doze(self, deadline: Deadline) {
        self.thread.parker.park(Some(deadline));
    }

    fn with_waiter<T>(self, wait: impl FnOnce(&mut Waiter) -> T) -> T {
        let own = self.own();
        let waiter = if self.thread.process.crowd().is_over() { &own.meek } else { &own.keen };
        wait(&mut waiter.borrow_mut())
    }

    /// Counts this thread among those that want a CPU.
    pub(crate) fn join_crowd(self) {
        self.thread.parker.set_running(true);
    }

    /// The opposite.
    pub(crate) fn leave_crowd(self) {
        self.thread.parker.set_running(false);
    }

    /// The status that makes compiled code trap.
    pub(crate) fn fail(self, error: impl Into<Error>) -> u32 {
        self.set_pending(error.into());
        1
    }

    /// Fails with [`TrapCode::Interrupted`] once the process has been ended.
    pub(crate) fn check(self) -> Result<(), TrapCode> {
        if self.thread.interrupted() { Err(TrapCode::Interrupted) } else { Ok(()) }
    }
}

/// Parks a guest thread, which does not want a CPU meanwhile.
#[derive(Debug)]
struct GuestParker {
    futex: FutexParker,
    crowd: Arc<Crowd>,
    /// Its place in the crowd while it runs. Only the thread itself changes it.
    member: Mutex<Option<Member>>,
}

impl GuestParker {
    fn new(crowd: Arc<Crowd>) -> Self {
        Self { futex: FutexParker::new(), crowd, member: Mutex::new(None) }
    }

    fn set_running(&self, running: bool) -> bool {
        let mut member = self.member.lock();
        let before = member.is_some();
        if running != before {
            *member = running.then(|| self.crowd.join());
        }
        before
    }
}

impl Parker for GuestParker {
    fn park(&self, deadline: Option<Deadline>) {
        let was_running = self.set_running(false);
        self.futex.park(deadline);
        self.set_running(was_running);
    }

    fn unpark(&self) {
        self.futex.unpark();
    }

    fn may_spin(&self) -> bool {
        true
    }
}
