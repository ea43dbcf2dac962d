//! Structured control flow: blocks, loops, conditionals, branches. What handles exceptions is in [`crate::exceptions`].
//!
//! Invariants: a CLIF block is made for the end of a construct only when a branch first needs it, so constructs that
//! nothing branches to cost nothing. Each `loop` has a header block that starts with a `nop`, whose source location is
//! the offset of the `loop` operator. Code after an unconditional transfer is skipped up to the `else` or `end` that
//! makes it live again, by counting the constructs opened in it.
//!
//! Cost: constant an operator, and linear in the operands that a branch carries.

use std::collections::BTreeMap;

use cranelift_codegen::ir::{Block, BlockArg, BlockCall, InstBuilder, JumpTableData, Value};
use spinwise_model::index::TypeIndex;
use spinwise_model::module::Module;
use spinwise_model::trap::TrapCode;
use spinwise_model::types::ValType;
use wasmparser::{BlockType, BrTable, Operator};

use crate::abi::{clif_type, trap};
use crate::exceptions::{self, Handler};
use crate::func::FuncCx;
use crate::types::val_type;

/// An open construct.
pub(crate) struct Frame {
    pub(crate) kind: Kind,
    ty: Signature,
    /// Height of the operand stack below the construct's parameters.
    pub(crate) height: usize,
    /// Where a branch out of the construct lands; made by the first one. A loop has none.
    after: Option<Block>,
}

pub(crate) enum Kind {
    /// The function itself.
    Body,
    Block,
    Loop {
        header: Block,
    },
    /// The first arm of an `if`, which the second one (or its absence) follows.
    Then {
        otherwise: Block,
        params: Vec<Value>,
    },
    /// The second arm of an `if`.
    Else,
    /// The body of a construct that handles exceptions.
    Try(Handler),
    /// An arm of a legacy `try` that has caught an exception; `None` where nothing can throw one.
    Catch {
        exception: Option<Value>,
        /// Where an exception goes on that no arm so far has caught.
        others: Option<Block>,
    },
}

/// What a construct takes and leaves.
#[derive(Clone, Copy)]
pub(crate) enum Signature {
    Empty,
    Result(ValType),
    Type(TypeIndex),
}

impl Signature {
    pub(crate) fn new(ty: BlockType) -> Self {
        match ty {
            BlockType::Empty => Self::Empty,
            BlockType::Type(ty) => Self::Result(val_type(ty).expect("validated block type")),
            BlockType::FuncType(index) => Self::Type(TypeIndex(index)),
        }
    }

    fn params(self, module: &Module) -> &[ValType] {
        match self {
            Self::Empty | Self::Result(_) => &[],
            Self::Type(index) => &module.types.func(index).params,
        }
    }

    fn results<'s>(&'s self, module: &'s Module) -> &'s [ValType] {
        match self {
            Self::Empty => &[],
            Self::Result(ty) => std::slice::from_ref(ty),
            Self::Type(index) => &module.types.func(*index).results,
        }
    }
}

impl Frame {
    /// The frame of a function of that type. Its parameters are locals, not operands.
    pub(crate) fn body(ty: TypeIndex) -> Self {
        Self { kind: Kind::Body, ty: Signature::Type(ty), height: 0, after: None }
    }

    /// What a branch to it carries.
    fn label_types<'s>(&'s self, module: &'s Module) -> &'s [ValType] {
        match self.kind {
            Kind::Loop { .. } => self.ty.params(module),
            _ => self.ty.results(module),
        }
    }
}

/// Lifts a control operator, live or dead; `false` if it is not one.
pub(crate) fn translate(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    if let Some(depth) = cx.dead {
        return skip(cx, op, depth);
    }
    match op {
        Operator::Nop => {}
        Operator::Unreachable => {
            cx.b.ins().trap(trap(TrapCode::Unreachable));
            cx.dead = Some(0);
        }
        Operator::Block { blockty } => open(cx, Kind::Block, Signature::new(*blockty)),
        Operator::Loop { blockty } => open_loop(cx, Signature::new(*blockty)),
        Operator::If { blockty } => open_if(cx, Signature::new(*blockty)),
        Operator::Else => switch_arm(cx),
        Operator::End => close(cx),
        Operator::Br { relative_depth } => br(cx, *relative_depth),
        Operator::BrIf { relative_depth } => br_if(cx, *relative_depth),
        Operator::BrTable { targets } => br_table(cx, targets),
        Operator::Return => return_(cx),
        _ => return exceptions::translate(cx, op),
    }
    true
}

/// In dead code, only counts constructs; `depth` of them were opened in it.
fn skip(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>, depth: usize) -> bool {
    match op {
        Operator::Block { .. }
        | Operator::Loop { .. }
        | Operator::If { .. }
        | Operator::TryTable { .. }
        | Operator::Try { .. } => cx.dead = Some(depth + 1),
        Operator::End | Operator::Delegate { .. } if depth > 0 => cx.dead = Some(depth - 1),
        Operator::End => close(cx),
        Operator::Else if depth == 0 => switch_arm(cx),
        Operator::Catch { .. } | Operator::CatchAll | Operator::Delegate { .. } if depth == 0 => {
            return exceptions::translate(cx, op);
        }
        _ => return false,
    }
    true
}

/// Opens a construct that begins where the code is.
pub(crate) fn open(cx: &mut FuncCx<'_, '_>, kind: Kind, ty: Signature) {
    let height = cx.stack.len() - ty.params(cx.module).len();
    cx.control.push(Frame { kind, ty, height, after: None });
}

fn open_loop(cx: &mut FuncCx<'_, '_>, ty: Signature) {
    let header = label(cx, ty.params(cx.module));
    let params = cx.pop_many(ty.params(cx.module).len());
    jump(cx, header, &params);
    cx.b.switch_to_block(header);
    cx.b.ins().nop();
    push_params(cx, header, params.len());
    open(cx, Kind::Loop { header }, ty);
}

fn open_if(cx: &mut FuncCx<'_, '_>, ty: Signature) {
    let condition = cx.pop_condition();
    let (then, otherwise) = (cx.b.create_block(), cx.b.create_block());
    // Canonical now, so that both arms may use the same values.
    let count = ty.params(cx.module).len();
    cx.canonicalize_top(count);
    cx.charge(count);
    let params = cx.stack[cx.stack.len() - count..].to_vec();
    cx.b.ins().brif(condition, then, &[], otherwise, &[]);
    cx.b.switch_to_block(then);
    cx.b.seal_block(then);
    open(cx, Kind::Then { otherwise, params }, ty);
}

/// `else`: ends the first arm and starts the second.
fn switch_arm(cx: &mut FuncCx<'_, '_>) {
    leave_arm(cx);
    let frame = top(cx);
    let Kind::Then { otherwise, params } = std::mem::replace(&mut frame.kind, Kind::Else) else {
        unreachable!("validation pairs else with if")
    };
    let height = frame.height;
    enter(cx, otherwise, height);
    cx.stack.extend(params);
}

/// `end` of any construct.
fn close(cx: &mut FuncCx<'_, '_>) {
    if matches!(top(cx).kind, Kind::Try(_) | Kind::Catch { .. }) {
        return exceptions::close(cx);
    }
    let frame = cx.control.pop().expect("validation pairs end with its construct");
    match frame.kind {
        Kind::Loop { header } => cx.b.seal_block(header),
        Kind::Then { otherwise, params } => {
            // The missing arm passes the parameters on. Without any, its block can be the end itself.
            if cx.dead.is_none() && frame.after.is_none() && params.is_empty() {
                jump(cx, otherwise, &[]);
                enter(cx, otherwise, frame.height);
            } else {
                cx.control.push(Frame { kind: Kind::Else, ..frame });
                leave_arm(cx);
                enter(cx, otherwise, cx.control.last().map_or(0, |f| f.height));
                cx.stack.extend(params);
                close(cx);
            }
            return;
        }
        Kind::Block | Kind::Else | Kind::Body | Kind::Try(_) | Kind::Catch { .. } => {}
    }
    let is_body = matches!(frame.kind, Kind::Body);
    let results = frame.ty.results(cx.module).len();
    if let Some(after) = frame.after {
        if cx.dead.is_none() {
            let values = cx.pop_many(results);
            jump(cx, after, &values);
        }
        enter(cx, after, frame.height);
        push_params(cx, after, results);
    } else if cx.dead.is_some() {
        cx.stack.truncate(frame.height);
    }
    if is_body && cx.dead.is_none() {
        let values = cx.pop_many(results);
        cx.b.ins().return_(&values);
    }
}

/// Jumps from the end of an arm to the end of its construct, if the arm's end is live.
pub(crate) fn leave_arm(cx: &mut FuncCx<'_, '_>) {
    if cx.dead.is_none() {
        let (after, count) = target(cx, 0);
        let values = cx.pop_many(count);
        jump(cx, after, &values);
    }
}

/// Ends the innermost construct, all arms of which have been left.
pub(crate) fn end_arms(cx: &mut FuncCx<'_, '_>) {
    let Frame { ty, height, after, .. } = cx.control.pop().expect("validation pairs end with its construct");
    match after {
        Some(after) => {
            enter(cx, after, height);
            push_params(cx, after, ty.results(cx.module).len());
        }
        None => cx.stack.truncate(height),
    }
}

/// Makes a block current whose predecessors are all known.
pub(crate) fn enter(cx: &mut FuncCx<'_, '_>, block: Block, height: usize) {
    cx.b.switch_to_block(block);
    cx.b.seal_block(block);
    cx.stack.truncate(height);
    cx.dead = None;
}

pub(crate) fn br(cx: &mut FuncCx<'_, '_>, depth: u32) {
    if depth as usize + 1 == cx.control.len() {
        return return_(cx);
    }
    let (block, count) = target(cx, depth);
    let values = cx.pop_many(count);
    jump(cx, block, &values);
    cx.dead = Some(0);
}

fn br_if(cx: &mut FuncCx<'_, '_>, depth: u32) {
    let condition = cx.pop_condition();
    branch_if(cx, depth, condition, None);
}

/// Branches where a value is not zero; the branch alone carries `last` behind the topmost operands.
pub(crate) fn branch_if(cx: &mut FuncCx<'_, '_>, depth: u32, condition: Value, last: Option<Value>) {
    let (block, args) = branch(cx, depth, last);
    let next = cx.b.create_block();
    cx.b.ins().brif(condition, block, &args, next, &[]);
    cx.b.switch_to_block(next);
    cx.b.seal_block(next);
}

/// Branches where a value is zero, else as [`branch_if`].
pub(crate) fn branch_unless(cx: &mut FuncCx<'_, '_>, depth: u32, condition: Value, last: Option<Value>) {
    let (block, args) = branch(cx, depth, last);
    let next = cx.b.create_block();
    cx.b.ins().brif(condition, next, &[], block, &args);
    cx.b.switch_to_block(next);
    cx.b.seal_block(next);
}

/// Where a branch lands and what it carries, the operands left where they are.
fn branch(cx: &mut FuncCx<'_, '_>, depth: u32, last: Option<Value>) -> (Block, Vec<BlockArg>) {
    let (block, count) = target(cx, depth);
    let mut values = peek(cx, count - usize::from(last.is_some()));
    values.extend(last);
    (block, values.into_iter().map(BlockArg::Value).collect())
}

/// A label that several rows name gets a block of its own, which they share: what a branch to the label carries (phi
/// arguments included) is then listed once, not once a row.
fn br_table(cx: &mut FuncCx<'_, '_>, targets: &BrTable<'_>) {
    let selector = cx.pop();
    let rows: Vec<u32> = targets.targets().map(|row| row.expect("validated targets")).collect();
    let default = targets.default();
    let mut uses: BTreeMap<u32, usize> = BTreeMap::new();
    for depth in rows.iter().chain([&default]) {
        *uses.entry(*depth).or_default() += 1;
    }
    let (_, count) = target(cx, default);
    let values = peek(cx, count);
    let mut labels = BTreeMap::new();
    let mut relays = Vec::new();
    for (depth, uses) in uses {
        let (block, _) = target(cx, depth);
        if uses == 1 {
            cx.charge(count);
            labels.insert(depth, (block, values.as_slice()));
        } else {
            let relay = cx.b.create_block();
            relays.push((relay, block));
            labels.insert(depth, (relay, &[]));
        }
    }
    // Each row has a list of its own: lists are edited in place later.
    let mut call = |depth: &u32| {
        let (block, values) = labels[depth];
        BlockCall::new(block, values.iter().map(|v| BlockArg::Value(*v)), &mut cx.b.func.dfg.value_lists)
    };
    let rows: Vec<BlockCall> = rows.iter().map(&mut call).collect();
    let table = JumpTableData::new(call(&default), &rows);
    let table = cx.b.create_jump_table(table);
    cx.b.ins().br_table(selector, table);
    for (relay, block) in relays {
        cx.b.switch_to_block(relay);
        cx.b.seal_block(relay);
        jump(cx, block, &values);
    }
    cx.dead = Some(0);
}

fn return_(cx: &mut FuncCx<'_, '_>) {
    let results = cx.control[0].ty.results(cx.module).len();
    let values = cx.pop_many(results);
    cx.charge(results);
    cx.b.ins().return_(&values);
    cx.dead = Some(0);
}

/// Where a branch of that depth lands, and how many operands it carries.
fn target(cx: &mut FuncCx<'_, '_>, depth: u32) -> (Block, usize) {
    let at = cx.control.len() - 1 - depth as usize;
    let frame = &cx.control[at];
    let count = frame.label_types(cx.module).len();
    if let Kind::Loop { header } = frame.kind {
        return (header, count);
    }
    if let Some(after) = frame.after {
        return (after, count);
    }
    let ty = frame.ty;
    let after = label(cx, ty.results(cx.module));
    cx.control[at].after = Some(after);
    (after, count)
}

/// Makes a block that takes values of these types.
pub(crate) fn label(cx: &mut FuncCx<'_, '_>, types: &[ValType]) -> Block {
    let block = cx.b.create_block();
    for ty in types {
        let param = cx.b.append_block_param(block, clif_type(*ty));
        cx.trace(param, *ty);
    }
    cx.charge(types.len());
    cx.charge_crossing();
    block
}

/// The topmost operands, canonical, left where they are.
fn peek(cx: &mut FuncCx<'_, '_>, count: usize) -> Vec<Value> {
    cx.canonicalize_top(count);
    cx.charge(count);
    cx.stack[cx.stack.len() - count..].to_vec()
}

pub(crate) fn jump(cx: &mut FuncCx<'_, '_>, block: Block, values: &[Value]) {
    cx.charge(values.len());
    let args: Vec<BlockArg> = values.iter().map(|v| BlockArg::Value(*v)).collect();
    cx.b.ins().jump(block, &args);
}

/// Pushes the operands that a block takes; SSA construction may have added parameters behind them.
pub(crate) fn push_params(cx: &mut FuncCx<'_, '_>, block: Block, count: usize) {
    cx.stack.extend_from_slice(&cx.b.block_params(block)[..count]);
}

pub(crate) fn top<'c>(cx: &'c mut FuncCx<'_, '_>) -> &'c mut Frame {
    cx.control.last_mut().expect("validation pairs what continues or ends a construct with it")
}
