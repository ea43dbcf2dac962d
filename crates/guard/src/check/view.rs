//! A guarded function as the checker sees it: blocks, where they lead, and what matters about them.
//!
//! Cost: linear.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_codegen::ir::{Block, ExternalName, Function, Inst, InstructionData, Opcode};
use spinwise_model::index::{TableIndex, TypeIndex};
use spinwise_model::module::{ConstOp, Entity, Module};
use spinwise_model::symbol::{Builtin, NS_BUILTIN, NS_FUNC};

use super::charge;
use super::{Problem, Violation};

/// As many callees of an indirect call count as known.
const FEW: usize = 8;

/// A guarded function, as far as the checker needs it.
#[derive(Debug)]
pub struct View {
    index: u32,
    pub(super) blocks: Vec<BlockView>,
    pub(super) charges_on_entry: bool,
    pub(super) charges: usize,
    pub(super) atomic_reads: usize,
    pub(super) broken: Vec<Violation>,
}

#[derive(Debug, Default)]
pub(super) struct BlockView {
    /// Where it leads, as positions in [`View::blocks`].
    pub(super) next: Vec<usize>,
    pub(super) reachable: bool,
    /// Whether passing it charges the budget, or polls.
    pub(super) charges: bool,
    pub(super) reads: bool,
    pub(super) calls: Vec<Call>,
    offset: Option<u32>,
}

#[derive(Debug)]
pub(super) enum Call {
    /// Of the runtime, and a poll.
    Poll,
    /// Of one of these functions.
    OneOf(Vec<u32>),
    /// Of anything that can be referred to.
    Unknown,
}

impl View {
    pub(super) fn new(tables: &Tables<'_>, index: u32, func: &Function) -> Self {
        let charges = charge::find(func);
        let order: Vec<Block> = func.layout.blocks().collect();
        let place: BTreeMap<Block, usize> = order.iter().copied().zip(0..).collect();
        let mut view = Self {
            index,
            blocks: order.iter().map(|block| BlockView::new(tables, func, *block, &place)).collect(),
            charges_on_entry: charges.hot.first().is_some_and(|block| Some(*block) == func.layout.entry_block()),
            charges: charges.hot.len(),
            atomic_reads: 0,
            broken: Vec::new(),
        };
        for block in charges.hot.iter().chain(&charges.cold) {
            view.blocks[place[block]].charges = true;
        }
        view.mark_reachable();
        let reads =
            |block: &Block| func.layout.block_insts(*block).filter(|inst| reads_atomically(func, *inst)).count();
        view.atomic_reads = order.iter().filter(|block| view.blocks[place[block]].reachable).map(reads).sum();
        view.broken = charges
            .broken
            .into_iter()
            .map(|(inst, what)| {
                let block = func.layout.inst_block(inst).map_or(0, |block| place[&block]);
                view.violation(block, Problem::Guard(what))
            })
            .collect();
        view
    }

    fn mark_reachable(&mut self) {
        let mut work = vec![0];
        while let Some(block) = work.pop() {
            if !std::mem::replace(&mut self.blocks[block].reachable, true) {
                work.extend_from_slice(&self.blocks[block].next);
            }
        }
    }

    /// The functions that its reachable code calls, as far as they are known.
    pub(super) fn callees(&self) -> impl Iterator<Item = u32> + '_ {
        self.blocks.iter().filter(|block| block.reachable).flat_map(BlockView::callees)
    }

    /// Whether it calls anything but the runtime and imported functions, which have the lowest indices.
    pub(super) fn calls_guest_code(&self, imported: u32) -> bool {
        let guest = |call: &Call| match call {
            Call::Poll => false,
            Call::Unknown => true,
            Call::OneOf(callees) => callees.iter().any(|callee| *callee >= imported),
        };
        self.blocks.iter().any(|block| block.reachable && block.calls.iter().any(guest))
    }

    pub(super) fn violation(&self, block: usize, problem: Problem) -> Violation {
        Violation { function: self.index, offset: self.blocks[block].offset, problem }
    }
}

impl BlockView {
    fn new(tables: &Tables<'_>, func: &Function, block: Block, place: &BTreeMap<Block, usize>) -> Self {
        let mut view = Self::default();
        for inst in func.layout.block_insts(block) {
            let location = func.srcloc(inst);
            if view.offset.is_none() && !location.is_default() {
                view.offset = Some(location.bits());
            }
            view.reads |= reads_atomically(func, inst);
            view.calls.extend(call(tables, func, inst));
        }
        view.next = func.block_successors(block).map(|next| place[&next]).collect();
        view
    }

    pub(super) fn callees(&self) -> impl Iterator<Item = u32> + '_ {
        self.calls
            .iter()
            .flat_map(|call| match call {
                Call::OneOf(callees) => callees.as_slice(),
                Call::Poll | Call::Unknown => &[],
            })
            .copied()
    }
}

/// Whether another thread can answer an instruction. What leaves for another stack may do anything.
fn reads_atomically(func: &Function, inst: Inst) -> bool {
    match func.dfg.insts[inst] {
        InstructionData::AtomicRmw { .. } | InstructionData::AtomicCas { .. } => true,
        InstructionData::LoadNoOffset { opcode, .. } => opcode == Opcode::AtomicLoad,
        InstructionData::Ternary { opcode, .. } => opcode == Opcode::StackSwitch,
        _ => false,
    }
}

fn call(tables: &Tables<'_>, func: &Function, inst: Inst) -> Option<Call> {
    let data = &func.dfg.insts[inst];
    match *data {
        InstructionData::Call { func_ref, .. } | InstructionData::TryCall { func_ref, .. } => {
            let ExternalName::User(name) = func.dfg.ext_funcs[func_ref].name else { return None };
            let name = &func.params.user_named_funcs()[name];
            match name.namespace {
                NS_FUNC => Some(Call::OneOf(vec![name.index])),
                NS_BUILTIN => Builtin::from_index(name.index).filter(|b| b.is_poll()).map(|_| Call::Poll),
                _ => None,
            }
        }
        _ if data.opcode().is_call() => {
            Some(tables.reached(func.srcloc(inst).bits()).map_or(Call::Unknown, Call::OneOf))
        }
        _ => None,
    }
}

/// What the tables hold that only the module's active segments can have filled: (table, type, function), sorted.
#[derive(Debug)]
pub(super) struct Tables<'m> {
    module: &'m Module,
    known: BTreeSet<TableIndex>,
    entries: Vec<(TableIndex, TypeIndex, u32)>,
}

impl<'m> Tables<'m> {
    pub(super) fn new(module: &'m Module) -> Self {
        let mut known: BTreeSet<TableIndex> = (module.imported_tables..)
            .zip(&module.tables[module.imported_tables as usize..])
            .map(|(t, _)| TableIndex(t))
            .collect();
        known.retain(|table| !module.written_tables.contains(table));
        for export in &module.exports {
            if let Entity::Table(table) = export.entity {
                known.remove(&table);
            }
        }
        let mut entries = Vec::new();
        for (table, item) in module.initial_elements() {
            match item[..] {
                [ConstOp::RefNull] => {}
                [ConstOp::RefFunc(func)] => {
                    entries.push((table, module.types.canonical(module.functions[func.index()].ty), func.0));
                }
                _ => {
                    known.remove(&table);
                }
            }
        }
        entries.sort_unstable();
        entries.dedup();
        Self { module, known, entries }
    }

    /// What an indirect call can reach, if that is known and little.
    fn reached(&self, offset: u32) -> Option<Vec<u32>> {
        let (table, ty) = self.module.indirect_calls.get(&offset)?;
        let of_table = |entry: &&(TableIndex, TypeIndex, u32)| entry.0 == *table;
        let start = self.entries.partition_point(|entry| entry.0 < *table);
        let entries = &self.entries[start..];
        let functions: Vec<u32> = if self.module.types[*ty].is_final {
            let wanted = self.module.types.canonical(*ty);
            let start = entries.partition_point(|entry| entry.0 == *table && entry.1 < wanted);
            let fitting = entries[start..].iter().take_while(of_table).take_while(|entry| entry.1 == wanted);
            fitting.map(|entry| entry.2).take(FEW + 1).collect()
        } else {
            let fitting = entries.iter().take_while(of_table);
            let fitting = fitting.filter(|entry| self.module.types.is_subtype(entry.1, *ty));
            fitting.map(|entry| entry.2).take(FEW + 1).collect()
        };
        (self.known.contains(table) && functions.len() <= FEW).then_some(functions)
    }
}
