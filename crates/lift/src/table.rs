//! Tables.
//!
//! Invariant: a table's elements and length change when it grows, so both are loaded
//! anew at each use, unless its type leaves no room to grow.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{InstBuilder, Value, types};
use spinwise_model::context::TableDef;
use spinwise_model::index::TableIndex;
use spinwise_model::symbol::Builtin;
use spinwise_model::trap::TrapCode;
use spinwise_model::types::ValType;
use wasmparser::Operator;

use crate::abi::{CONSTANT, CONTEXT, trap};
use crate::func::FuncCx;

/// Lifts an operator on tables; `false` if it is not one.
pub(crate) fn translate(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    use Operator as Op;
    match op {
        Op::TableGet { table } => {
            let index = cx.pop();
            let element = element(cx, TableIndex(*table), index, TrapCode::TableOutOfBounds);
            let value = cx.b.ins().load(types::I64, CONTEXT, element, 0);
            let element = cx.module.tables[*table as usize].element;
            cx.push_typed(value, ValType::Ref(element));
        }
        Op::TableSet { table } => {
            let (index, value) = cx.pop2();
            let table = written(cx, *table);
            let element = element(cx, table, index, TrapCode::TableOutOfBounds);
            cx.b.ins().store(CONTEXT, value, element, 0);
        }
        Op::TableSize { table } => {
            let length = length(cx, TableIndex(*table));
            push_count(cx, TableIndex(*table), length);
        }
        Op::TableGrow { table } => grow(cx, *table),
        Op::TableFill { table } => fill(cx, *table),
        Op::TableCopy { dst_table, src_table } => copy(cx, *dst_table, *src_table),
        Op::TableInit { elem_index, table } => init(cx, *table, *elem_index),
        Op::ElemDrop { elem_index } => {
            let segment = cx.immediate(*elem_index);
            cx.call_builtin(Builtin::ElemDrop, &[cx.vmctx, segment]);
        }
        _ => return false,
    }
    true
}

/// The address of an element, behind a bounds check; the index has the table's index type.
pub(crate) fn element(cx: &mut FuncCx<'_, '_>, table: TableIndex, index: Value, failure: TrapCode) -> Value {
    let index = cx.zero_extended(index);
    let length = length(cx, table);
    let outside = cx.b.ins().icmp(IntCC::UnsignedGreaterThanOrEqual, index, length);
    cx.b.ins().trapnz(outside, trap(failure));
    let flags = if fixed_length(cx, table).is_some() { CONSTANT } else { CONTEXT };
    let def = def(cx, table);
    let base = cx.b.ins().load(types::I64, flags, def, TableDef::BASE);
    let shift = TableDef::ELEMENT_SIZE.ilog2();
    let offset = cx.b.ins().ishl_imm_u(index, i64::from(shift));
    cx.b.ins().iadd(base, offset)
}

/// The number of elements, as 64 bits.
fn length(cx: &mut FuncCx<'_, '_>, table: TableIndex) -> Value {
    if let Some(length) = fixed_length(cx, table) {
        return cx.b.ins().iconst(types::I64, length);
    }
    let def = def(cx, table);
    cx.b.ins().load(types::I64, CONTEXT, def, TableDef::LENGTH)
}

/// The number of elements of a table whose type leaves no room to grow, imported ones included: an import has at least
/// `min` elements and at most `max`.
fn fixed_length(cx: &FuncCx<'_, '_>, table: TableIndex) -> Option<i64> {
    let ty = cx.module.tables[table.index()];
    (ty.max == Some(ty.min)).then_some(ty.min.cast_signed())
}

fn def(cx: &mut FuncCx<'_, '_>, table: TableIndex) -> Value {
    let at = cx.layout.table(table);
    cx.load_context(types::I64, CONSTANT, at)
}

/// Notes that the code writes a table.
fn written(cx: &mut FuncCx<'_, '_>, table: u32) -> TableIndex {
    let table = TableIndex(table);
    cx.facts.written_tables.insert(table);
    table
}

fn grow(cx: &mut FuncCx<'_, '_>, table: u32) {
    let delta = cx.pop_u64();
    let value = cx.pop();
    let table = written(cx, table);
    let index = cx.immediate(table.0);
    let old = cx.call_builtin(Builtin::TableGrow, &[cx.vmctx, index, value, delta]).expect("it returns the old size");
    push_count(cx, table, old);
}

/// Pushes a number of elements, or −1, in the table's index type.
fn push_count(cx: &mut FuncCx<'_, '_>, table: TableIndex, count: Value) {
    let wide = cx.module.tables[table.index()].table64;
    let count = if wide { count } else { cx.b.ins().ireduce(types::I32, count) };
    cx.push(count);
}

fn fill(cx: &mut FuncCx<'_, '_>, table: u32) {
    let length = cx.pop_u64();
    let value = cx.pop();
    let start = cx.pop_u64();
    let index = written(cx, table).0;
    let index = cx.immediate(index);
    cx.call_fallible(Builtin::TableFill, &[cx.vmctx, index, start, value, length]);
}

fn copy(cx: &mut FuncCx<'_, '_>, to: u32, from: u32) {
    let length = cx.pop_u64();
    let source = cx.pop_u64();
    let destination = cx.pop_u64();
    let to = written(cx, to).0;
    let (to, from) = (cx.immediate(to), cx.immediate(from));
    cx.call_fallible(Builtin::TableCopy, &[cx.vmctx, to, from, destination, source, length]);
}

fn init(cx: &mut FuncCx<'_, '_>, table: u32, segment: u32) {
    let (source, length) = cx.pop2();
    let destination = cx.pop_u64();
    let table = written(cx, table).0;
    let (table, segment) = (cx.immediate(table), cx.immediate(segment));
    cx.call_fallible(Builtin::TableInit, &[cx.vmctx, table, segment, destination, source, length]);
}
