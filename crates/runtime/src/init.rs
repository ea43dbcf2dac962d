//! What instantiation computes and copies: globals, active segments, and the bulk operations they share with code.
//!
//! Source: core spec 4.5.4, 4.4.6–4.4.7, extended constants. A segment's range is checked before anything is copied.
#![expect(unsafe_code, reason = "writes the cells of globals, and tables")]

use spinwise_model::index::{FuncIndex, GlobalIndex};
use spinwise_model::module::{ConstOp, ElementMode};
use spinwise_model::trap::TrapCode;

use crate::error::Error;
use crate::instance::Inner;
use crate::number::to_u32;

/// Which active segments to apply.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Segments {
    /// All.
    All,
    /// Not data into a shared memory: another thread's instance has done that.
    NotIntoSharedMemory,
}

/// Sets the globals that the module defines.
pub(crate) fn globals(instance: &Inner) {
    let module = instance.module();
    for (index, init) in (module.imported_globals..).zip(&module.global_inits) {
        let value = evaluate(instance, init);
        // SAFETY: the cell is in the context, which no code uses yet.
        unsafe { instance.global_cell(GlobalIndex(index)).write(value) };
    }
}

/// Fills the tables that the module defines, where it says with what.
pub(crate) fn tables(instance: &Inner) {
    let module = instance.module();
    for (index, init) in (module.imported_tables..).zip(&module.table_inits) {
        let Some(init) = init else { continue };
        #[expect(clippy::cast_possible_truncation, reason = "references are 64 bits wide")]
        let reference = evaluate(instance, init) as u64;
        // SAFETY: an instance's tables are its store's, and nothing else borrows this one.
        unsafe { instance.table(index).elements() }.fill(reference);
    }
}

/// Applies active segments in order: elements, then data.
pub(crate) fn segments(instance: &Inner, which: Segments) -> Result<(), Error> {
    let module = instance.module();
    for (index, segment) in module.elements.iter().enumerate() {
        match &segment.mode {
            ElementMode::Passive => {}
            ElementMode::Declared => instance.dropped_elements[index].set(true),
            ElementMode::Active { table, offset } => {
                let offset = evaluate_index(instance, offset, module.tables[table.index()].table64);
                let length = to_u32(segment.items.len());
                table_init(instance, table.0, to_u32(index), offset, 0, length)?;
                instance.dropped_elements[index].set(true);
            }
        }
    }
    for segment in &module.data {
        let Some((index, offset)) = &segment.active else { continue };
        let memory = instance.memory(index.0);
        if memory.ty().shared && which == Segments::NotIntoSharedMemory {
            continue;
        }
        memory.write(evaluate_index(instance, offset, memory.ty().memory64), &segment.bytes)?;
    }
    Ok(())
}

/// `table.init`
pub(crate) fn table_init(
    instance: &Inner,
    table: u32,
    segment: u32,
    destination: u64,
    source: u32,
    length: u32,
) -> Result<(), TrapCode> {
    let gone = instance.dropped_elements[segment as usize].get();
    let items = if gone { &[][..] } else { &instance.module().elements[segment as usize].items };
    let source = source as usize;
    let items = source.checked_add(length as usize).and_then(|end| items.get(source..end));
    let items = items.ok_or(TrapCode::TableOutOfBounds)?;
    // SAFETY: an instance's tables are its store's, and evaluation below touches none.
    let range = unsafe { instance.table(table).range(destination, length.into()) }?;
    for (element, item) in range.iter_mut().zip(items) {
        #[expect(clippy::cast_possible_truncation, reason = "references are 64 bits wide")]
        let reference = evaluate(instance, item) as u64;
        *element = reference;
    }
    Ok(())
}

/// The value of a constant expression of an index type.
fn evaluate_index(instance: &Inner, expression: &[ConstOp], wide: bool) -> u64 {
    #[expect(clippy::cast_possible_truncation, reason = "validated to be an i64, or an i32")]
    let value = evaluate(instance, expression) as u64;
    if wide { value } else { value & u64::from(u32::MAX) }
}

/// The value of a constant expression, as compiled code represents it.
fn evaluate(instance: &Inner, expression: &[ConstOp]) -> u128 {
    const INVALID: &str = "validation has typed constant expressions";
    let mut stack: Vec<u128> = Vec::new();
    for op in expression {
        let mut binary = |apply: fn(u64, u64) -> u64, mask: u64| {
            #[expect(clippy::cast_possible_truncation, reason = "integers of at most 64 bits")]
            let mut pop = || stack.pop().expect(INVALID) as u64;
            let (right, left) = (pop(), pop());
            u128::from(apply(left, right) & mask)
        };
        let value = match *op {
            ConstOp::I32(value) => value.cast_unsigned().into(),
            ConstOp::I64(value) => value.cast_unsigned().into(),
            ConstOp::F32(bits) => bits.into(),
            ConstOp::F64(bits) => bits.into(),
            ConstOp::V128(bits) => bits,
            ConstOp::RefNull => 0,
            ConstOp::RefFunc(FuncIndex(index)) => instance.raw_func(FuncIndex(index)).into(),
            // SAFETY: the cell of a global of this store, initialised before this one.
            ConstOp::GlobalGet(index) => unsafe { instance.global_cell(index).read() },
            ConstOp::I32Add => binary(u64::wrapping_add, u32::MAX.into()),
            ConstOp::I32Sub => binary(u64::wrapping_sub, u32::MAX.into()),
            ConstOp::I32Mul => binary(u64::wrapping_mul, u32::MAX.into()),
            ConstOp::I64Add => binary(u64::wrapping_add, u64::MAX),
            ConstOp::I64Sub => binary(u64::wrapping_sub, u64::MAX),
            ConstOp::I64Mul => binary(u64::wrapping_mul, u64::MAX),
        };
        stack.push(value);
    }
    stack.pop().expect(INVALID)
}
