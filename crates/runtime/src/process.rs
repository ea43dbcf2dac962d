//! A process: guest threads that end together, and how they end.
//!
//! Invariants: the first reason wins and never changes. Once there is one, no thread enters guest code, and each thread
//! inside is called to a poll again and again until it has left. `README.md` has the handshake and its memory orders.
//! Cost: an end starts one helper thread, for as long as some guest thread has not arrived.

use std::fmt;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, LazyLock};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use rustix::event::{EventfdFlags, eventfd};
use spinwise_model::trap::TrapCode;
use spinwise_team::{AllowedCpus, Crowd, Deadline, Epoch, Outcome, Overrides, Settings, Waiter};

use crate::error::{Error, Frame, Trap};
use crate::heap;
use crate::instance::Instance;
use crate::stack::StackPool;
use crate::store::Store;
use crate::thread::GuestThread;
use crate::tid::Tids;

/// How a process runs its threads. `None` means: as the environment says, else the default.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// How waits spin.
    pub wait: Overrides,
    /// CPUs to reckon with, instead of what the system allows.
    pub cpus: Option<u32>,
    /// Threads that the guest may have at once, the first one included.
    pub max_threads: Option<u32>,
    /// Bytes that each thread's garbage-collected heap may take.
    pub max_heap: Option<usize>,
    /// Whether each allocation on a heap collects first, which is slow and finds what a collector forgets.
    pub collect_always: Option<bool>,
}

/// Threads that a guest may have where nobody says otherwise.
const MAX_THREADS: u32 = 4096;

/// What the environment says of [`Options::collect_always`].
const COLLECT_ALWAYS: &str = "SPINWISE_COLLECT_ALWAYS";

fn collect_always() -> Result<bool, Error> {
    match std::env::var_os(COLLECT_ALWAYS) {
        None => Ok(false),
        Some(value) if value == "0" => Ok(false),
        Some(value) if value == "1" => Ok(true),
        Some(value) => Err(Error::Usage(format!("{COLLECT_ALWAYS} is {value:?}: legal values are 0 and 1"))),
    }
}

/// A process; clones are the same one.
#[derive(Clone)]
pub struct Process(Arc<Inner>);

struct Inner {
    settings: Settings,
    crowd: Arc<Crowd>,
    max_threads: u32,
    heap: heap::Settings,
    /// Set once, after the reason.
    ended: AtomicBool,
    /// Posted once, with `ended`: what sleeping threads wait for.
    end: Epoch,
    /// Readable once the process has ended: what blocking descriptors are polled with.
    end_descriptor: OwnedFd,
    stacks: StackPool,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    reason: Option<Error>,
    /// Every guest thread that has a store.
    threads: Vec<Arc<GuestThread>>,
    /// OS threads started here and not joined yet.
    started: Vec<JoinHandle<()>>,
    tids: Tids,
    /// Where threads were when the end reached them.
    interruptions: Vec<Arc<Trap>>,
}

/// A thread that did not come to a poll.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Straggler {
    /// The guest thread: 0 for a host's own, else its identifier.
    pub thread: u32,
    /// The guest function that it was in; `None` where it was in a host function.
    pub frame: Option<Frame>,
}

/// Threads of all processes compete for the same CPUs.
static CROWD: LazyLock<Arc<Crowd>> = LazyLock::new(|| Arc::new(Crowd::new(AllowedCpus::read())));

impl Process {
    /// A process without threads.
    ///
    /// # Errors
    /// [`Error::Usage`] where an environment variable has no legal value; [`Error::Resource`] where the system gives no
    /// descriptor.
    pub fn new(options: &Options) -> Result<Self, Error> {
        let settings = Settings::from_env(options.wait).map_err(|error| Error::Usage(error.to_string()))?;
        let crowd = match options.cpus {
            Some(cpus) => Arc::new(Crowd::new(AllowedCpus::fixed(cpus))),
            None => Arc::clone(&CROWD),
        };
        let end_descriptor = eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)
            .map_err(|error| Error::Resource(format!("no event descriptor: {error}")))?;
        Ok(Self(Arc::new(Inner {
            settings,
            crowd,
            max_threads: options.max_threads.unwrap_or(MAX_THREADS),
            heap: heap::Settings {
                limit: options.max_heap.unwrap_or(heap::LIMIT),
                always: match options.collect_always {
                    Some(always) => always,
                    None => collect_always()?,
                },
            },
            ended: AtomicBool::new(false),
            end: Epoch::new(),
            end_descriptor,
            stacks: StackPool::default(),
            state: Mutex::default(),
        })))
    }

    /// Ends all its threads, for this reason unless there was one before; answers whether it is this one.
    ///
    /// Does not wait for them: see [`Process::join_all`] and [`Process::settle`].
    pub fn end(&self, reason: Error) -> bool {
        {
            let mut state = self.0.state.lock();
            if state.reason.is_some() {
                return false;
            }
            state.reason = Some(reason);
        }
        // SeqCst: a thread that enters either sees this, or is seen inside by `interrupt_all`.
        self.0.ended.store(true, Ordering::SeqCst);
        self.0.end.post();
        let _full_already = rustix::io::write(&self.0.end_descriptor, &1u64.to_ne_bytes());
        if !self.interrupt_all() {
            let process = self.clone();
            let helper = thread::Builder::new().name("spinwise-end".into()).stack_size(128 << 10);
            // Without a helper (no thread to be had) whoever joins does its work.
            if let Ok(helper) = helper.spawn(move || while !process.settle(Duration::from_secs(1)) {}) {
                self.0.state.lock().started.push(helper);
            }
        }
        true
    }

    /// Cancels it: every thread traps with [`TrapCode::Interrupted`].
    pub fn cancel(&self) -> bool {
        self.end(TrapCode::Interrupted.into())
    }

    /// Why it ended; `None` while it has not.
    #[must_use]
    pub fn end_reason(&self) -> Option<Error> {
        if !self.has_ended() {
            return None;
        }
        self.0.state.lock().reason.clone()
    }

    /// Whether it has ended.
    #[must_use]
    pub fn has_ended(&self) -> bool {
        self.0.ended.load(Ordering::SeqCst)
    }

    /// After an end: waits until no thread is in guest code or in a host function called from there. False where the
    /// time was over first.
    #[must_use]
    pub fn settle(&self, time: Duration) -> bool {
        let deadline = Instant::now().checked_add(time);
        let mut pause = Duration::from_micros(100);
        while !self.interrupt_all() {
            if deadline.is_some_and(|deadline| Instant::now() >= deadline) {
                return false;
            }
            thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(5));
        }
        true
    }

    /// The threads that are in guest code, or in a host function called from there, and where: after an end, those that
    /// could not be stopped yet.
    #[must_use]
    pub fn stragglers(&self) -> Vec<Straggler> {
        let threads = self.0.state.lock().threads.clone();
        let inside = threads.iter().filter(|thread| thread.is_inside());
        let straggler = |thread: &Arc<GuestThread>| Straggler { thread: thread.id(), frame: thread.sample().ask() };
        // Some may have arrived while they were asked.
        inside
            .map(|thread| (thread, straggler(thread)))
            .filter(|(thread, _)| thread.is_inside())
            .map(|(_, s)| s)
            .collect()
    }

    /// Calls each thread to its next poll; answers whether none is inside any more.
    fn interrupt_all(&self) -> bool {
        let threads = self.0.state.lock().threads.clone();
        for thread in &threads {
            thread.interrupt();
        }
        threads.iter().all(|thread| !thread.is_inside())
    }

    /// Waits until every OS thread that it started is gone. Does not end it, so a guest thread that runs on keeps this
    /// waiting. Threads of stores that the host made itself are the host's own.
    pub fn join_all(&self) {
        let this = thread::current().id();
        loop {
            let next = {
                let mut state = self.0.state.lock();
                let other = state.started.iter().position(|handle| handle.thread().id() != this);
                other.map(|at| state.started.swap_remove(at))
            };
            let Some(handle) = next else { return };
            while !handle.is_finished() && self.has_ended() {
                let _repeated = self.interrupt_all();
                thread::sleep(Duration::from_micros(200));
            }
            let _panics_were_reported = handle.join();
        }
    }

    /// Runs an exported function of the first thread as the whole program: when it returns, exits or traps, or any other
    /// thread does, all end. Answers the exit code; 0 where it returned.
    ///
    /// # Errors
    /// The trap or host error that ended the process.
    pub fn run(&self, store: &mut Store, instance: &Instance, export: &str) -> Result<i32, Error> {
        match instance.call(store, export, &[]) {
            Ok(_) => self.end(Error::Exit(0)),
            Err(error @ Error::Usage(_)) => return Err(error),
            Err(error) => self.end(error),
        };
        self.join_all();
        match self.end_reason() {
            Some(Error::Exit(code)) => Ok(code),
            Some(error) => Err(error),
            None => Ok(0),
        }
    }

    /// Where threads were when the end reached them, in the order of arrival: traps with [`TrapCode::Interrupted`].
    #[must_use]
    pub fn interruptions(&self) -> Vec<Arc<Trap>> {
        self.0.state.lock().interruptions.clone()
    }

    /// Guest threads that exist now.
    #[must_use]
    pub fn threads(&self) -> usize {
        self.0.state.lock().threads.len()
    }

    /// Readable once the process has ended. For blocking host functions to poll beside their own descriptors.
    #[must_use]
    pub fn end_descriptor(&self) -> BorrowedFd<'_> {
        self.0.end_descriptor.as_fd()
    }

    /// How its waits spin.
    #[must_use]
    pub fn settings(&self) -> &Settings {
        &self.0.settings
    }

    /// Takes down where a thread was interrupted, and answers what its call fails with: the process's reason.
    pub(crate) fn interrupted(&self, trap: &Arc<Trap>) -> Error {
        let mut state = self.0.state.lock();
        state.interruptions.push(Arc::clone(trap));
        match &state.reason {
            Some(Error::Trap(reason)) if reason.code == TrapCode::Interrupted => Error::Trap(Arc::clone(trap)),
            Some(reason) => reason.clone(),
            None => Error::Trap(Arc::clone(trap)),
        }
    }

    /// Makes a guest thread of the process; fails once it has ended. With `numbered`, it gets a thread identifier.
    pub(crate) fn add_thread(&self, numbered: bool) -> Result<Arc<GuestThread>, Error> {
        let mut state = self.0.state.lock();
        if let Some(reason) = &state.reason {
            return Err(reason.clone());
        }
        if state.threads.len() >= crate::number::to_usize(self.0.max_threads.into()) {
            return Err(Error::Resource(format!("the process has {} threads already", self.0.max_threads)));
        }
        let id = if numbered { state.tids.take() } else { Some(0) };
        let id = id.ok_or_else(|| Error::Resource("no thread identifier is free".into()))?;
        let thread = Arc::new(GuestThread::new(self.clone(), id, &self.0.settings, self.0.heap));
        state.threads.push(Arc::clone(&thread));
        Ok(thread)
    }

    /// Forgets a guest thread.
    pub(crate) fn remove_thread(&self, thread: &Arc<GuestThread>) {
        let mut state = self.0.state.lock();
        state.threads.retain(|other| !Arc::ptr_eq(other, thread));
        state.tids.put(thread.id());
    }

    /// Starts an OS thread that [`Process::join_all`] joins.
    pub(crate) fn start(&self, name: String, body: impl FnOnce() + Send + 'static) -> io::Result<()> {
        let mut state = self.0.state.lock();
        let mut finished = Vec::new();
        let mut at = 0;
        while at < state.started.len() {
            if state.started[at].is_finished() { finished.push(state.started.swap_remove(at)) } else { at += 1 }
        }
        let handle = thread::Builder::new().name(name).stack_size(256 << 10).spawn(body)?;
        state.started.push(handle);
        drop(state);
        for handle in finished {
            let _panics_were_reported = handle.join();
        }
        Ok(())
    }

    pub(crate) fn crowd(&self) -> &Arc<Crowd> {
        &self.0.crowd
    }

    pub(crate) fn stacks(&self) -> &StackPool {
        &self.0.stacks
    }

    /// Waits for the end or the deadline; answers whether the end came.
    pub(crate) fn wait_for_end(&self, waiter: &mut Waiter, deadline: Option<Deadline>) -> bool {
        matches!(self.0.end.wait_for(1, waiter, deadline), Outcome::Ok)
    }
}

impl fmt::Debug for Process {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Process")
            .field("threads", &self.threads())
            .field("ended", &self.has_ended())
            .finish_non_exhaustive()
    }
}
