//! A plan as JSON for scripts and as text for people.
//!
//! Invariant: the JSON's keys, their order and their values are a versioned contract; the text is not.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde_json::{Value, json};
use spinwise_model::index::FuncIndex;
use spinwise_model::module::{Module, printable};

use crate::plan::{FunctionPlan, LoopPlan, Plan, Totals};

/// The plan as a JSON value, version 1. `inlined` are (callee, caller) pairs of inlined calls.
#[must_use]
pub fn explain_json(module: &Module, plan: &Plan, inlined: &[(FuncIndex, FuncIndex)]) -> Value {
    let names = module.func_names();
    let callers = callers(inlined);
    let functions: Vec<Value> = plan
        .functions
        .iter()
        .map(|function| {
            json!({
                "index": function.function,
                "name": names[function.function as usize],
                "inlined_into": callers.get(&function.function).cloned().unwrap_or_default(),
                "entry_poll": function.entry_poll.as_ref().map(|poll| poll.reason.name()),
                "loops": function.loops.iter().map(loop_json).collect::<Vec<_>>(),
            })
        })
        .collect();
    let Totals { loops, guarded, entry_polls } = plan.totals();
    json!({
        "version": 1,
        "functions": functions,
        "totals": { "loops": loops, "guarded": guarded, "entry_polls": entry_polls },
    })
}

fn loop_json(natural: &LoopPlan) -> Value {
    json!({
        "header_offset": natural.header_offset,
        "depth": natural.depth,
        "size": natural.size,
        "atomic_reads": natural.atomic_reads,
        "plain_loads": natural.plain_loads,
        "calls": natural.calls,
        "verdict": natural.verdict.name(),
        "interval": natural.guard.map(|guard| guard.interval),
        "weight": natural.guard.map(|guard| guard.weight),
        "watch": natural.watch.map(|watch| {
            json!({
                "memory": watch.memory,
                "width": watch.width,
                "exit_when": watch.exit_when.name(),
                "offset": watch.offset,
            })
        }),
    })
}

/// The plan for people: functions that have loops or poll on entry, then the totals.
#[must_use]
pub fn explain_text(module: &Module, plan: &Plan, inlined: &[(FuncIndex, FuncIndex)]) -> String {
    let names: Vec<_> = module.func_names().iter().map(|name| printable(name).into_owned()).collect();
    let callers = callers(inlined);
    let mut text = String::new();
    for function in &plan.functions {
        if function.loops.is_empty() && function.entry_poll.is_none() {
            continue;
        }
        // Writing to a string cannot fail.
        let _ = write_function(&mut text, function, &names, callers.get(&function.function).map_or(&[], Vec::as_slice));
    }
    let Totals { loops, guarded, entry_polls } = plan.totals();
    let _ = writeln!(
        text,
        "{}, {}, {guarded} of them guarded; {}",
        counted(plan.functions.len(), "function"),
        counted(loops, "loop"),
        counted(entry_polls, "entry poll"),
    );
    text
}

fn write_function(text: &mut String, function: &FunctionPlan, names: &[String], into: &[u32]) -> std::fmt::Result {
    write!(text, "{} (function {})", names[function.function as usize], function.function)?;
    if let Some(poll) = &function.entry_poll {
        write!(text, ": polls on entry, {} (weight {})", poll.reason.name(), poll.charge.weight)?;
    }
    if !into.is_empty() {
        let into: Vec<_> = into.iter().map(|caller| names[*caller as usize].as_str()).collect();
        write!(text, "; also inlined into {}", into.join(", "))?;
    }
    writeln!(text)?;
    for natural in &function.loops {
        let indent = 2 * natural.depth.min(16) as usize;
        write!(text, "{:indent$}loop at {:#x}: {}", "", natural.header_offset, natural.verdict.name())?;
        if let Some(guard) = natural.guard {
            write!(text, " every {} turns (weight {})", guard.interval, guard.weight)?;
        }
        write!(text, "; {}", counted(natural.size as usize, "value"))?;
        let counts =
            [(natural.atomic_reads, "atomic read"), (natural.plain_loads, "plain load"), (natural.calls, "call")];
        for (count, noun) in counts.into_iter().filter(|(count, _)| *count > 0) {
            write!(text, ", {}", counted(count as usize, noun))?;
        }
        if let Some(watch) = natural.watch {
            let relation = watch.exit_when.name();
            write!(text, "; waits until the {}-bit word at offset {} is {relation}", watch.width, watch.offset)?;
        }
        writeln!(text)?;
    }
    Ok(())
}

/// For each function whose calls were inlined the callers, ascending.
fn callers(inlined: &[(FuncIndex, FuncIndex)]) -> BTreeMap<u32, Vec<u32>> {
    let mut callers = BTreeMap::<u32, Vec<u32>>::new();
    for (callee, caller) in inlined {
        callers.entry(callee.0).or_default().push(caller.0);
    }
    for list in callers.values_mut() {
        list.sort_unstable();
        list.dedup();
    }
    callers
}

/// A count with its noun: "1 loop", "2 loops".
fn counted(count: usize, noun: &str) -> String {
    format!("{count} {noun}{}", if count == 1 { "" } else { "s" })
}
