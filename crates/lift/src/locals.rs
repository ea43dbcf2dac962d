//! Parameters and locals.
//!
//! Usually each is a variable of the frontend's SSA construction (Braun et al. 2013). That may need, for each variable, an
//! argument on each edge of the control-flow graph, and keeps a table of as many entries; so where the product of the two
//! is hostile, locals live in stack slots instead: slower code, but linear memory and time.

use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{Block, InstBuilder, StackSlot, StackSlotData, StackSlotKind, Type, Value, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use wasmparser::{FunctionBody, Operator};

use crate::abi::clif_type;
use crate::func::FuncCx;
use crate::types::val_type;

/// Locals times branches beyond which locals go to stack slots: 2^26 edge arguments take half a GiB. The worst function
/// of ONNX Runtime comes to a thirtieth of it.
const MAX_PRODUCT: u64 = 1 << 26;

/// How many locals a function is taken to have at least: a look-up clears a set of all blocks, whatever it looks for.
const MIN_LOCALS: u64 = 128;

/// Where each parameter and local is, by index.
pub(crate) enum Locals {
    /// In SSA variables.
    Variables(Vec<Variable>),
    /// In memory.
    Slots(Vec<(StackSlot, Type)>),
}

impl Locals {
    /// Declares them in the entry block: parameters with their values, the others zero. (What cannot be null is null at
    /// first as well: validation sees to it that it is set before it is read.)
    ///
    /// # Errors
    /// None after validation of the locals.
    pub(crate) fn declare(
        b: &mut FunctionBuilder<'_>,
        entry: Block,
        code: &FunctionBody<'_>,
    ) -> wasmparser::Result<Self> {
        let mut values = b.block_params(entry)[1..].to_vec();
        let mut zeros = Zeros::default();
        for group in code.get_locals_reader()? {
            let (count, ty) = group?;
            let ty = val_type(ty).expect("validated locals");
            let zero = zeros.get(b, clif_type(ty));
            values.extend(std::iter::repeat_n(zero, count as usize));
        }
        if is_hostile(values.len() as u64, code) {
            return Ok(Self::Slots(values.into_iter().map(|value| to_slot(b, value)).collect()));
        }
        let declare = |value: Value| {
            let variable = b.declare_var(b.func.dfg.value_type(value));
            b.def_var(variable, value);
            variable
        };
        Ok(Self::Variables(values.into_iter().map(declare).collect()))
    }
}

fn to_slot(b: &mut FunctionBuilder<'_>, value: Value) -> (StackSlot, Type) {
    let ty = b.func.dfg.value_type(value);
    let align = ty.bytes().ilog2().try_into().expect("at most 4");
    let slot = b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, ty.bytes(), align));
    b.ins().stack_store(types::I64, value, slot, 0);
    (slot, ty)
}

/// Whether SSA construction could need too much. The body is read for it only if its length alone does not rule it out;
/// what is malformed is left for validation to report.
fn is_hostile(locals: u64, code: &FunctionBody<'_>) -> bool {
    let locals = locals.max(MIN_LOCALS);
    let range = code.range();
    if locals * (range.end - range.start) <= MAX_PRODUCT {
        return false;
    }
    let Ok(reader) = code.get_operators_reader() else { return false };
    let (mut sum, mut handles) = (0, false);
    for op in reader.into_iter().map_while(Result::ok) {
        handles |= matches!(op, Operator::TryTable { .. } | Operator::Try { .. });
        sum += edges(&op, handles);
    }
    locals * sum > MAX_PRODUCT
}

/// Edges that an operator adds, calls too if exceptions may be handled. An unconditional branch makes dead what follows, so
/// that each needs another to live.
fn edges(op: &Operator<'_>, handles: bool) -> u64 {
    use Operator as Op;
    match op {
        Op::TryTable { try_table } => try_table.catches.len() as u64 + 1,
        Op::Try { .. } | Op::Catch { .. } | Op::CatchAll => 1,
        Op::Call { .. } | Op::CallIndirect { .. } | Op::CallRef { .. } => handles.into(),
        Op::Block { .. } | Op::Loop { .. } | Op::If { .. } | Op::Else | Op::BrIf { .. } => 1,
        Op::BrTable { targets } => u64::from(targets.len()) + 1,
        _ => 0,
    }
}

/// One zero of each type, made when first needed.
#[derive(Default)]
struct Zeros(Vec<(Type, Value)>);

impl Zeros {
    fn get(&mut self, b: &mut FunctionBuilder<'_>, ty: Type) -> Value {
        if let Some((_, zero)) = self.0.iter().find(|(known, _)| *known == ty) {
            return *zero;
        }
        let zero = match ty {
            types::F32 => b.ins().f32const(Ieee32::with_bits(0)),
            types::F64 => b.ins().f64const(Ieee64::with_bits(0)),
            types::I8X16 => {
                let zero = b.func.dfg.constants.insert([0; 16].as_slice().into());
                b.ins().vconst(ty, zero)
            }
            _ => b.ins().iconst(ty, 0),
        };
        self.0.push((ty, zero));
        zero
    }
}

/// Lifts an operator on locals; `false` if it is not one.
pub(crate) fn translate(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    match op {
        Operator::LocalGet { local_index } => {
            let value = match &cx.locals {
                Locals::Variables(variables) => cx.b.use_var(variables[*local_index as usize]),
                Locals::Slots(slots) => {
                    let (slot, ty) = slots[*local_index as usize];
                    cx.b.ins().stack_load(types::I64, ty, slot, 0)
                }
            };
            cx.push(value);
        }
        Operator::LocalSet { local_index } => {
            let value = cx.pop_canonical();
            set(cx, *local_index, value);
        }
        Operator::LocalTee { local_index } => {
            let value = cx.pop_canonical();
            set(cx, *local_index, value);
            cx.push(value);
        }
        _ => return false,
    }
    true
}

fn set(cx: &mut FuncCx<'_, '_>, index: u32, value: Value) {
    match &cx.locals {
        Locals::Variables(variables) => cx.b.def_var(variables[index as usize], value),
        Locals::Slots(slots) => {
            let (slot, _) = slots[index as usize];
            cx.b.ins().stack_store(types::I64, value, slot, 0);
        }
    }
}
