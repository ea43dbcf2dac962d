//! Making exceptions, and throwing them.
#![expect(unsafe_code, reason = "called by compiled code; machine code")]

use std::arch::naked_asm;

use spinwise_model::index::TagIndex;

use crate::exception;
use crate::instance::Inner;
use crate::unwind::{self, Landing};

/// `spw_exception_new`
pub(super) unsafe extern "C" fn exception_new(context: *const u8, tag: u32, offset: u32) -> u64 {
    // SAFETY: compiled code passes its own context.
    let instance = unsafe { Inner::calling(context) };
    // SAFETY: compiled code passes its own context.
    let running = unsafe { instance.running() };
    match exception::allocate(running, instance.tag(TagIndex(tag)), Some(instance), offset) {
        Ok(exception) => exception,
        Err(code) => {
            running.fail(code);
            0
        }
    }
}

/// `spw_throw`: asks where the exception goes on, with what only the caller's frame and return address tell, and goes there.
/// Registers that a callee must preserve are as the caller left them; the exception is in the payload register, and the
/// second payload register is zero.
#[unsafe(naked)]
pub(super) unsafe extern "C" fn throw() {
    #[cfg(target_arch = "x86_64")]
    naked_asm!(
        "mov rdi, rsi",
        "mov rsi, [rsp]",
        "mov rdx, rbp",
        // The return address and this are a multiple of 16 bytes.
        "sub rsp, {size}",
        "mov rcx, rsp",
        "call {find}",
        "mov rcx, [rsp + {pc}]",
        "mov rbp, [rsp + {fp}]",
        "mov rsp, [rsp + {sp}]",
        "xor edx, edx",
        "jmp rcx",
        find = sym unwind::find, size = const Landing::SIZE,
        pc = const Landing::PC, sp = const Landing::SP, fp = const Landing::FP
    );
    #[cfg(target_arch = "aarch64")]
    naked_asm!(
        "mov x0, x1",
        "mov x1, x30",
        "mov x2, x29",
        "sub sp, sp, #32",
        "mov x3, sp",
        "bl {find}",
        "ldr x9, [sp, #{pc}]",
        "ldr x10, [sp, #{sp}]",
        "ldr x29, [sp, #{fp}]",
        "mov sp, x10",
        "mov x1, #0",
        "br x9",
        find = sym unwind::find,
        pc = const Landing::PC, sp = const Landing::SP, fp = const Landing::FP
    );
}

/// `spw_host_throw`
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn spw_host_throw() {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("mov rsi, rdi", "jmp {throw}", throw = sym throw);
    #[cfg(target_arch = "aarch64")]
    naked_asm!("mov x1, x0", "b {throw}", throw = sym throw);
}
