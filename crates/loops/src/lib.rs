//! A plain graph → dominators, natural loops, strongly connected components.
//!
//! This crate must not know WebAssembly or any compiler's code: it sees node numbers and edges, so that each algorithm can
//! be tested against brute force on random graphs. Everything is linear or close to it and nothing recurses: depth and size
//! are a guest's choice.
//!
//! In the order data moves: [`Graph`], [`Dominators`], [`LoopForest`] with [`irreducible_cycles`] for what has no header,
//! [`Components`] of any part of a graph, and [`Cores`], what remains of loops when nodes are deleted.

mod cores;
mod dominators;
mod forest;
mod graph;
mod scc;

pub use cores::Cores;
pub use dominators::Dominators;
pub use forest::{LoopForest, LoopIndex, NaturalLoop, irreducible_cycles};
pub use graph::{Graph, Node};
pub use scc::Components;
