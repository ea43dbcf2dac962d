//! Parameters and locals.
//!
//! Usually each is a variable of the frontend's SSA construction (Braun et al. 2013). That may need, for each variable, an
//! argument on each edge of the control-flow graph, and keeps a table of as many entries; so where the product of the two
//! is hostile, locals live in stack slots instead: slower code, but linear memory and time. References that the collector
//! must find then lie side by side in one slot behind their number, which the stack map of each call names.

use cranelift_codegen::ir::immediates::{Ieee32, Ieee64};
use cranelift_codegen::ir::{Block, InstBuilder, StackSlot, StackSlotData, StackSlotKind, Type, Value, types};
use cranelift_frontend::{FunctionBuilder, Variable};
use spinwise_model::index::TypeIndex;
use spinwise_model::module::Module;
use spinwise_model::types::ValType;
use wasmparser::{FunctionBody, Operator};

use crate::abi::clif_type;
use crate::func::FuncCx;
use crate::types::val_type;

/// Locals times branches beyond which locals go to stack slots: 2^26 edge arguments take half a GiB. The worst function
/// of ONNX Runtime comes to a thirtieth of it.
const MAX_PRODUCT: u64 = 1 << 26;

/// The same for references that the collector must find, times branches and calls: each may be an entry of a set.
const MAX_TRACED_PRODUCT: u64 = 1 << 22;

/// How many locals a function is taken to have at least: a look-up clears a set of all blocks, whatever it looks for.
const MIN_LOCALS: u64 = 128;

/// Where each parameter and local is, by index.
pub(crate) enum Locals {
    /// In SSA variables.
    Variables(Vec<Variable>),
    /// In memory.
    Slots {
        /// Where each is.
        places: Vec<Place>,
        /// The slot of those that the collector must find: their number, then they themselves.
        references: Option<StackSlot>,
    },
}

/// A place in memory.
#[derive(Clone, Copy)]
pub(crate) struct Place {
    slot: StackSlot,
    offset: i32,
    ty: ValType,
}

impl Locals {
    /// Declares them in the entry block: parameters with their values, the others zero. (What cannot be null is null at
    /// first as well: validation sees to it that it is set before it is read.)
    ///
    /// # Errors
    /// None after validation of the locals.
    pub(crate) fn declare(
        b: &mut FunctionBuilder<'_>,
        module: &Module,
        func: TypeIndex,
        entry: Block,
        code: &FunctionBody<'_>,
    ) -> wasmparser::Result<Self> {
        let traced = |ty: ValType| module.types.may_be_object(ty);
        let params = b.block_params(entry)[1..].to_vec();
        let mut locals: Vec<_> = module.types.func(func).params.iter().copied().zip(params).collect();
        let mut zeros = Zeros::default();
        for group in code.get_locals_reader()? {
            let (count, ty) = group?;
            let ty = val_type(ty).expect("validated locals");
            // A null of its own: what the collector must find is spilled.
            let zero = if traced(ty) { b.ins().iconst(types::I64, 0) } else { zeros.get(b, clif_type(ty)) };
            locals.extend(std::iter::repeat_n((ty, zero), count as usize));
        }
        let references = locals.iter().filter(|(ty, _)| traced(*ty)).count();
        if is_hostile(locals.len() as u64, references as u64, code) {
            return Ok(Self::in_slots(b, locals, references, traced));
        }
        let declare = |(ty, value): (ValType, Value)| {
            let variable = b.declare_var(clif_type(ty));
            if traced(ty) {
                b.declare_var_needs_stack_map(variable);
            }
            b.def_var(variable, value);
            variable
        };
        Ok(Self::Variables(locals.into_iter().map(declare).collect()))
    }

    fn in_slots(
        b: &mut FunctionBuilder<'_>,
        locals: Vec<(ValType, Value)>,
        references: usize,
        traced: impl Fn(ValType) -> bool,
    ) -> Self {
        let count = i64::try_from(references).expect("validation bounds locals");
        let shared = (count > 0).then(|| {
            let size = u32::try_from(8 * (references + 1)).expect("validation bounds locals");
            let slot = b.create_sized_stack_slot(StackSlotData::new(StackSlotKind::ExplicitSlot, size, 3));
            let count = b.ins().iconst(types::I64, count);
            b.ins().stack_store(types::I64, count, slot, 0);
            slot
        });
        let mut next = 0;
        let place = |(ty, value): (ValType, Value)| {
            let (slot, offset) = match shared {
                Some(slot) if traced(ty) => {
                    next += 8;
                    (slot, next)
                }
                _ => {
                    let bytes = clif_type(ty).bytes();
                    let align = bytes.ilog2().try_into().expect("at most 4");
                    let slot = StackSlotData::new(StackSlotKind::ExplicitSlot, bytes, align);
                    (b.create_sized_stack_slot(slot), 0)
                }
            };
            b.ins().stack_store(types::I64, value, slot, offset);
            Place { slot, offset, ty }
        };
        let places = locals.into_iter().map(place).collect();
        Self::Slots { places, references: shared }
    }

    /// The slot that the stack map of each call must name.
    pub(crate) fn references(&self) -> Option<StackSlot> {
        match self {
            Self::Variables(_) => None,
            Self::Slots { references, .. } => *references,
        }
    }
}

/// Whether SSA construction, or finding references, could need too much. The body is read for it only if its length alone
/// does not rule it out; what is malformed is left for validation to report.
fn is_hostile(locals: u64, references: u64, code: &FunctionBody<'_>) -> bool {
    let locals = locals.max(MIN_LOCALS);
    let range = code.range();
    let length = range.end - range.start;
    if locals * length <= MAX_PRODUCT && references * length <= MAX_TRACED_PRODUCT {
        return false;
    }
    let Ok(reader) = code.get_operators_reader() else { return false };
    let (mut edges, mut calls, mut handles) = (0, 0, false);
    for op in reader.into_iter().map_while(Result::ok) {
        handles |= matches!(op, Operator::TryTable { .. } | Operator::Try { .. });
        edges += self::edges(&op, handles);
        calls += u64::from(may_call(&op));
    }
    locals * edges > MAX_PRODUCT || references * (edges + calls) > MAX_TRACED_PRODUCT
}

/// Whether an operator may become a call.
fn may_call(op: &Operator<'_>) -> bool {
    use Operator as Op;
    !matches!(
        op,
        Op::LocalGet { .. }
            | Op::LocalSet { .. }
            | Op::LocalTee { .. }
            | Op::I32Const { .. }
            | Op::I64Const { .. }
            | Op::GlobalGet { .. }
            | Op::StructGet { .. }
            | Op::StructSet { .. }
            | Op::ArrayGet { .. }
            | Op::ArraySet { .. }
            | Op::ArrayLen
            | Op::RefAsNonNull
            | Op::RefNull { .. }
            | Op::Drop
            | Op::End
            | Op::I32Add
    )
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
        Operator::LocalGet { local_index } => match &cx.locals {
            Locals::Variables(variables) => {
                let value = cx.b.use_var(variables[*local_index as usize]);
                cx.push(value);
            }
            Locals::Slots { places, .. } => {
                let Place { slot, offset, ty } = places[*local_index as usize];
                let value = cx.b.ins().stack_load(types::I64, clif_type(ty), slot, offset);
                cx.push_typed(value, ty);
            }
        },
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
        Locals::Slots { places, .. } => {
            let Place { slot, offset, .. } = places[index as usize];
            cx.b.ins().stack_store(types::I64, value, slot, offset);
        }
    }
}
