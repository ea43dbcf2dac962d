//! Waiting: one primitive, its policies, and how it parks.
//!
//! A thread waits for a condition on memory. It spins a little, yields a little, and parks; whoever makes the condition
//! true wakes it. Everything here that waits does so through [`Waiters`]; the protocol, its memory orders and its proof
//! are in `README.md`, its models in `tests/loom.rs`.
//!
//! This crate must not know wasm, guests or fibres: a fibre waits here like a thread, by bringing its own [`Parker`].
//!
//! - [`wait`]: [`Waiters`], the primitive, and [`Waiter`], who waits.
//! - [`epoch`]: a counter to wait on, again and again; thread ends, docks, process ends.
//! - [`ticket`]: one wait with one outcome, settled by one compare-exchange; `memory.atomic.wait`.
//! - [`parker`]: how a waiter blocks; [`FutexParker`] for OS threads.
//! - [`spin`]: how long it pays to spin, in ns. [`policy`]: who decides that. [`roundtrip`]: what parking costs here.
//! - [`cpus`] and [`crowd`]: how many CPUs this process may use, and whether its threads outnumber them.

pub mod clock;
pub mod cpus;
pub mod crowd;
pub mod epoch;
mod fault;
pub mod parker;
pub mod policy;
pub mod roundtrip;
pub mod spin;
mod sync;
pub mod ticket;
pub mod wait;

pub use clock::Deadline;
pub use cpus::AllowedCpus;
pub use crowd::{Crowd, Member};
pub use epoch::Epoch;
pub use parker::{FutexParker, Parker};
pub use policy::{Overrides, Policy, Settings};
pub use spin::SpinBudget;
pub use ticket::Ticket;
pub use wait::{Outcome, Waiter, Waiters};
