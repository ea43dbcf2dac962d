//! From a fault in compiled code to a trap: the signal handlers.
//!
//! Invariants: a fault is a trap only if this OS thread is inside an entry from the host, on that entry's stack, and the
//! faulting instruction is compiled code: a trap site of its image, or anything that hit the stack's guard. Everything else
//! (a fault of the host, also in a host function; a signal that somebody sent) goes to the handler that was there before.
//! The handler runs on an alternate stack, since the guest's may be full; it allocates nothing, takes no lock, and redirects
//! the thread to the root of the entry's coroutine. Source: sigaction(2), corosensei's `trap`.
//! Cost: about 10 µs a trap, nearly all of it the kernel's.
#![expect(unsafe_code, reason = "signal handlers")]

use std::cell::{Cell, UnsafeCell};
use std::ffi::c_int;
use std::mem::MaybeUninit;
use std::ops::Range;
use std::ptr;
use std::sync::Once;

use corosensei::trap::CoroutineTrapHandler;
use libc::{c_void, sigaction, siginfo_t, ucontext_t};
use spinwise_model::trap::TrapCode;

use crate::backtrace::Place;
use crate::builtins::entry;
use crate::program;
use crate::thread::Running;

/// How a coroutine of guest code ended.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Outcome {
    /// It returned.
    Returned,
    /// It threw an exception, which is on the thread's heap.
    Threw(u64),
    /// It trapped; the backtrace has been taken.
    Trapped(TrapCode),
}

/// An entry from the host that is active on this OS thread.
pub(crate) struct Activation<'a> {
    pub(crate) root: CoroutineTrapHandler<Outcome>,
    pub(crate) guard: Range<usize>,
    pub(crate) stack: Range<usize>,
    pub(crate) running: Running<'a>,
}

thread_local! {
    /// The innermost entry. Read by the handler of this thread only.
    static CURRENT: Cell<*const Activation<'static>> = const { Cell::new(ptr::null()) };
}

/// Makes an activation the innermost one while `run` runs.
pub(crate) fn with_activation<T>(activation: &Activation<'_>, run: impl FnOnce() -> T) -> T {
    struct Restore(*const Activation<'static>);
    impl Drop for Restore {
        fn drop(&mut self) {
            CURRENT.set(self.0);
        }
    }
    let _restore = Restore(CURRENT.replace(ptr::from_ref(activation).cast()));
    run()
}

/// The guest thread whose code this OS thread is running.
pub(crate) fn running<'a>() -> Option<Running<'a>> {
    // SAFETY: null, or an activation on a frame of this thread that is below this one.
    unsafe { CURRENT.get().as_ref() }.map(|activation| activation.running)
}

/// The signals that faults of compiled code raise.
const SIGNALS: [c_int; 4] = [libc::SIGSEGV, libc::SIGBUS, libc::SIGILL, libc::SIGFPE];

/// What was installed before, by place in [`SIGNALS`].
struct Previous(UnsafeCell<[MaybeUninit<sigaction>; SIGNALS.len()]>);

// SAFETY: written once, before the handlers that read it are installed.
unsafe impl Sync for Previous {}

static PREVIOUS: Previous = Previous(UnsafeCell::new([MaybeUninit::uninit(); SIGNALS.len()]));

/// Installs the handlers, once a process.
///
/// # Panics
/// If the system refuses: always a bug, since these signals can be caught.
pub(crate) fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        for (index, signal) in SIGNALS.into_iter().enumerate() {
            // Asked for first and stored, so that the new handler never runs without it.
            let old = PREVIOUS.0.get().cast::<sigaction>().wrapping_add(index);
            // SAFETY: only asks; `old` is this signal's place in the array.
            let asked = unsafe { sigaction(signal, ptr::null(), old) };
            assert_eq!(asked, 0, "sigaction cannot fail for a fault's signal");
            // SAFETY: all zeros is a valid sigaction.
            let mut action: sigaction = unsafe { MaybeUninit::zeroed().assume_init() };
            action.sa_sigaction = (handle as *const ()).expose_provenance();
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_NODEFER;
            // SAFETY: the handler is async-signal-safe and hands on what is not its own.
            let installed = unsafe { sigaction(signal, &raw const action, ptr::null_mut()) };
            assert_eq!(installed, 0, "sigaction cannot fail for a fault's signal");
        }
    });
}

unsafe extern "C" fn handle(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let machine = context.cast::<ucontext_t>();
    // SAFETY: the kernel passes a valid pointer.
    let info_ref = unsafe { &*info };
    // SAFETY: the kernel passes a valid pointer; nobody else looks at it now.
    let machine_ref = unsafe { &mut *machine };
    if !try_trap(signal, info_ref, machine_ref) {
        // SAFETY: the arguments are the kernel's.
        unsafe { hand_on(signal, info, context) };
    }
}

/// Redirects the thread if the fault is a trap; answers whether it was.
fn try_trap(signal: c_int, info: &siginfo_t, machine: &mut ucontext_t) -> bool {
    let current = CURRENT.get();
    // SAFETY: null, or an activation on a frame of this thread that is below the fault.
    let Some(activation) = (unsafe { current.as_ref() }) else { return false };
    // A signal that a process sent (kill, sigqueue) is no fault.
    if info.si_code <= 0 || !activation.root.stack_ptr_in_bounds(registers::sp(machine)) {
        return false;
    }
    let Some((code, place)) = classify(signal, info, machine, activation) else { return false };
    // SAFETY: compiled code trapped on this stack, whose usable part is mapped.
    unsafe { activation.running.own().backtrace.capture(place, &activation.stack) };
    // SAFETY: the stack pointer is inside the coroutine, the coroutine's frames up to its root are compiled code, which
    // has nothing to drop, and the registers are set below.
    let target = unsafe { activation.root.setup_trap_handler(move || Outcome::Trapped(code)) };
    registers::redirect(machine, &target);
    true
}

/// Which trap a fault is, and where; `None` if it is not compiled code's.
fn classify(
    signal: c_int,
    info: &siginfo_t,
    machine: &ucontext_t,
    activation: &Activation<'_>,
) -> Option<(TrapCode, Place)> {
    let pc = registers::pc(machine);
    let fp = registers::fp(machine);
    if entry::is_exhausted(pc) {
        // A builtin's entry found no room. Its caller is where it would return to.
        // SAFETY: the machine is at that entry's trap.
        let return_address = unsafe { registers::return_address(machine) };
        return Some((TrapCode::StackOverflow, Place { pc: return_address.wrapping_sub(1), fp }));
    }
    let site = program::with_program_at(pc, |program| program.image.trap_at(pc).map(|site| site.code))?;
    // SAFETY: a fault's signal information has an address.
    let address = unsafe { info.si_addr() }.addr();
    let is_access = signal == libc::SIGSEGV || signal == libc::SIGBUS;
    if is_access && activation.guard.contains(&address) {
        return Some((TrapCode::StackOverflow, Place { pc, fp }));
    }
    let code = TrapCode::from_raw(site?)?;
    Some((code, Place { pc, fp }))
}

/// Gives a signal to whoever handled it before.
///
/// # Safety
/// The arguments are those of a signal handler that is running.
unsafe fn hand_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    let Some(index) = SIGNALS.iter().position(|known| *known == signal) else { return };
    let previous = PREVIOUS.0.get().cast::<sigaction>().wrapping_add(index);
    // SAFETY: written before this handler was installed, and not since.
    let previous = unsafe { &*previous };
    // SAFETY: the arguments are the kernel's.
    if !unsafe { call_previous(previous, signal, info, context) } {
        // The instruction is tried again and the fault then takes its usual course. (Ignoring a fault is not possible.)
        // SAFETY: resets one signal.
        unsafe { libc::signal(signal, libc::SIG_DFL) };
        // SAFETY: asks about the information the kernel passed.
        if unsafe { (*info).si_code } <= 0 {
            // It was sent, so it would not come again.
            // SAFETY: raises a signal.
            unsafe { libc::raise(signal) };
        }
    }
}

/// Calls the handler that was installed before, if that is a function; answers whether it was.
///
/// # Safety
/// The arguments are those of a signal handler that is running, and of what was installed before it.
pub(crate) unsafe fn call_previous(
    previous: &sigaction,
    signal: c_int,
    info: *mut siginfo_t,
    context: *mut c_void,
) -> bool {
    let handler = previous.sa_sigaction;
    if handler == libc::SIG_DFL || handler == libc::SIG_IGN {
        return false;
    }
    let handler = ptr::with_exposed_provenance::<()>(handler);
    if previous.sa_flags & libc::SA_SIGINFO == 0 {
        // SAFETY: a handler installed without SA_SIGINFO has this type.
        let handler: extern "C" fn(c_int) = unsafe { std::mem::transmute(handler) };
        handler(signal);
    } else {
        type Handler = unsafe extern "C" fn(c_int, *mut siginfo_t, *mut c_void);
        // SAFETY: a handler installed with SA_SIGINFO has this type.
        let handler: Handler = unsafe { std::mem::transmute(handler) };
        // SAFETY: the arguments are the kernel's.
        unsafe { handler(signal, info, context) };
    }
    true
}

/// Where the machine was when a signal came.
pub(crate) fn pc(machine: &ucontext_t) -> usize {
    registers::pc(machine)
}

/// The machine's registers in a signal's context.
#[cfg(target_arch = "x86_64")]
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_sign_loss,
    clippy::cast_possible_wrap,
    reason = "64-bit registers"
)]
mod registers {
    use corosensei::trap::TrapHandlerRegs;
    use libc::{REG_RBP, REG_RDI, REG_RIP, REG_RSI, REG_RSP, ucontext_t};

    pub(super) fn pc(machine: &ucontext_t) -> usize {
        machine.uc_mcontext.gregs[REG_RIP as usize] as usize
    }

    pub(super) fn sp(machine: &ucontext_t) -> usize {
        machine.uc_mcontext.gregs[REG_RSP as usize] as usize
    }

    pub(super) fn fp(machine: &ucontext_t) -> usize {
        machine.uc_mcontext.gregs[REG_RBP as usize] as usize
    }

    /// # Safety
    /// The machine is at a function's first instruction.
    pub(super) unsafe fn return_address(machine: &ucontext_t) -> usize {
        // SAFETY: there, the stack pointer is at the return address.
        unsafe { std::ptr::with_exposed_provenance::<usize>(sp(machine)).read() }
    }

    pub(super) fn redirect(machine: &mut ucontext_t, target: &TrapHandlerRegs) {
        let TrapHandlerRegs { rip, rsp, rbp, rdi, rsi } = *target;
        let registers = &mut machine.uc_mcontext.gregs;
        for (register, value) in [(REG_RIP, rip), (REG_RSP, rsp), (REG_RBP, rbp), (REG_RDI, rdi), (REG_RSI, rsi)] {
            registers[register as usize] = value as i64;
        }
    }
}

/// The machine's registers in a signal's context.
#[cfg(target_arch = "aarch64")]
#[expect(clippy::cast_possible_truncation, reason = "64-bit registers")]
mod registers {
    use corosensei::trap::TrapHandlerRegs;
    use libc::ucontext_t;

    pub(super) fn pc(machine: &ucontext_t) -> usize {
        machine.uc_mcontext.pc as usize
    }

    pub(super) fn sp(machine: &ucontext_t) -> usize {
        machine.uc_mcontext.sp as usize
    }

    pub(super) fn fp(machine: &ucontext_t) -> usize {
        machine.uc_mcontext.regs[29] as usize
    }

    /// # Safety
    /// The machine is at a function's first instruction.
    pub(super) unsafe fn return_address(machine: &ucontext_t) -> usize {
        machine.uc_mcontext.regs[30] as usize
    }

    pub(super) fn redirect(machine: &mut ucontext_t, target: &TrapHandlerRegs) {
        let TrapHandlerRegs { pc, sp, x0, x1, x29, lr } = *target;
        let context = &mut machine.uc_mcontext;
        context.pc = pc;
        context.sp = sp;
        for (register, value) in [(0, x0), (1, x1), (29, x29), (30, lr)] {
            context.regs[register] = value;
        }
    }
}
