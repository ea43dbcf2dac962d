//! From the host into guest code and back: each entry is a coroutine of its own on a guarded stack.
//!
//! Invariant: a trap returns to the innermost entry's caller and drops only compiled frames; host frames between two
//! entries are left as by a return. An entry does not begin once the process has ended, and is counted from before that
//! check until it is over: whoever ends the process either stops it or sees it. Cost: about 50 ns; no system call once
//! the thread has a stack.
#![expect(unsafe_code, reason = "calls compiled code")]

use std::sync::Arc;
use std::sync::atomic::Ordering;

use corosensei::{Coroutine, CoroutineResult};
use spinwise_model::index::FuncIndex;
use spinwise_model::trap::TrapCode;

use crate::altstack;
use crate::error::{Error, Trap};
use crate::exception::Exception;
use crate::heap::roots::Exit;
use crate::instance::Inner;
use crate::signal::{self, Activation, Outcome};
use crate::stack::GuestStack;
use crate::thread::Running;

/// Entries of one thread that may be active at once, each with a stack: a recursion through the host ends here.
const MAX_DEPTH: u32 = 200;

/// A host entry, as the image has it. It answers 0, or the exception that it ended with.
type EntryCode = unsafe extern "C" fn(*mut u8, *const u8, *mut u8) -> u64;

/// A call about to be made.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry {
    entry: EntryCode,
    vmctx: *mut u8,
    code: *const u8,
    slots: *mut u8,
}

impl Entry {
    /// A call of a function that the instance defines, with parameters (and room for results) in slots.
    ///
    /// # Panics
    /// If the image has no entry of the function's type: always a bug of the compiler.
    pub(crate) fn new(owner: &Inner, index: FuncIndex, slots: *mut u8) -> Self {
        let image = &owner.program().image;
        let ty = owner.module().functions[index.index()].ty;
        let entry = *image.host_entries.get(&ty).expect("an image has an entry for the type of each defined function");
        let entry = std::ptr::with_exposed_provenance::<()>(entry);
        // SAFETY: it is the address of a host entry, which has this type.
        let entry: EntryCode = unsafe { std::mem::transmute(entry) };
        let code = std::ptr::with_exposed_provenance(image.functions[index.index()]);
        Self { entry, vmctx: owner.context(), code, slots }
    }
}

/// Runs guest code.
///
/// # Safety
/// The instance belongs to the running thread; the slots are as many as the function has parameters or results, and hold
/// parameters of its types.
pub(crate) unsafe fn enter(running: Running<'_>, entry: &Entry) -> Result<(), Error> {
    let thread = running.thread();
    let _counted = Counted::new(running)?;
    let stack = take_stack(running)?;
    let limit = &thread.context().stack_limit;
    let outer_limit = limit.swap(stack.limit() as u64, Ordering::Relaxed);
    let outer_exit = running.exit();
    running.own().exits.borrow_mut().push(outer_exit);
    running.set_exit(Exit::default());

    let (guard, usable) = (stack.guard(), stack.usable());
    let call = *entry;
    let mut coroutine = Coroutine::<(), (), Outcome, GuestStack>::with_stack(stack, move |_, ()| {
        // SAFETY: as the caller vouches.
        match unsafe { (call.entry)(call.vmctx, call.code, call.slots) } {
            0 => Outcome::Returned,
            exception => Outcome::Threw(exception),
        }
    });
    let activation = Activation { root: coroutine.trap_handler(), guard, stack: usable, running };
    let result = signal::with_activation(&activation, || coroutine.resume(()));

    limit.store(outer_limit, Ordering::Relaxed);
    running.own().exits.borrow_mut().pop();
    running.set_exit(outer_exit);
    let stack = coroutine.into_stack();
    let outcome = match result {
        CoroutineResult::Return(outcome) => outcome,
        CoroutineResult::Yield(()) => unreachable!("guest code never suspends"),
    };
    if matches!(outcome, Outcome::Trapped(TrapCode::StackOverflow)) {
        stack.trim();
    }
    running.own().stacks.borrow_mut().push(stack);
    match outcome {
        Outcome::Returned => Ok(()),
        // SAFETY: the guest threw it just now.
        Outcome::Threw(exception) => Err(Error::Exception(unsafe { Exception::from_raw(running, exception) })),
        Outcome::Trapped(code) => Err(reason(running, code)),
    }
}

/// What a trap means to whoever called.
fn reason(running: Running<'_>, code: TrapCode) -> Error {
    let code = match code {
        TrapCode::Pending => match running.own().pending.take() {
            // A builtin's own trap: it happened here.
            Some(Error::Trap(trap)) if trap.frames.is_empty() => trap.code,
            // A host function that was disturbed by the end of the process reports that end in its own words.
            Some(Error::Host(_)) if running.thread().process().has_ended() => TrapCode::Interrupted,
            Some(error) => return error,
            None => TrapCode::Interrupted,
        },
        other => other,
    };
    let trap = Trap { code, thread: running.thread().id(), frames: running.own().backtrace.frames() };
    let trap = Arc::new(trap);
    if code == TrapCode::Interrupted {
        return running.thread().process().interrupted(&trap);
    }
    Error::Trap(trap)
}

fn take_stack(running: Running<'_>) -> Result<GuestStack, Error> {
    let kept = running.own().stacks.borrow_mut().pop();
    if let Some(stack) = kept {
        return Ok(stack);
    }
    let no_room = |why| Error::Resource(format!("no room for a guest stack: {why}"));
    altstack::ensure().map_err(no_room)?;
    running.thread().process().stacks().take().map_err(no_room)
}

/// An entry being counted.
struct Counted<'a> {
    running: Running<'a>,
    outermost: bool,
}

impl<'a> Counted<'a> {
    fn new(running: Running<'a>) -> Result<Self, Error> {
        let thread = running.thread();
        let depth = thread.enter();
        let counted = Self { running, outermost: depth == 0 };
        if counted.outermost {
            altstack::ensure().map_err(|why| Error::Resource(format!("no alternate signal stack: {why}")))?;
            thread.sample().runs_here();
            running.join_crowd();
            running.own().pace.resumed();
        }
        if let Some(reason) = thread.process().end_reason() {
            return Err(reason);
        }
        if depth >= MAX_DEPTH {
            return Err(TrapCode::StackOverflow.into());
        }
        Ok(counted)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        if self.outermost {
            self.running.leave_crowd();
        }
        self.running.thread().leave();
    }
}
