//! Functions in which so many values live for so long that the usual register allocator would take minutes.
//!
//! Cranelift's backtracking allocator is quadratic in the worst case: a chain of 100,000 additions that each read a
//! value from half-way back keeps a processor busy for over five minutes. Its single-pass allocator is linear, and does
//! the same chain in half a second, in code with more loads and stores. No guest that a compiler wrote comes near.
//!
//! Invariant: which allocator a function gets depends on the function alone. Cost: one pass over large functions.

use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::ir::{Function, Value};
use cranelift_codegen::isa::{self, OwnedTargetIsa, TargetIsa};
use cranelift_codegen::settings::{self, Configurable};

use crate::error::Error;

/// Instructions below which no function is looked at.
const SMALL: usize = 1 << 14;

/// The sum of life times, in instructions, above which a function is crowded: seconds in the usual allocator.
const CROWDED: u64 = 1 << 28;

/// Whether a function needs the linear allocator.
pub(crate) fn is_crowded(func: &Function) -> bool {
    func.dfg.num_insts() >= SMALL && life_times(func) > CROWDED
}

/// The distances from each value's first mention to its last, in instructions in layout order, summed up. What lives
/// around a loop may live longer than that: this is an estimate.
fn life_times(func: &Function) -> u64 {
    let mut first: SecondaryMap<Value, Option<u32>> = SecondaryMap::new();
    let mut last: SecondaryMap<Value, u32> = SecondaryMap::new();
    let mut now = 0_u32;
    let mut mention = |value: Value, now: u32| {
        let value = func.dfg.resolve_aliases(value);
        first[value].get_or_insert(now);
        last[value] = now;
    };
    for block in func.layout.blocks() {
        for param in func.dfg.block_params(block) {
            mention(*param, now);
        }
        for inst in func.layout.block_insts(block) {
            now += 1;
            for value in func.dfg.inst_values(inst).chain(func.dfg.inst_results(inst).iter().copied()) {
                mention(value, now);
            }
        }
    }
    first.iter().filter_map(|(value, first)| Some(u64::from(last[value] - (*first)?))).sum()
}

/// The same target, with the linear allocator.
pub(crate) fn with_linear_allocation(isa: &dyn TargetIsa) -> Result<OwnedTargetIsa, Error> {
    with_setting(isa, "regalloc_algorithm", "single_pass")
}

/// The same target, with one of Cranelift's shared settings changed.
pub(crate) fn with_setting(isa: &dyn TargetIsa, name: &str, value: &str) -> Result<OwnedTargetIsa, Error> {
    let failed = |reason: String| Error::Target { triple: isa.triple().to_string(), reason };
    let mut flags = settings::builder();
    for flag in isa.flags().iter() {
        flags.set(flag.name, &flag.value_string()).map_err(|error| failed(error.to_string()))?;
    }
    flags.set(name, value).map_err(|error| failed(error.to_string()))?;
    let mut builder = isa::lookup(isa.triple().clone()).map_err(|error| failed(error.to_string()))?;
    for flag in isa.isa_flags() {
        builder.set(flag.name, &flag.value_string()).map_err(|error| failed(error.to_string()))?;
    }
    builder.finish(settings::Flags::new(flags)).map_err(|error| failed(error.to_string()))
}

#[cfg(test)]
mod tests {
    use crate::isa::{Cpu, SUPPORTED, Target};

    use super::*;

    #[test]
    fn only_the_allocator_changes() {
        let target = |triple: &str| Target { triple: Some(triple.to_owned()), ..Target::default() };
        let native = Target { cpu: Cpu::Native, ..Target::default() };
        for target in SUPPORTED.iter().map(|triple| target(triple)).chain([native]) {
            let isa = crate::isa(&target, false).expect("supported");
            let linear = with_linear_allocation(&*isa).expect("the same target");
            let list = |isa: &OwnedTargetIsa| {
                let flags = isa.flags().iter().map(|flag| (flag.name, flag.value_string()));
                let own = isa.isa_flags().into_iter().map(|flag| (flag.name, flag.value_string()));
                flags.chain(own).collect::<Vec<_>>()
            };
            let (before, after) = (list(&isa), list(&linear));
            let changed: Vec<_> = before.iter().zip(&after).filter(|(before, after)| before != after).collect();
            assert_eq!(before.len(), after.len());
            assert_eq!(changed.len(), 1, "{changed:?}");
            assert_eq!(changed[0].0.0, "regalloc_algorithm");
        }
    }

    #[test]
    fn life_times_are_counted_across_blocks() {
        let text = "function u0:0(i64) -> i64 tail {
        block0(v0: i64):
            v1 = iadd v0, v0
            jump block1(v1)
        block1(v2: i64):
            v3 = iadd v2, v0
            return v3
        }";
        let func = cranelift_reader::parse_functions(text).expect("well-formed").remove(0);
        // v0: 0 to 3, v1: 1 to 2, v2: 2 to 3, v3: 3 to 4.
        assert_eq!(life_times(&func), 3 + 1 + 1 + 1);
        assert!(!is_crowded(&func));
    }
}
