//! Exceptions: both encodings of what handles them, and what throws them.
//!
//! A call in the body of a `try_table` or of a legacy `try` is a `try_call` with one handler, the *pad* of the innermost
//! such construct. A pad is a block that takes the exception and compares its tag with the construct's clauses; what none
//! of them catches goes on to the pad around it, or is thrown again out of the function. So each clause is tested once, in
//! compiled code, whatever the number of calls, and nothing is done where nothing is thrown.
//!
//! Invariants: a pad is made when its construct's body first needs it, and filled where the body ends. An exception is the
//! address of an [`ExceptionHeader`]; two tags are the same if their addresses are. Traps pass every pad by.
//!
//! Source: core spec 3.0, 4.4.8; the legacy encoding as toolchains emit it. Cost: an edge a call, a test a clause.

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{
    Block, BlockArg, BlockCall, ExceptionTable, ExceptionTableData, ExceptionTableItem, Function, InstBuilder,
    MemFlagsData, SigRef, Value, types,
};
use spinwise_model::context::{ExceptionHeader, SLOT_SIZE};
use spinwise_model::index::TagIndex;
use spinwise_model::symbol::Builtin;
use spinwise_model::trap::TrapCode;
use spinwise_model::types::{HeapType, RefType, ValType};
use wasmparser::{Catch, Operator};

use crate::abi::{CONSTANT, CONTEXT, cell_flags, clif_type, trap};
use crate::control::{Kind, Signature, br, end_arms, enter, jump, label, leave_arm, open, top};
use crate::func::FuncCx;

/// What handles the exceptions of a body.
pub(crate) struct Handler {
    /// The clauses of a `try_table`. Those of a legacy `try` follow its body.
    clauses: Vec<Catch>,
    /// Where exceptions arrive; made by the first call or throw.
    pad: Option<Block>,
}

/// The type of what a pad takes.
const EXCEPTION_REFERENCE: ValType = ValType::Ref(RefType { nullable: false, heap: HeapType::Exn });

/// Flags of a load from an exception: nothing of it changes.
const EXCEPTION: MemFlagsData = CONTEXT.with_readonly();

/// Lifts an operator on exceptions; `false` if it is not one.
pub(crate) fn translate(cx: &mut FuncCx<'_, '_>, op: &Operator<'_>) -> bool {
    match op {
        Operator::TryTable { try_table } => open_try(cx, Signature::new(try_table.ty), try_table.catches.clone()),
        Operator::Throw { tag_index } => throw(cx, TagIndex(*tag_index)),
        Operator::ThrowRef => {
            let exception = cx.pop();
            cx.b.ins().trapz(exception, trap(TrapCode::NullReference));
            raise(cx, exception);
        }
        Operator::Try { blockty } => open_try(cx, Signature::new(*blockty), Vec::new()),
        Operator::Catch { tag_index } => catch(cx, Some(TagIndex(*tag_index))),
        Operator::CatchAll => catch(cx, None),
        Operator::Rethrow { relative_depth } => {
            let at = cx.control.len() - 1 - *relative_depth as usize;
            let Kind::Catch { exception: Some(exception), .. } = cx.control[at].kind else {
                unreachable!("validation lets live code rethrow only what was caught")
            };
            raise(cx, exception);
        }
        Operator::Delegate { relative_depth } => delegate(cx, *relative_depth),
        _ => return false,
    }
    true
}

fn open_try(cx: &mut FuncCx<'_, '_>, ty: Signature, clauses: Vec<Catch>) {
    cx.tries.push(cx.control.len());
    open(cx, Kind::Try(Handler { clauses, pad: None }), ty);
}

/// The pad that exceptions of the code being lifted go to, if the function handles them.
pub(crate) fn pad(cx: &mut FuncCx<'_, '_>) -> Option<Block> {
    let at = *cx.tries.last()?;
    Some(pad_of(cx, at))
}

fn pad_of(cx: &mut FuncCx<'_, '_>, at: usize) -> Block {
    let Kind::Try(handler) = &cx.control[at].kind else { unreachable!("only bodies handle exceptions") };
    if let Some(pad) = handler.pad {
        return pad;
    }
    let pad = label(cx, &[EXCEPTION_REFERENCE]);
    cx.b.set_cold_block(pad);
    let Kind::Try(handler) = &mut cx.control[at].kind else { unreachable!("as above") };
    handler.pad = Some(pad);
    pad
}

/// The table of a call that returns to a block with its results, or goes to a pad with an exception.
pub(crate) fn table(func: &mut Function, signature: SigRef, next: Block, pad: Block) -> ExceptionTable {
    let dfg = &mut func.dfg;
    let results = (0u32..).zip(&dfg.signatures[signature].returns).map(|(index, _)| BlockArg::TryCallRet(index));
    let next = BlockCall::new(next, results, &mut dfg.value_lists);
    let pad = BlockCall::new(pad, [BlockArg::TryCallExn(0)], &mut dfg.value_lists);
    dfg.exception_tables.push(ExceptionTableData::new(signature, next, [ExceptionTableItem::Default(pad)]))
}

fn throw(cx: &mut FuncCx<'_, '_>, tag: TagIndex) {
    let params = cx.module.tag_params(tag);
    cx.charge(params.len());
    let values = cx.pop_many(params.len());
    let (index, offset) = (cx.immediate(tag.0), cx.offset());
    let offset = cx.immediate(offset);
    let exception =
        cx.call_builtin(Builtin::ExceptionNew, &[cx.vmctx, index, offset]).expect("it returns the exception");
    cx.b.ins().trapz(exception, trap(TrapCode::Pending));
    for ((ty, value), at) in params.iter().zip(values).zip(slots()) {
        cx.b.ins().store(cell_flags(*ty), value, exception, at);
    }
    raise(cx, exception);
}

/// Offsets of what an exception carries.
fn slots() -> impl Iterator<Item = i32> {
    (0..).map(|slot| ExceptionHeader::SIZE + slot * SLOT_SIZE)
}

/// Throws an exception that exists.
fn raise(cx: &mut FuncCx<'_, '_>, exception: Value) {
    let to = cx.tries.last().copied();
    raise_to(cx, exception, to);
}

/// Throws an exception to the handler of the construct at a place, if there is one, else out of the function.
fn raise_to(cx: &mut FuncCx<'_, '_>, exception: Value, to: Option<usize>) {
    if let Some(at) = to {
        let pad = pad_of(cx, at);
        jump(cx, pad, &[exception]);
    } else {
        cx.call_builtin(Builtin::Throw, &[cx.vmctx, exception]);
        // It does not return.
        cx.b.ins().trap(trap(TrapCode::Unreachable));
    }
    cx.dead = Some(0);
}

/// `end` of a construct that handles exceptions.
pub(crate) fn close(cx: &mut FuncCx<'_, '_>) {
    leave_arm(cx);
    let height = top(cx).height;
    let after_arm = std::mem::replace(&mut top(cx).kind, Kind::Block);
    match after_arm {
        Kind::Try(handler) => {
            cx.tries.pop();
            if let Some(pad) = handler.pad {
                fill(cx, pad, height, &handler.clauses);
            }
        }
        Kind::Catch { exception: Some(exception), others: Some(others) } => {
            enter(cx, others, height);
            raise(cx, exception);
        }
        _ => {}
    }
    cx.dead = Some(0);
    end_arms(cx);
}

/// Fills the pad of a `try_table`, whose construct has been left: labels count from outside of it.
fn fill(cx: &mut FuncCx<'_, '_>, pad: Block, height: usize, clauses: &[Catch]) {
    // What is caught branches to labels outside: the construct is not among them.
    let frame = cx.control.pop().expect("the construct itself");
    let exception = enter_pad(cx, pad, height);
    for clause in clauses {
        let (tag, label, by_reference) = match *clause {
            Catch::One { tag, label } => (Some(TagIndex(tag)), label, false),
            Catch::OneRef { tag, label } => (Some(TagIndex(tag)), label, true),
            Catch::All { label } => (None, label, false),
            Catch::AllRef { label } => (None, label, true),
        };
        let others = tag.map(|tag| test(cx, exception, tag));
        if let Some(tag) = tag {
            push_payload(cx, exception, tag);
        }
        if by_reference {
            cx.push(exception);
        }
        br(cx, label);
        match others {
            Some(others) => enter(cx, others, height),
            None => break,
        }
    }
    if cx.dead.is_none() {
        raise(cx, exception);
    }
    cx.control.push(frame);
}

/// Makes a pad current: its exception.
fn enter_pad(cx: &mut FuncCx<'_, '_>, pad: Block, height: usize) -> Value {
    enter(cx, pad, height);
    cx.b.block_params(pad)[0]
}

/// Goes on where an exception has that tag; the block for other ones.
fn test(cx: &mut FuncCx<'_, '_>, exception: Value, tag: TagIndex) -> Block {
    let at = cx.layout.tag(tag);
    let wanted = cx.load_context(types::I64, CONSTANT, at);
    let found = cx.b.ins().load(types::I64, EXCEPTION, exception, ExceptionHeader::TAG);
    let same = cx.b.ins().icmp(IntCC::Equal, found, wanted);
    let (caught, others) = (cx.b.create_block(), cx.b.create_block());
    cx.b.ins().brif(same, caught, &[], others, &[]);
    cx.b.set_cold_block(others);
    cx.b.switch_to_block(caught);
    cx.b.seal_block(caught);
    others
}

/// Pushes what an exception of that tag carries.
fn push_payload(cx: &mut FuncCx<'_, '_>, exception: Value, tag: TagIndex) {
    let params = cx.module.tag_params(tag);
    cx.charge(params.len());
    for (ty, at) in params.iter().zip(slots()) {
        let flags = cell_flags(*ty).with_readonly();
        let value = cx.b.ins().load(clif_type(*ty), flags, exception, at);
        cx.push_typed(value, *ty);
    }
}

/// `catch` or (without a tag) `catch_all` of a legacy `try`: ends the arm before it.
fn catch(cx: &mut FuncCx<'_, '_>, tag: Option<TagIndex>) {
    leave_arm(cx);
    let frame = top(cx);
    let height = frame.height;
    let (exception, arrival) = match std::mem::replace(&mut frame.kind, Kind::Block) {
        Kind::Try(handler) => {
            cx.tries.pop();
            let exception = handler.pad.map(|pad| cx.b.block_params(pad)[0]);
            (exception, handler.pad)
        }
        Kind::Catch { exception, others } => (exception, others),
        _ => unreachable!("validation pairs catch with try"),
    };
    let mut others = None;
    if let (Some(exception), Some(arrival)) = (exception, arrival) {
        enter(cx, arrival, height);
        if let Some(tag) = tag {
            others = Some(test(cx, exception, tag));
            push_payload(cx, exception, tag);
        }
    } else {
        cx.dead = Some(0);
    }
    top(cx).kind = Kind::Catch { exception, others };
}

/// `delegate`: ends a legacy `try` whose exceptions go to a handler further out, as if thrown at the label.
fn delegate(cx: &mut FuncCx<'_, '_>, depth: u32) {
    leave_arm(cx);
    let height = top(cx).height;
    let Kind::Try(handler) = std::mem::replace(&mut top(cx).kind, Kind::Block) else {
        unreachable!("validation pairs delegate with try")
    };
    cx.tries.pop();
    if let Some(pad) = handler.pad {
        let exception = enter_pad(cx, pad, height);
        // The construct itself is still the innermost; labels count from outside of it.
        let label = cx.control.len() - 2 - depth as usize;
        let inside = cx.tries.partition_point(|at| *at <= label);
        let to = inside.checked_sub(1).map(|last| cx.tries[last]);
        raise_to(cx, exception, to);
    }
    cx.dead = Some(0);
    end_arms(cx);
}
