//! WebAssembly bytes to a validated module and one CLIF function a body.
