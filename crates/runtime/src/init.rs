//! What instantiation computes and copies: globals, active segments, and the bulk operations they share with code.
//!
//! Source: core spec 4.5.4, 4.4.6–4.4.7, extended constants. A segment's range is checked before anything is copied.
#![expect(unsafe_code, reason = "writes the cells of globals, and tables")]

use spinwise_model::heap::I31;
use spinwise_model::index::{FuncIndex, GlobalIndex};
use spinwise_model::module::{ConstOp, ElementMode};
use spinwise_model::trap::TrapCode;

use crate::error::Error;
use crate::heap::shape::Content;
use crate::heap::{Collect, object};
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
///
/// # Errors
/// [`TrapCode::OutOfMemory`] where there is no room for their objects; so for the two below.
pub(crate) fn globals(instance: &Inner) -> Result<(), TrapCode> {
    let module = instance.module();
    for (index, init) in (module.imported_globals..).zip(&module.global_inits) {
        let value = evaluate(instance, init)?;
        // SAFETY: the cell is in the context, which no code uses yet.
        unsafe { instance.global_cell(GlobalIndex(index)).write(value) };
    }
    Ok(())
}

/// Fills the tables that the module defines, where it says with what.
pub(crate) fn tables(instance: &Inner) -> Result<(), TrapCode> {
    let module = instance.module();
    for (index, init) in (module.imported_tables..).zip(&module.table_inits) {
        let Some(init) = init else { continue };
        let reference = evaluate_reference(instance, init)?;
        // SAFETY: an instance's tables are its store's, and nothing else borrows this one.
        unsafe { instance.table(index).elements() }.fill(reference);
    }
    Ok(())
}

/// Evaluates the element segments that make objects: each object once. The others are evaluated where they are used.
pub(crate) fn element_objects(instance: &Inner) -> Result<(), TrapCode> {
    for (segment, made) in instance.module().elements.iter().zip(&instance.element_objects) {
        if segment.items.iter().flatten().any(|op| op.allocates()) {
            let elements: Result<_, _> = segment.items.iter().map(|item| evaluate_reference(instance, item)).collect();
            *made.borrow_mut() = Some(elements?);
        }
    }
    Ok(())
}

/// Applies active segments in order: elements, then data.
pub(crate) fn segments(instance: &Inner, which: Segments) -> Result<(), Error> {
    let module = instance.module();
    for (index, segment) in module.elements.iter().enumerate() {
        match &segment.mode {
            ElementMode::Passive => {}
            ElementMode::Declared => drop_elements(instance, index),
            ElementMode::Active { table, offset } => {
                let offset = evaluate_index(instance, offset, module.tables[table.index()].table64);
                let length = to_u32(segment.items.len());
                table_init(instance, table.0, to_u32(index), offset, 0, length)?;
                drop_elements(instance, index);
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
    let items = elements(instance, segment, source, length)?;
    // SAFETY: an instance's tables are its store's, and evaluation below touches none.
    let range = unsafe { instance.table(table).range(destination, length.into()) }?;
    for (element, item) in range.iter_mut().zip(items) {
        *element = item;
    }
    Ok(())
}

/// `elem.drop`
pub(crate) fn drop_elements(instance: &Inner, segment: usize) {
    instance.dropped_elements[segment].set(true);
    instance.element_objects[segment].take();
}

/// Elements of a segment: references.
pub(crate) fn elements(
    instance: &Inner,
    segment: u32,
    source: u32,
    length: u32,
) -> Result<impl Iterator<Item = u64>, TrapCode> {
    let segment = segment as usize;
    let gone = instance.dropped_elements[segment].get();
    let items = if gone { &[][..] } else { &instance.module().elements[segment].items };
    let start = source as usize;
    let end = start.checked_add(length as usize).filter(|end| *end <= items.len());
    let range = start..end.ok_or(TrapCode::TableOutOfBounds)?;
    Ok(range.map(move |index| match &*instance.element_objects[segment].borrow() {
        Some(made) => made[index],
        None => evaluate_reference(instance, &items[index]).expect("it makes no object"),
    }))
}

/// The value of a constant expression of an index type.
fn evaluate_index(instance: &Inner, expression: &[ConstOp], wide: bool) -> u64 {
    let value = evaluate_reference(instance, expression).expect("an index is no object");
    if wide { value } else { value & u64::from(u32::MAX) }
}

/// The value of a constant expression of 64 bits.
fn evaluate_reference(instance: &Inner, expression: &[ConstOp]) -> Result<u64, TrapCode> {
    #[expect(clippy::cast_possible_truncation, reason = "validated to be of a type of 64 bits, or of fewer")]
    let value = evaluate(instance, expression)? as u64;
    Ok(value)
}

/// The value of a constant expression, as compiled code represents it. Nothing is collected meanwhile: what it makes is on
/// its own stack only.
fn evaluate(instance: &Inner, expression: &[ConstOp]) -> Result<u128, TrapCode> {
    const INVALID: &str = "validation has typed constant expressions";
    // SAFETY: whoever makes an instance, or runs its code, runs its thread.
    let running = unsafe { instance.running() };
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
            ConstOp::RefI31 => {
                let bits = stack.pop().expect(INVALID);
                (bits << 1 | u128::from(I31)) & u128::from(u32::MAX)
            }
            ConstOp::StructNewDefault(ty) | ConstOp::StructNew(ty) => {
                let shape = instance.program().types.shape(ty);
                let object = object::new_struct(running, shape, Collect::Forbidden)?;
                if let (ConstOp::StructNew(_), Content::Struct { fields, layout, .. }) = (*op, &shape.content) {
                    let values = stack.split_off(stack.len() - fields.len());
                    for ((field, offset), value) in fields.iter().zip(&layout.offsets).zip(values) {
                        // SAFETY: a field of the new structure.
                        unsafe { object::set_field(object, *offset, field.storage, value) };
                    }
                }
                object.into()
            }
            ConstOp::ArrayNewDefault(ty) | ConstOp::ArrayNew(ty) => {
                #[expect(clippy::cast_possible_truncation, reason = "validated to be an i32")]
                let length = stack.pop().expect(INVALID) as u32;
                let shape = instance.program().types.shape(ty);
                let array = object::new_array(running, shape, length, Collect::Forbidden)?;
                if let ConstOp::ArrayNew(_) = op {
                    array.fill(running, 0, length, stack.pop().expect(INVALID))?;
                }
                array.object.into()
            }
            ConstOp::ArrayNewFixed(ty, length) => {
                let shape = instance.program().types.shape(ty);
                let array = object::new_array(running, shape, length, Collect::Forbidden)?;
                array.set(0, length, stack.split_off(stack.len() - length as usize).into_iter())?;
                array.object.into()
            }
        };
        stack.push(value);
    }
    Ok(stack.pop().expect(INVALID))
}
