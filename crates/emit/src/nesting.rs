//! Functions whose loops are nested so deep that Cranelift's mid-end would take minutes.
//!
//! It looks at every enclosing loop of a value to find how far it can be hoisted, so that its time grows with the cube
//! of the depth: 1,000 nested loops, an 11 KB function, take 3 s; 2,000 take 24 s. Such a function is compiled without
//! the mid-end, in well under a second. No guest that a compiler wrote comes near.
//!
//! Invariant: the decision depends on the function alone. Cost: a loop analysis of functions with many blocks.

use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::entity::SecondaryMap;
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::Function;
use cranelift_codegen::loop_analysis::{Loop, LoopAnalysis};

/// The depth above which a function is not optimised: 256 nested loops take 30 ms with the mid-end.
const DEEP: u32 = 256;

/// Whether a function's loops are nested too deep for the mid-end.
pub(crate) fn is_deep(func: &Function) -> bool {
    func.dfg.num_blocks() > DEEP as usize && depth(func) > DEEP
}

/// How deep the loops are nested; 0 without loops.
fn depth(func: &Function) -> u32 {
    let graph = ControlFlowGraph::with_function(func);
    let dominators = DominatorTree::with_function(func, &graph);
    let mut analysis = LoopAnalysis::new();
    analysis.compute(func, &graph, &dominators);
    let mut depths: SecondaryMap<Loop, u32> = SecondaryMap::new();
    let mut deepest = 0;
    for inner in analysis.loops() {
        // Up to an ancestor whose depth is known, then down again: each loop is passed a bounded number of times.
        let mut path = vec![inner];
        while let Some(parent) = analysis.loop_parent(path[path.len() - 1]).filter(|parent| depths[*parent] == 0) {
            path.push(parent);
        }
        while let Some(natural) = path.pop() {
            depths[natural] = 1 + analysis.loop_parent(natural).map_or(0, |parent| depths[parent]);
            deepest = deepest.max(depths[natural]);
        }
    }
    deepest
}

#[cfg(test)]
mod tests {
    use std::fmt::Write as _;

    use super::*;

    /// `count` loops, each in the one before.
    fn nest(count: usize) -> Function {
        let mut text = String::from("function u0:0(i32) tail {\nblock0(v0: i32):\n jump block1\n");
        for header in 1..count {
            let _ = writeln!(text, "block{header}:\n jump block{}", header + 1);
        }
        let _ = writeln!(text, "block{count}:\n brif v0, block{count}, block{}", count + 1);
        for exit in 1..count {
            let (back, block) = (count - exit, count + exit);
            let _ = writeln!(text, "block{block}:\n brif v0, block{back}, block{}", block + 1);
        }
        let _ = writeln!(text, "block{}:\n return\n}}", 2 * count);
        cranelift_reader::parse_functions(&text).expect("well-formed").remove(0)
    }

    #[test]
    fn depth_is_counted() {
        assert_eq!(depth(&nest(1)), 1);
        assert_eq!(depth(&nest(300)), 300);
        assert!(is_deep(&nest(300)) && !is_deep(&nest(250)));
    }
}
