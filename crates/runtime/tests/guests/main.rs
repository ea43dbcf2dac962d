//! Guests in WebAssembly text, through the compiler and on the runtime.

mod common;
mod ends;
mod host;
mod links;
mod references;
mod spawns;
mod tails;
mod throws;
mod traps;
mod waits;
