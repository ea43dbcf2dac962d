//! From a throw to its handler: a walk up the frames of compiled code.
//!
//! ```text
//! high  host entry      calls with a handler: here every exception ends      ─┐
//!       guest frames    those that call with a handler are where it goes on   │ the walk, upwards
//!       thrower         has called `spw_throw`                               ─┘
//! low   this
//! ```
//!
//! Invariants: between a throw and its host entry there are frames of compiled code alone, each with a frame pointer; they
//! own nothing that would have to be dropped. A handler expects its frame's own stack and frame pointer, and nothing of any
//! other register, since guest code counts all as lost where a call throws. Host frames are never passed: an exception
//! leaves the entry as a value.
//! Source: Cranelift's `try_call`. Cost: a search in the image's tables a frame, so linear in the depth.
#![expect(unsafe_code, reason = "reads a stack")]

use crate::program::{self, Program};

/// Where an exception goes on.
#[repr(C)]
#[derive(Debug)]
pub(crate) struct Landing {
    pc: usize,
    sp: usize,
    fp: usize,
}

impl Landing {
    /// Offsets of its parts.
    pub(crate) const PC: usize = 0;
    pub(crate) const SP: usize = 8;
    pub(crate) const FP: usize = 16;
    /// Bytes it takes.
    pub(crate) const SIZE: usize = 24;
}

const _: () = assert!(size_of::<Landing>() == Landing::SIZE);

/// Finds the innermost handler above a call of compiled code that returns to an address, from a frame with that frame
/// pointer. Gives the exception back.
///
/// # Panics
/// If there is no handler, which ends the program: always a bug, since host entries have one.
///
/// # Safety
/// The calling code is compiled code, inside an entry of this thread; `landing` is writable.
pub(crate) unsafe extern "C" fn find(
    exception: u64,
    mut return_address: usize,
    mut fp: usize,
    landing: *mut Landing,
) -> u64 {
    let mut program: Option<&Program> = None;
    loop {
        // The call is before the address it returns to, which may be the next function's.
        let call = return_address.wrapping_sub(1);
        if program.is_none_or(|program| program.image.range_at(call).is_none()) {
            let found = program::with_program_at(call, std::ptr::from_ref);
            // SAFETY: its code is active on this stack, so its instance lives, and keeps it.
            program = found.map(|found| unsafe { &*found });
        }
        let image = &program.expect("a host entry handles every exception").image;
        if let Some(site) = image.handler_at(return_address) {
            let sp = fp - site.frame as usize;
            // SAFETY: as the caller vouches.
            unsafe { landing.write(Landing { pc: site.handler, sp, fp }) };
            return exception;
        }
        // A frame is the caller's frame pointer and, above it, the return address (both on x86_64 and aarch64).
        let frame = std::ptr::with_exposed_provenance::<[usize; 2]>(fp);
        // SAFETY: compiled code keeps frame pointers, and its frames go up to a host entry's.
        [fp, return_address] = unsafe { frame.read() };
    }
}

#[cfg(test)]
mod tests {
    use std::mem::offset_of;

    use super::*;

    #[test]
    fn constants_are_the_real_offsets() {
        let real = [offset_of!(Landing, pc), offset_of!(Landing, sp), offset_of!(Landing, fp)];
        assert_eq!(real, [Landing::PC, Landing::SP, Landing::FP]);
    }
}
