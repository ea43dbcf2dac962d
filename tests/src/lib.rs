//! Helpers that the test binaries share.
