//! Translates threaded WebAssembly to native code whose threads can never spin out of reach.
