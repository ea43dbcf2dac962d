//! Where calls from compiled code arrive: a look at the stack before any of the host's code uses it.
//!
//! Compiled code does not check its stack, the guard page does; but a fault on the guard page in host code would be the
//! host's. So each entry compares the stack pointer with the thread's limit, touching no stack, and goes on to the real
//! function, or to one instruction that faults and that the signal handler knows: [`is_exhausted`]. The machine is then as
//! at the call, so the trap is the caller's. Cost: three instructions.
#![expect(unsafe_code, reason = "machine code")]

use std::arch::naked_asm;

use super::{atomics, bulk, call, exceptions, objects, tables, types};
use spinwise_model::context::{InstanceHeader, ThreadContext};

/// Whether an address is that of the instruction that reports an exhausted stack.
pub(crate) fn is_exhausted(pc: usize) -> bool {
    pc == (exhausted as *const ()).addr()
}

#[unsafe(naked)]
unsafe extern "C" fn exhausted() {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("ud2");
    #[cfg(target_arch = "aarch64")]
    naked_asm!("udf #0");
}

macro_rules! entries {
    // The first argument is the thread.
    (@asm thread, $body:path) => {{
        #[cfg(target_arch = "x86_64")]
        naked_asm!(
            "cmp rsp, [rdi + {limit}]",
            "jb {exhausted}",
            "jmp {body}",
            limit = const ThreadContext::STACK_LIMIT, exhausted = sym exhausted, body = sym $body
        );
        #[cfg(target_arch = "aarch64")]
        naked_asm!(
            "ldr x16, [x0, #{limit}]",
            "mov x17, sp",
            "cmp x17, x16",
            "b.hs 1f",
            "b {exhausted}",
            "1: b {body}",
            limit = const ThreadContext::STACK_LIMIT, exhausted = sym exhausted, body = sym $body
        );
    }};
    // The first argument is an instance context.
    (@asm vmctx, $body:path) => {{
        #[cfg(target_arch = "x86_64")]
        naked_asm!(
            "mov rax, [rdi + {thread}]",
            "cmp rsp, [rax + {limit}]",
            "jb {exhausted}",
            "jmp {body}",
            thread = const InstanceHeader::THREAD,
            limit = const ThreadContext::STACK_LIMIT, exhausted = sym exhausted, body = sym $body
        );
        #[cfg(target_arch = "aarch64")]
        naked_asm!(
            "ldr x16, [x0, #{thread}]",
            "ldr x16, [x16, #{limit}]",
            "mov x17, sp",
            "cmp x17, x16",
            "b.hs 1f",
            "b {exhausted}",
            "1: b {body}",
            thread = const InstanceHeader::THREAD,
            limit = const ThreadContext::STACK_LIMIT, exhausted = sym exhausted, body = sym $body
        );
    }};
    // The same; and the callee may look at the frames of compiled code, from the caller's on.
    (@asm frames, $body:path) => {{
        #[cfg(target_arch = "x86_64")]
        naked_asm!(
            "mov rax, [rdi + {thread}]",
            "cmp rsp, [rax + {limit}]",
            "jb {exhausted}",
            "mov [rax + {frame}], rbp",
            "mov r10, [rsp]",
            "mov [rax + {address}], r10",
            "jmp {body}",
            thread = const InstanceHeader::THREAD,
            frame = const ThreadContext::EXIT_FRAME, address = const ThreadContext::EXIT_ADDRESS,
            limit = const ThreadContext::STACK_LIMIT, exhausted = sym exhausted, body = sym $body
        );
        #[cfg(target_arch = "aarch64")]
        naked_asm!(
            "ldr x16, [x0, #{thread}]",
            "ldr x17, [x16, #{limit}]",
            "mov x9, sp",
            "cmp x9, x17",
            "b.hs 1f",
            "b {exhausted}",
            "1: str x29, [x16, #{frame}]",
            "str x30, [x16, #{address}]",
            "b {body}",
            thread = const InstanceHeader::THREAD,
            frame = const ThreadContext::EXIT_FRAME, address = const ThreadContext::EXIT_ADDRESS,
            limit = const ThreadContext::STACK_LIMIT, exhausted = sym exhausted, body = sym $body
        );
    }};
    ($($symbol:ident($first:ident) => $body:path;)*) => {$(
        #[unsafe(naked)]
        #[unsafe(no_mangle)]
        pub(super) unsafe extern "C" fn $symbol() {
            entries!(@asm $first, $body)
        }
    )*};
}

entries! {
    spw_poll(thread) => call::poll;
    spw_memory_grow(vmctx) => bulk::memory_grow;
    spw_memory_copy(vmctx) => bulk::memory_copy;
    spw_memory_fill(vmctx) => bulk::memory_fill;
    spw_memory_init(vmctx) => bulk::memory_init;
    spw_data_drop(vmctx) => bulk::data_drop;
    spw_table_grow(vmctx) => tables::table_grow;
    spw_table_fill(vmctx) => tables::table_fill;
    spw_table_copy(vmctx) => tables::table_copy;
    spw_table_init(vmctx) => tables::table_init;
    spw_elem_drop(vmctx) => tables::elem_drop;
    spw_is_subtype(vmctx) => types::is_subtype;
    spw_exception_new(frames) => exceptions::exception_new;
    spw_throw(vmctx) => exceptions::throw;
    spw_object_is(vmctx) => types::object_is;
    spw_struct_new(frames) => objects::struct_new;
    spw_array_new(frames) => objects::array_new;
    spw_array_new_data(frames) => objects::array_new_data;
    spw_array_new_elem(frames) => objects::array_new_elem;
    spw_array_fill(vmctx) => objects::array_fill;
    spw_array_copy(vmctx) => objects::array_copy;
    spw_array_init_data(vmctx) => objects::array_init_data;
    spw_array_init_elem(vmctx) => objects::array_init_elem;
    spw_atomic_wait32(vmctx) => atomics::wait32;
    spw_atomic_wait64(vmctx) => atomics::wait64;
    spw_atomic_notify(vmctx) => atomics::notify;
}

/// `spw_host_call(host function object, args)`: passes on where it was called, since host functions may enter guest code,
/// or collect. The import stub has looked at the stack.
#[unsafe(naked)]
#[unsafe(no_mangle)]
pub(super) unsafe extern "C" fn spw_host_call() {
    #[cfg(target_arch = "x86_64")]
    naked_asm!("mov rdx, rbp", "mov rcx, [rsp]", "jmp {body}", body = sym call::host_call);
    #[cfg(target_arch = "aarch64")]
    naked_asm!("mov x2, x29", "mov x3, x30", "b {body}", body = sym call::host_call);
}
