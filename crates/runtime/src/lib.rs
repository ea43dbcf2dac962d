//! Memories, instances, traps, threads, polls, wait/notify and WASI.
