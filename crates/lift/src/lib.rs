//! WebAssembly bytes to a validated module and one CLIF function a body.

#![expect(dead_code, reason = "the lifter is being laid out")]

mod abi;
mod func;
mod memory;
mod simd;
mod stack;
