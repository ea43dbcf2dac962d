//! Which values the collector must find: those that may be objects of the heap.
//!
//! Invariant: across each call, every such value that is used later lies in a stack slot that the call's stack map names.
//! The frontend spills and names declared values; locals that do not live in variables have a slot of their own each call
//! names as a whole. So a value is declared where it is made, by its WebAssembly type, and derived addresses never outlive
//! the access they are for.
//!
//! Cost: in a function with such values a store where one that lives across a call is made and a load at each use. Nothing in
//! other functions.

use cranelift_codegen::ir::{Function, StackSlot, UserStackMapEntry, Value, types};
use spinwise_model::types::ValType;

use crate::func::FuncCx;

/// The type by which a stack map names a slot that holds a number and, behind it, as many references.
pub(crate) const COUNTED: cranelift_codegen::ir::Type = types::I32;

impl FuncCx<'_, '_> {
    /// Pushes a value of a type, and has the collector find it if it may be an object.
    pub(crate) fn push_typed(&mut self, value: Value, ty: ValType) {
        self.trace(value, ty);
        self.push(value);
    }

    /// Has the collector find a value of a type, if it may be an object.
    pub(crate) fn trace(&mut self, value: Value, ty: ValType) {
        if self.module.types.may_be_object(ty) {
            self.b.declare_value_needs_stack_map(value);
            self.traces = true;
        }
    }

    /// Counts what may live across a call or into a block: each of these operands may be named in its stack map.
    pub(crate) fn charge_crossing(&mut self) {
        if self.traces {
            self.charge(self.stack.len());
        }
    }
}

/// Names a slot of counted references in the stack map of each call.
pub(crate) fn name_everywhere(func: &mut Function, slot: StackSlot) {
    for block in func.layout.blocks().collect::<Vec<_>>() {
        let calls = func.layout.block_insts(block).filter(|inst| func.dfg.insts[*inst].opcode().is_safepoint());
        for call in calls.collect::<Vec<_>>() {
            func.dfg.append_user_stack_map_entry(call, UserStackMapEntry { ty: COUNTED, slot, offset: 0 });
        }
    }
}
