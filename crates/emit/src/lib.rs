//! Guarded CLIF to in-memory code or a relocatable object, from one path.
//!
//! This crate must not know how code is lifted, analysed, guarded or run: it gets CLIF functions named by the
//! namespaces of [`spinwise_model::symbol`] and gives machine code. In the order data moves: [`mod@isa`] describes the
//! machine, [`mod@inline`] copies small callees, [`mod@compile`] makes machine code, and then either [`jit`] places it
//! in this process or [`mod@object`] writes it to a file; [`asm`] and [`perf`] show it to people.

pub mod asm;
pub mod compile;
mod crowd;
pub mod error;
pub mod inline;
pub mod isa;
pub mod jit;
mod link;
pub mod mangle;
mod nesting;
pub mod object;
mod orient;
pub mod perf;
mod shuffle;

pub use asm::disassemble;
pub use compile::{Compiled, Compiler, Input, compile};
pub use error::Error;
pub use inline::{Budget as InlineBudget, Inlining, Outline, inline};
pub use isa::{Cpu, OptLevel, Target, isa};
pub use jit::load;
pub use object::{Tables, object};
pub use perf::perf_map;
