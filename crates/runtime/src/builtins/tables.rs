//! `table.grow`, `fill`, `copy`, `init` and `elem.drop`. Source: core spec 4.4.6.
//!
//! An instance's tables belong to its store (claimed when it was made), so its running thread has them to itself.
#![expect(unsafe_code, reason = "called by compiled code")]

use spinwise_model::trap::TrapCode;

use super::bulk::status;
use crate::init;
use crate::instance::Inner;
use crate::number::to_usize;
use crate::thread::Running;

/// Elements between two looks at the process.
const CHUNK: usize = 1 << 17;

/// `spw_table_grow`
pub(super) unsafe extern "C" fn table_grow(context: *const u8, table: u32, element: u64, by: u64) -> u64 {
    // SAFETY: compiled code passes its own context.
    let instance = unsafe { Inner::calling(context) };
    // SAFETY: the instance's own table, and a reference from its code.
    unsafe { instance.table(table).grow_raw(by, element) }.unwrap_or(u64::MAX)
}

/// `spw_table_fill`
pub(super) unsafe extern "C" fn table_fill(
    context: *const u8,
    table: u32,
    destination: u64,
    element: u64,
    length: u64,
) -> u32 {
    let body = |instance: &Inner, running: Running<'_>| {
        // SAFETY: the instance's own table.
        let range = unsafe { instance.table(table).range(destination, length) }?;
        for chunk in range.chunks_mut(CHUNK) {
            running.check()?;
            chunk.fill(element);
        }
        Ok(())
    };
    // SAFETY: compiled code passes its own context.
    unsafe { status(context, body) }
}

/// `spw_table_copy`. In one piece: at most ten million elements.
pub(super) unsafe extern "C" fn table_copy(
    context: *const u8,
    destination_table: u32,
    source_table: u32,
    destination: u64,
    source: u64,
    length: u64,
) -> u32 {
    let body = |instance: &Inner, running: Running<'_>| {
        running.check()?;
        let (to, from) = (instance.table(destination_table), instance.table(source_table));
        if to.same(from) {
            // SAFETY: the instance's own table.
            let all = unsafe { to.elements() };
            let inside = |start: u64| start.checked_add(length).filter(|end| *end <= all.len() as u64);
            let end = inside(source).ok_or(TrapCode::TableOutOfBounds)?;
            inside(destination).ok_or(TrapCode::TableOutOfBounds)?;
            all.copy_within(to_usize(source)..to_usize(end), to_usize(destination));
        } else {
            // SAFETY: the instance's own table.
            let from = unsafe { from.range(source, length) }?;
            // SAFETY: the instance's own table, and another one.
            unsafe { to.range(destination, length) }?.copy_from_slice(from);
        }
        Ok(())
    };
    // SAFETY: compiled code passes its own context.
    unsafe { status(context, body) }
}

/// `spw_table_init`
pub(super) unsafe extern "C" fn table_init(
    context: *const u8,
    table: u32,
    segment: u32,
    destination: u64,
    source: u32,
    length: u32,
) -> u32 {
    let body = |instance: &Inner, running: Running<'_>| {
        running.check()?;
        init::table_init(instance, table, segment, destination, source, length)
    };
    // SAFETY: compiled code passes its own context.
    unsafe { status(context, body) }
}

/// `spw_elem_drop`
pub(super) unsafe extern "C" fn elem_drop(context: *const u8, segment: u32) {
    // SAFETY: compiled code passes its own context.
    let instance = unsafe { Inner::calling(context) };
    init::drop_elements(instance, segment as usize);
}
