//! Recognises charges in guarded code by what their instructions do.
//!
//! A charge is a block that loads the thread's budget, subtracts a weight, stores the result where it came from and branches
//! on `result <= 0` to a block that calls the poll thunk with the same thread and then traps if the thread was interrupted.
//! Anything else that calls the thunk or writes the budget is broken.
//!
//! Cost: linear.

use std::collections::{BTreeMap, BTreeSet};

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, ExternalName, Function, Inst, InstructionData, Opcode, Value, types};
use spinwise_model::context::{InstanceHeader, ThreadContext};
use spinwise_model::symbol::NS_POLL_THUNK;
use spinwise_model::trap::TrapCode;

/// The weights that a loop or function may have: 2^18 over an interval of 2^14 to 2^8.
const WEIGHTS: std::ops::RangeInclusive<i64> = 16..=1024;

/// The charges of a function.
#[derive(Debug, Default)]
pub(super) struct Charges {
    /// Blocks that charge, in layout order.
    pub(super) hot: Vec<Block>,
    /// The blocks that poll for them.
    pub(super) cold: BTreeSet<Block>,
    /// What looks like a part of a guard but is not, and why.
    pub(super) broken: Vec<(Inst, &'static str)>,
}

/// Finds all charges.
pub(super) fn find(func: &Function) -> Charges {
    let reader = Reader { func };
    let mut charges = Charges::default();
    let mut sites = BTreeMap::new();
    let mut good = BTreeSet::new();
    for block in func.layout.blocks() {
        let Some(write) = func.layout.block_insts(block).find(|inst| reader.writes_budget(*inst)) else { continue };
        match reader.charge(block, write) {
            Ok(charge) => {
                if sites.insert(charge.site, block).is_some() {
                    charges.broken.push((write, "two guards have one site number"));
                }
                charges.hot.push(block);
                charges.cold.insert(charge.cold);
                good.extend([write, charge.call]);
            }
            Err(what) => charges.broken.push((write, what)),
        }
    }
    for inst in func.layout.blocks().flat_map(|block| func.layout.block_insts(block)) {
        if !good.contains(&inst) && (reader.writes_budget(inst) || reader.calls_thunk(inst)) {
            charges.broken.push((inst, "a budget update or a poll that no charge holds"));
        }
    }
    charges
}

/// A correct charge.
struct Charge {
    cold: Block,
    call: Inst,
    site: i64,
}

struct Reader<'f> {
    func: &'f Function,
}

impl Reader<'_> {
    /// The charge that the budget write in a block is part of.
    fn charge(&self, block: Block, write: Inst) -> Result<Charge, &'static str> {
        let layout = &self.func.layout;
        let InstructionData::Store { args: [left, thread], .. } = *self.data(write) else {
            return Err("the budget is written in an odd way");
        };
        let left = self.value(left);
        let (subtract, [before, weight]) = self.binary(left, Opcode::Isub).ok_or("the budget is not counted down")?;
        let load = self.inst(before).ok_or("the budget that is counted down was not loaded")?;
        if !self.is_load(load, types::I32, ThreadContext::BUDGET, |base| base == self.value(thread)) {
            return Err("the budget that is counted down was not loaded from the thread");
        }
        let weight = self.constant(weight).ok_or("the weight is not a constant")?;
        if !WEIGHTS.contains(&weight) {
            return Err("the weight is out of range");
        }
        let branch = layout.last_inst(block).ok_or("the block is empty")?;
        let InstructionData::Brif { arg, blocks: [exhausted, _], .. } = *self.data(branch) else {
            return Err("nothing tests the budget");
        };
        let (test, cond, [tested, zero]) = self.comparison(arg).ok_or("nothing compares the budget")?;
        if (cond, tested, self.constant(zero)) != (IntCC::SignedLessThanOrEqual, left, Some(0)) {
            return Err("the test does not see that the budget is gone");
        }
        let here = |inst: Inst| layout.inst_block(inst) == Some(block);
        let ordered = [load, subtract, write].windows(2).all(|pair| layout.pp_cmp(pair[0], pair[1]).is_lt());
        if !here(load) || !here(subtract) || !here(test) || !ordered {
            return Err("the charge is spread over blocks");
        }
        let cold = exhausted.block(&self.func.dfg.value_lists);
        let (call, site) = self.poll(cold, self.value(thread))?;
        Ok(Charge { cold, call, site })
    }

    /// The call of the thunk in the block for an empty budget, and its site.
    fn poll(&self, cold: Block, thread: Value) -> Result<(Inst, i64), &'static str> {
        let layout = &self.func.layout;
        let call = layout
            .block_insts(cold)
            .find(|inst| self.calls_thunk(*inst))
            .ok_or("an empty budget does not lead to a poll")?;
        let [passed, site] = *self.func.dfg.inst_args(call) else { return Err("the poll takes a thread and a site") };
        if self.value(passed) != thread {
            return Err("another thread is polled");
        }
        let site = self.constant(site).ok_or("the site is not a constant")?;
        let mut after = layout.block_insts(cold).skip_while(|inst| *inst != call);
        let stops = after.any(|inst| {
            let InstructionData::CondTrap { opcode: Opcode::Trapnz, arg, code } = *self.data(inst) else {
                return false;
            };
            let asked = |load: Inst| {
                self.is_load(load, types::I32, ThreadContext::INTERRUPTED, |base| base == thread)
                    && layout.inst_block(load) == Some(cold)
                    && layout.pp_cmp(call, load).is_lt()
            };
            code.as_raw().get() == raw_user(TrapCode::Interrupted) && self.inst(self.value(arg)).is_some_and(asked)
        });
        let goes_on = layout.last_inst(cold).is_some_and(|last| self.data(last).opcode() == Opcode::Jump);
        match (stops, goes_on) {
            (true, true) => Ok((call, site)),
            (false, _) => Err("nothing tests after the poll whether the thread was interrupted"),
            (_, false) => Err("the poll does not go back"),
        }
    }

    fn writes_budget(&self, inst: Inst) -> bool {
        match *self.data(inst) {
            InstructionData::Store { args: [_, base], offset, .. } => {
                i32::from(offset) == ThreadContext::BUDGET && self.is_thread(base)
            }
            _ => false,
        }
    }

    fn calls_thunk(&self, inst: Inst) -> bool {
        let InstructionData::Call { func_ref, .. } = *self.data(inst) else { return false };
        let ExternalName::User(name) = self.func.dfg.ext_funcs[func_ref].name else { return false };
        self.func.params.user_named_funcs()[name].namespace == NS_POLL_THUNK
    }

    /// Whether a value is the thread's address, as the instance context of this very function has it.
    fn is_thread(&self, value: Value) -> bool {
        let entry = self.func.layout.entry_block().expect("a function has an entry block");
        let vmctx = self.func.dfg.block_params(entry).first().copied();
        self.inst(self.value(value))
            .is_some_and(|load| self.is_load(load, types::I64, InstanceHeader::THREAD, |base| Some(base) == vmctx))
    }

    fn is_load(&self, inst: Inst, ty: types::Type, at: i32, base: impl Fn(Value) -> bool) -> bool {
        match *self.data(inst) {
            InstructionData::Load { opcode: Opcode::Load, arg, offset, .. } => {
                let loaded = self.func.dfg.first_result(inst);
                i32::from(offset) == at && self.func.dfg.value_type(loaded) == ty && base(self.value(arg))
            }
            _ => false,
        }
    }

    fn binary(&self, value: Value, wanted: Opcode) -> Option<(Inst, [Value; 2])> {
        let inst = self.inst(value)?;
        match *self.data(inst) {
            InstructionData::Binary { opcode, args } if opcode == wanted => {
                Some((inst, args.map(|arg| self.value(arg))))
            }
            _ => None,
        }
    }

    fn comparison(&self, value: Value) -> Option<(Inst, IntCC, [Value; 2])> {
        let inst = self.inst(self.value(value))?;
        match *self.data(inst) {
            InstructionData::IntCompare { cond, args, .. } => Some((inst, cond, args.map(|arg| self.value(arg)))),
            _ => None,
        }
    }

    fn constant(&self, value: Value) -> Option<i64> {
        match *self.data(self.inst(self.value(value))?) {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(imm.bits()),
            _ => None,
        }
    }

    fn value(&self, value: Value) -> Value {
        self.func.dfg.resolve_aliases(value)
    }

    fn inst(&self, value: Value) -> Option<Inst> {
        self.func.dfg.value_def(value).inst()
    }

    fn data(&self, inst: Inst) -> &InstructionData {
        &self.func.dfg.insts[inst]
    }
}

/// A trap code as an instruction carries it.
fn raw_user(code: TrapCode) -> u8 {
    cranelift_codegen::ir::TrapCode::unwrap_user(code.raw()).as_raw().get()
}
