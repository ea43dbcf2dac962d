//! Recognises loops that simply wait, and what for.
//!
//! Invariant: where a [`Watch`] is given, the loop can be left only when `word relation operand` holds (an access that
//! traps would have trapped on the first turn: its address stays, and a memory only grows): its one branch compares one
//! atomic load, nothing is carried from turn to turn, nothing is written, and address and operand are the same on every
//! turn.
//! Cost: constant a loop; a body of more than a few blocks is not looked at.

use std::ops::Range;

use cranelift_codegen::ir::condcodes::{CondCode as _, IntCC};
use cranelift_codegen::ir::{Block, Function, Inst, InstructionData, Opcode, Value, ValueDef};
use spinwise_loops::{NaturalLoop, Node};
use spinwise_model::context::{Layout, MemoryDef, MemoryEntry};
use spinwise_model::index::MemoryIndex;
use spinwise_model::module::Module;

use crate::effects::{Effect, effect};
use crate::facts::Facts;
use crate::plan::{Relation, Watch};

/// A body of more blocks than this does not simply wait.
const MAX_BLOCKS: usize = 8;
/// How deep expressions are followed.
const MAX_DEPTH: u32 = 12;

/// What ends the wait of a loop, if it simply waits.
pub(crate) fn watch(module: &Module, func: &Function, facts: &Facts, natural: &NaturalLoop) -> Option<Watch> {
    let body = Body::new(func, facts, natural)?;
    if body.carries_values() {
        return None;
    }
    let lengths = Lengths::new(module);
    let mut load = None;
    let mut exit = None;
    for block in &body.blocks {
        for inst in func.layout.block_insts(*block) {
            match func.dfg.insts[inst].opcode() {
                Opcode::AtomicLoad if load.is_none() => load = Some(inst),
                Opcode::Brif if exit.is_none() => exit = Some(inst),
                // A fence orders, it changes nothing.
                Opcode::Jump | Opcode::Nop | Opcode::Fence => {}
                Opcode::Trapz | Opcode::Trapnz if body.is_same_each_turn(func.dfg.inst_args(inst)[0], 0) => {}
                Opcode::Trapnz if body.is_bounds_check(&lengths, inst) => {}
                Opcode::UaddOverflowTrap if func.dfg.inst_args(inst).iter().all(|a| body.is_same_each_turn(*a, 0)) => {}
                _ if is_pure(func, inst) || lengths.is_loaded_by(func, inst) => {}
                _ => return None,
            }
        }
    }
    let load = load?;
    let (word, address) = (func.dfg.first_result(load), func.dfg.inst_args(load)[0]);
    let condition = body.exit_condition(exit?)?;
    let (relation, widened) = body.comparison_of(word, condition)?;
    let width = func.dfg.value_type(word).bits();
    // A zero-extended word is never negative: signed relations of the wide and the narrow word differ.
    let usable = body.is_same_each_turn(address, 0) && !(widened && relation.is_signed());
    let place = Place::new(module, func, address);
    usable.then_some(Watch { memory: place.memory, width, exit_when: relation, offset: place.offset })
}

/// A condition that ends the loop when it is nonzero, or when it is zero.
#[derive(Clone, Copy)]
struct Condition {
    value: Value,
    nonzero: bool,
}

struct Body<'f> {
    func: &'f Function,
    header: Block,
    latches: Vec<Block>,
    blocks: Vec<Block>,
}

impl<'f> Body<'f> {
    fn new(func: &'f Function, facts: &Facts, natural: &NaturalLoop) -> Option<Self> {
        let mut nodes: Vec<Node> = vec![natural.header];
        let mut work = natural.latches.clone();
        while let Some(node) = work.pop() {
            if !nodes.contains(&node) {
                nodes.push(node);
                work.extend(facts.graph.predecessors(node).iter().filter(|p| facts.dominators.is_reachable(**p)));
            }
            if nodes.len() > MAX_BLOCKS || work.len() > MAX_BLOCKS {
                return None;
            }
        }
        let block = |node: Node| facts.blocks[node as usize];
        Some(Self {
            func,
            header: block(natural.header),
            latches: natural.latches.iter().map(|latch| block(*latch)).collect(),
            blocks: nodes.into_iter().map(block).collect(),
        })
    }

    /// Whether a back edge gives the header another value than it had.
    fn carries_values(&self) -> bool {
        let dfg = &self.func.dfg;
        let params = dfg.block_params(self.header);
        self.latches.iter().filter_map(|latch| self.func.layout.last_inst(*latch)).any(|inst| {
            let destinations = dfg.insts[inst].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
            destinations.iter().filter(|call| call.block(&dfg.value_lists) == self.header).any(|call| {
                let args = call.args(&dfg.value_lists);
                args.zip(params).any(|(arg, param)| arg.as_value().map(|v| dfg.resolve_aliases(v)) != Some(*param))
            })
        })
    }

    /// What the loop's one branch tests, if one side of it leaves the loop.
    fn exit_condition(&self, branch: Inst) -> Option<Condition> {
        let dfg = &self.func.dfg;
        let destinations = dfg.insts[branch].branch_destination(&dfg.jump_tables, &dfg.exception_tables);
        let [then, otherwise] = [0, 1].map(|side| self.blocks.contains(&destinations[side].block(&dfg.value_lists)));
        (then != otherwise).then(|| Condition { value: dfg.inst_args(branch)[0], nonzero: otherwise })
    }

    /// The relation of `word` to an operand that stays the same which makes a condition true, and whether the word was
    /// zero-extended for it.
    fn comparison_of(&self, word: Value, condition: Condition) -> Option<(Relation, bool)> {
        let dfg = &self.func.dfg;
        let Condition { mut value, mut nonzero } = condition;
        for _ in 0..MAX_DEPTH {
            value = dfg.resolve_aliases(value);
            if let Some(widened) = self.is_word(word, value) {
                return Some((if nonzero { Relation::Ne } else { Relation::Eq }, widened));
            }
            let inst = dfg.value_def(value).inst()?;
            let InstructionData::IntCompare { args: [left, right], cond, .. } = dfg.insts[inst] else {
                value = zero_extended(self.func, value)?;
                continue;
            };
            let cond = if nonzero { cond } else { cond.complement() };
            if let Some(widened) = self.is_word(word, left) {
                return self.is_same_each_turn(right, 0).then_some((relation(cond), widened));
            }
            if let Some(widened) = self.is_word(word, right) {
                return self.is_same_each_turn(left, 0).then_some((relation(cond.swap_args()), widened));
            }
            // A comparison of a condition with zero.
            nonzero = match cond {
                IntCC::Equal => false,
                IntCC::NotEqual => true,
                _ => return None,
            };
            if constant(self.func, right) != Some(0) {
                return None;
            }
            value = left;
        }
        None
    }

    /// Whether a value is the word, and if so whether widened.
    fn is_word(&self, word: Value, value: Value) -> Option<bool> {
        let value = self.func.dfg.resolve_aliases(value);
        if value == word {
            return Some(false);
        }
        let narrow = zero_extended(self.func, value)?;
        (self.func.dfg.resolve_aliases(narrow) == word).then_some(true)
    }

    /// Whether a value is the same on every turn: made outside the loop, or purely from such.
    fn is_same_each_turn(&self, value: Value, depth: u32) -> bool {
        let dfg = &self.func.dfg;
        match dfg.value_def(dfg.resolve_aliases(value)) {
            // A parameter of the header stays: nothing is carried.
            ValueDef::Param(block, _) => block == self.header || !self.blocks.contains(&block),
            ValueDef::Result(inst, _) => {
                let outside = self.func.layout.inst_block(inst).is_none_or(|block| !self.blocks.contains(&block));
                let same = |arg: &Value| self.is_same_each_turn(*arg, depth + 1);
                // A sum that traps does so on the first turn.
                let computed = is_pure(self.func, inst) || dfg.insts[inst].opcode() == Opcode::UaddOverflowTrap;
                outside || (depth < MAX_DEPTH && computed && dfg.inst_args(inst).iter().all(same))
            }
            ValueDef::Union(..) => false,
        }
    }

    /// Whether a trap says that what stays the same is beyond the length of a memory: it never will be if it is not on the
    /// first turn.
    fn is_bounds_check(&self, lengths: &Lengths, trap: Inst) -> bool {
        let dfg = &self.func.dfg;
        let made_by = |value| dfg.value_def(dfg.resolve_aliases(value)).inst();
        let Some(compare) = made_by(dfg.inst_args(trap)[0]) else { return false };
        let InstructionData::IntCompare { args: [last, length], cond: IntCC::UnsignedGreaterThan, .. } =
            dfg.insts[compare]
        else {
            return false;
        };
        self.is_same_each_turn(last, 0) && made_by(length).is_some_and(|load| lengths.is_loaded_by(self.func, load))
    }
}

/// Where the lengths of a module's memories are found.
struct Lengths {
    /// Offsets in the instance context of the addresses of [`MemoryDef`].
    defs: Range<i32>,
}

impl Lengths {
    fn new(module: &Module) -> Self {
        let layout = Layout::new(module);
        let at = |index: usize| layout.memory(MemoryIndex(u32::try_from(index).expect("a small number of memories")));
        Self { defs: at(0)..at(module.memories.len()) }
    }

    /// Whether an instruction loads the length of a memory, which only grows.
    fn is_loaded_by(&self, func: &Function, load: Inst) -> bool {
        let plain = |inst: Inst| match func.dfg.insts[inst] {
            InstructionData::Load { opcode: Opcode::Load, arg, offset, .. } => Some((arg, i32::from(offset))),
            _ => None,
        };
        let Some((def, MemoryDef::LENGTH)) = plain(load) else { return false };
        let def = func.dfg.value_def(func.dfg.resolve_aliases(def)).inst();
        let Some((context, at)) = def.and_then(plain) else { return false };
        let vmctx = func.layout.entry_block().and_then(|entry| func.dfg.block_params(entry).first());
        let is_def = self.defs.contains(&at) && (at - self.defs.start) % MemoryEntry::SIZE == MemoryEntry::DEF;
        is_def && Some(&func.dfg.resolve_aliases(context)) == vmctx
    }
}

/// Whether an instruction only computes, from its arguments and from what never changes while guest code runs.
fn is_pure(func: &Function, inst: Inst) -> bool {
    let data = &func.dfg.insts[inst];
    let opcode = data.opcode();
    let quiet = !(opcode.can_store() || opcode.can_trap() || opcode.other_side_effects() || opcode.is_terminator());
    match effect(opcode) {
        Effect::None => quiet,
        Effect::Load => data.memflags_data(&func.dfg).is_some_and(|flags| flags.readonly() && flags.notrap()),
        Effect::AtomicRead | Effect::Call => false,
    }
}

/// What a value is the zero-extension of.
fn zero_extended(func: &Function, value: Value) -> Option<Value> {
    match func.dfg.insts[func.dfg.value_def(value).inst()?] {
        InstructionData::Unary { opcode: Opcode::Uextend, arg } => Some(arg),
        _ => None,
    }
}

fn constant(func: &Function, value: Value) -> Option<i64> {
    let inst = func.dfg.value_def(func.dfg.resolve_aliases(value)).inst()?;
    match func.dfg.insts[inst] {
        InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits()),
        _ => None,
    }
}

fn relation(cond: IntCC) -> Relation {
    match cond {
        IntCC::Equal => Relation::Eq,
        IntCC::NotEqual => Relation::Ne,
        IntCC::SignedLessThan => Relation::LtS,
        IntCC::SignedLessThanOrEqual => Relation::LeS,
        IntCC::SignedGreaterThan => Relation::GtS,
        IntCC::SignedGreaterThanOrEqual => Relation::GeS,
        IntCC::UnsignedLessThan => Relation::LtU,
        IntCC::UnsignedLessThanOrEqual => Relation::LeU,
        IntCC::UnsignedGreaterThan => Relation::GtU,
        IntCC::UnsignedGreaterThanOrEqual => Relation::GeU,
    }
}

/// Where a guest address is: the memory whose base is in the sum, and the constant added to the index. A constant index, or
/// one that the guest has computed itself, holds none of it; with 64-bit indices what the guest added last looks the same.
struct Place {
    memory: u32,
    offset: u64,
}

impl Place {
    fn new(module: &Module, func: &Function, address: Value) -> Self {
        let layout = Layout::new(module);
        let sum = |value| match func.dfg.insts[func.dfg.value_def(func.dfg.resolve_aliases(value)).inst()?] {
            InstructionData::Binary { opcode: Opcode::Iadd, args } => Some(args),
            _ => None,
        };
        let memory_of = |base| match func.dfg.insts[func.dfg.value_def(func.dfg.resolve_aliases(base)).inst()?] {
            InstructionData::Load { offset, .. } => (0u32..)
                .take(module.memories.len())
                .find(|index| layout.memory(MemoryIndex(*index)) + MemoryEntry::BASE == i32::from(offset)),
            _ => None,
        };
        let mut place = Self { memory: 0, offset: 0 };
        let Some([base, index]) = sum(address) else { return place };
        place.memory = memory_of(base).unwrap_or(place.memory);
        if let Some([_, offset]) = sum(index) {
            place.offset = constant(func, offset).map_or(0, i64::cast_unsigned);
        }
        place
    }
}
