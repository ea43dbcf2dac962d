//! The nouns that the compiler and the runtime share.
//!
//! This crate must not know how code is lifted, analysed, generated or run: it holds tables, numbers and layouts, and
//! depends on no code generator. The compiler and the runtime meet only here; `tests/tidy.rs` holds both to that.
//!
//! In the order data moves: [`index`], [`types`] and [`typespace`] name things, [`module`] is what a wasm file declares,
//! [`symbol`] names what compiled code refers to, [`context`] and [`heap`] are the memory that compiled code and runtime share,
//! [`budget`] prices a guard, [`trap`] says how guest code fails, [`image`] is finished code ready to run.

pub mod budget;
pub mod context;
pub mod heap;
pub mod image;
pub mod index;
pub mod module;
pub mod symbol;
pub mod trap;
pub mod types;
pub mod typespace;
