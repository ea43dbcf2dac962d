//! Host functions: closures that guests import, and what a closure may ask about its caller.
//!
//! Invariants: a closure never unwinds into compiled code (a panic becomes an error), holds no borrow of guest memory, and
//! its failure reaches the guest as a trap with the reason kept. A call costs one indirect call and a look at a
//! thread-local beside the closure; typed closures allocate nothing.
#![expect(unsafe_code, reason = "parameters arrive by address")]

use std::any::Any;
use std::fmt;
use std::os::fd::{AsRawFd, BorrowedFd};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{self, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use spinwise_model::index::TypeIndex;
use spinwise_model::trap::TrapCode;
use spinwise_model::types::FuncType;
use spinwise_team::Deadline;

use crate::error::Error;
use crate::func::Func;
use crate::instance::{self, Instance};
use crate::memory::Memory;
use crate::process::Process;
use crate::store::Context;
use crate::thread::Running;
use crate::types;
use crate::value::{self, Slots, Val, WasmResults, WasmType};

/// A function of the host. Compiled code holds its address and hands it back to `spw_host_call`.
pub(crate) struct HostFunction {
    ty: FuncType,
    type_id: TypeIndex,
    call: Box<RawClosure>,
}

/// Reads parameters from slots and writes results to them.
type RawClosure = dyn Fn(Caller<'_>, Slots) -> Result<(), Error> + Send + Sync;

impl HostFunction {
    /// # Safety
    /// `call` touches no more slots than `ty` has parameters or results.
    unsafe fn new(ty: FuncType, call: Box<RawClosure>) -> Self {
        Self { type_id: types::intern(&ty), ty, call }
    }

    pub(crate) fn ty(&self) -> &FuncType {
        &self.ty
    }

    pub(crate) fn type_id(&self) -> TypeIndex {
        self.type_id
    }

    /// Calls the closure. A panic becomes an error.
    ///
    /// # Safety
    /// There are as many slots as parameters and as results; they hold the parameters.
    pub(crate) unsafe fn call(&self, caller: Caller<'_>, slots: Slots) -> Result<(), Error> {
        match catch_unwind(AssertUnwindSafe(|| (self.call)(caller, slots))) {
            Ok(result) => result,
            Err(panic) => Err(Error::host(format!("panicked: {}", panic_message(&*panic)))),
        }
    }
}

impl fmt::Debug for HostFunction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostFunction").field("ty", &self.ty).finish_non_exhaustive()
    }
}

fn panic_message(panic: &(dyn Any + Send)) -> &str {
    let text = panic.downcast_ref::<&str>().copied();
    text.or_else(|| panic.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message")
}

/// Makes a function of a closure over values.
pub(crate) fn dynamic(
    ty: FuncType,
    closure: impl Fn(Caller<'_>, &[Val]) -> Result<Vec<Val>, Error> + Send + Sync + 'static,
) -> HostFunction {
    let FuncType { params, results } = ty.clone();
    let call = move |caller: Caller<'_>, slots: Slots| {
        let running = caller.running;
        // SAFETY: one slot a parameter, holding a value of its type.
        let arguments: Vec<Val> = (0..).zip(&params).map(|(i, ty)| unsafe { slots.get(running, i, *ty) }).collect();
        let answers = closure(caller, &arguments)?;
        if !value::fit(&answers, &results) {
            return Err(Error::host("the host function's results do not fit its type"));
        }
        for (i, answer) in answers.iter().enumerate() {
            let bits = answer.to_bits(running)?;
            // SAFETY: one slot a result.
            unsafe { slots.set(i, bits) };
        }
        Ok(())
    };
    // SAFETY: the closure above goes by the type.
    unsafe { HostFunction::new(ty, Box::new(call)) }
}

/// A closure whose Rust type gives its WebAssembly type: `Fn(Caller, A, B, …) -> Result<R, Error>`, with parameters and
/// results of [`WasmType`].
pub trait TypedClosure<Parameters, Results>: Send + Sync + 'static {
    /// Makes it a function.
    #[doc(hidden)]
    fn into_host_function(self) -> HostFunctionBox;
}

/// A host function on its way into a [`Func`].
#[derive(Debug)]
pub struct HostFunctionBox(pub(crate) HostFunction);

macro_rules! typed_closures {
    ($(($($name:ident $index:tt),*);)*) => {$(
        impl<F, R, $($name),*> TypedClosure<($($name,)*), R> for F
        where
            F: Fn(Caller<'_>, $($name),*) -> Result<R, Error> + Send + Sync + 'static,
            R: WasmResults,
            $($name: WasmType,)*
        {
            fn into_host_function(self) -> HostFunctionBox {
                let ty = FuncType { params: vec![$($name::TYPE),*], results: R::TYPES.to_vec() };
                let call = move |caller: Caller<'_>, slots: Slots| {
                    // SAFETY: one slot a parameter, holding a value of its type.
                    let results = self(caller, $(unsafe { slots.read::<$name>($index) }),*)?;
                    // SAFETY: as many slots as results.
                    unsafe { results.write(slots) };
                    Ok(())
                };
                // SAFETY: the closure above goes by the type.
                HostFunctionBox(unsafe { HostFunction::new(ty, Box::new(call)) })
            }
        }
    )*};
}
typed_closures! {
    ();
    (A 0);
    (A 0, B 1);
    (A 0, B 1, C 2);
    (A 0, B 1, C 2, D 3);
    (A 0, B 1, C 2, D 3, E 4);
    (A 0, B 1, C 2, D 3, E 4, G 5);
    (A 0, B 1, C 2, D 3, E 4, G 5, H 6);
    (A 0, B 1, C 2, D 3, E 4, G 5, H 6, I 7);
    (A 0, B 1, C 2, D 3, E 4, G 5, H 6, I 7, J 8);
    (A 0, B 1, C 2, D 3, E 4, G 5, H 6, I 7, J 8, K 9);
}

/// The guest thread that calls a host function.
#[derive(Debug)]
pub struct Caller<'a> {
    running: Running<'a>,
    instance: Option<&'a instance::Inner>,
}

impl<'a> Caller<'a> {
    pub(crate) fn new(running: Running<'a>, instance: Option<&'a instance::Inner>) -> Self {
        Self { running, instance }
    }

    /// The calling instance; `None` where a host called the function.
    #[must_use]
    pub fn instance(&self) -> Option<Instance> {
        self.instance.map(instance::Inner::handle)
    }

    /// The calling instance's memory: the one it exports as `memory`, else its first.
    #[must_use]
    pub fn memory(&self) -> Option<&'a Memory> {
        self.instance?.main_memory()
    }

    /// The process that the thread belongs to.
    #[must_use]
    pub fn process(&self) -> &'a Process {
        self.running.thread().process()
    }

    /// The thread's identifier: 0 for a host's own thread, else as wasi-threads numbers it.
    #[must_use]
    pub fn thread_id(&self) -> u32 {
        self.running.thread().id()
    }

    /// Fails once the process has been ended. Host functions that take long ask now and then.
    ///
    /// # Errors
    /// The trap `interrupted`.
    pub fn check(&self) -> Result<(), Error> {
        Ok(self.running.check()?)
    }

    /// Does something that may block. Meanwhile the thread does not count among those that want a CPU. It is the
    /// closure's duty to come back soon after the process has ended: see [`Caller::sleep`] and [`Caller::wait`].
    pub fn blocking<T>(&self, block: impl FnOnce() -> T) -> T {
        self.running.leave_crowd();
        // A panic must not lose the count.
        let result = catch_unwind(AssertUnwindSafe(block));
        self.running.join_crowd();
        self.running.own().pace.resumed();
        result.unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }

    /// Lets other threads run.
    pub fn yield_now(&self) {
        std::thread::yield_now();
        self.running.own().pace.resumed();
    }

    /// Sleeps.
    ///
    /// # Errors
    /// The trap `interrupted`, at once, when the process ends.
    pub fn sleep(&self, time: Duration) -> Result<(), Error> {
        let deadline = u64::try_from(time.as_nanos()).ok().and_then(Deadline::after);
        if self.running.sleep(deadline) { Err(TrapCode::Interrupted.into()) } else { Ok(()) }
    }

    /// Waits until a descriptor is ready or the timeout (`None`: never) is over; answers how many are ready, as `poll`
    /// does. A signal may end it early, with 0.
    ///
    /// # Errors
    /// [`Errno::INTR`] when the process has ended, else what the system answered.
    pub fn wait(&self, descriptors: &mut [PollFd<'_>], timeout: Option<Duration>) -> Result<usize, Errno> {
        if descriptors.is_empty() {
            let deadline = timeout.and_then(|time| u64::try_from(time.as_nanos()).ok()).and_then(Deadline::after);
            return if self.running.sleep(deadline) { Err(Errno::INTR) } else { Ok(0) };
        }
        let process = self.process();
        let mut all = descriptors.to_vec();
        // SAFETY: the process keeps it open for longer than this call, and `all` does not outlive the call.
        let end = unsafe { BorrowedFd::borrow_raw(process.end_descriptor().as_raw_fd()) };
        all.push(PollFd::from_borrowed_fd(end, PollFlags::IN));
        // Longer than the system can express is for ever.
        let timeout = timeout.and_then(|time| Timespec::try_from(time).ok());
        let result = self.blocking(|| event::poll(&mut all, timeout.as_ref()));
        if self.running.thread().interrupted() {
            return Err(Errno::INTR);
        }
        let _end = all.pop();
        descriptors.clone_from_slice(&all);
        match result {
            Err(Errno::INTR) => Ok(0),
            other => other,
        }
    }

    /// Calls a function of the same thread from within the host function. Its trap is this call's error, and the
    /// caller's trap only if the host function hands it on.
    ///
    /// # Errors
    /// As [`Instance::call`].
    pub fn call(&mut self, func: &Func, arguments: &[Val]) -> Result<Vec<Val>, Error> {
        func.call(self, arguments)
    }
}

impl Context for Caller<'_> {
    fn running(&mut self) -> Running<'_> {
        self.running
    }
}

impl Func {
    /// A function of the host, of any type.
    ///
    /// A closure that fails makes its caller trap; the error arrives where guest code was entered. Results that do not
    /// fit the type are such a failure.
    pub fn host(
        ty: FuncType,
        closure: impl Fn(Caller<'_>, &[Val]) -> Result<Vec<Val>, Error> + Send + Sync + 'static,
    ) -> Self {
        Self::from_host(Arc::new(dynamic(ty, closure)))
    }

    /// A function of the host whose type is that of the closure: `|caller: Caller<'_>, a: i32, b: i64| Ok(1i32)`.
    pub fn typed<P, R>(closure: impl TypedClosure<P, R>) -> Self {
        Self::from_host(Arc::new(closure.into_host_function().0))
    }
}
