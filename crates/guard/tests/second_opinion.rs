//! Cranelift's own dominators and loops, as a second opinion on those of `spinwise-loops`; and the planner's time on large
//! functions.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use cranelift_codegen::dominator_tree::DominatorTree;
use cranelift_codegen::flowgraph::ControlFlowGraph;
use cranelift_codegen::ir::{Block, Function};
use cranelift_codegen::loop_analysis::LoopAnalysis;
use spinwise_guard::{Mode, Verdict};
use spinwise_loops::{Dominators, Graph, LoopForest};
use support::{Program, Random};

/// A function whose blocks branch at random, by calls that may throw too. What cannot be reached leads nowhere: Cranelift
/// would count it among the predecessors in a loop.
fn function(random: &mut Random) -> Function {
    let blocks = 1 + random.below(25);
    let mut ends = Vec::new();
    for block in 1..=blocks {
        let mut target =
            || if random.below(3) == 0 { 1 + random.below(blocks) } else { (block + 1 + random.below(3)).min(blocks) };
        let (a, b) = (target(), target());
        ends.push(match random.below(11) {
            0 => String::from("return v1"),
            1..4 => format!("jump block{a}"),
            4..6 => format!("try_call fn1(v0, v1), sig0, block{a}, [ default: block{b} ]"),
            _ => format!("brif v1, block{a}, block{b}"),
        });
    }
    let parsed = |ends: &[String]| {
        let mut text = String::from("\nENTRY\n    jump block1\n");
        for (block, end) in (1..).zip(ends) {
            let block: u32 = block;
            writeln!(text, "block{block}:\n    {end}").unwrap();
        }
        support::parse(0, &text)
    };
    let func = parsed(&ends);
    let mut reached = vec![false; ends.len() + 1];
    let mut work = vec![func.layout.entry_block().unwrap()];
    while let Some(block) = work.pop() {
        if !std::mem::replace(&mut reached[block.as_u32() as usize], true) {
            work.extend(func.block_successors(block));
        }
    }
    for (end, reached) in ends.iter_mut().zip(&reached[1..]) {
        if !reached {
            *end = String::from("return v1");
        }
    }
    parsed(&ends)
}

#[test]
fn dominators_and_loops_agree_with_cranelifts() {
    let mut random = Random(77);
    let mut loops = 0;
    for _ in 0..400 {
        let func = function(&mut random);
        let cfg = ControlFlowGraph::with_function(&func);
        let tree = DominatorTree::with_function(&func, &cfg);
        let mut analysis = LoopAnalysis::new();
        analysis.compute(&func, &cfg, &tree);

        // Blocks are numbered in their order.
        let blocks: Vec<Block> = func.layout.blocks().collect();
        let edges: Vec<_> = blocks
            .iter()
            .flat_map(|from| func.block_successors(*from).map(|to| (from.as_u32(), to.as_u32())).collect::<Vec<_>>())
            .collect();
        let graph = Graph::new(blocks.len(), 0, &edges);
        let dominators = Dominators::new(&graph);
        let forest = LoopForest::new(&graph, &dominators);
        for block in &blocks {
            assert_eq!(dominators.is_reachable(block.as_u32()), tree.is_reachable(*block));
            if !tree.is_reachable(*block) {
                continue;
            }
            let immediate = tree.idom(*block).map(Block::as_u32);
            assert_eq!(dominators.immediate(block.as_u32()), immediate, "{block} of\n{func}");
            let inner = analysis.innermost_loop(*block).map(|inner| analysis.loop_header(inner).as_u32());
            let ours = forest.innermost(block.as_u32()).map(|index| forest.loops()[index as usize].header);
            assert_eq!(ours, inner, "{block} of\n{func}");
        }
        assert_eq!(forest.loops().len(), analysis.loops().count());
        for natural in forest.loops() {
            let theirs = analysis.is_loop_header(Block::from_u32(natural.header)).expect("a header");
            let parent = analysis.loop_parent(theirs).map(|parent| analysis.loop_header(parent).as_u32());
            assert_eq!(natural.parent.map(|parent| forest.loops()[parent as usize].header), parent);
        }
        loops += forest.loops().len();
    }
    assert!(loops > 500, "{loops}");
}

/// Far above what a linear algorithm needs on a busy machine, far below what a quadratic one takes.
const SOON: Duration = Duration::from_secs(20);

fn plan_and_check(name: &str, bodies: &[String], guarded: usize) {
    let program = Program::new(0, &bodies.iter().map(String::as_str).collect::<Vec<_>>());
    let run = move || {
        let start = Instant::now();
        let plan = program.plan(Mode::Spin);
        assert_eq!(program.guarded(&plan).violations(Mode::Spin), [""; 0]);
        let found = plan.functions.iter().flat_map(|f| &f.loops).filter(|l| l.verdict == Verdict::Guarded).count();
        (start.elapsed(), found)
    };
    let (took, found) =
        std::thread::Builder::new().stack_size(512 << 10).spawn(run).expect("a thread").join().expect("no overflow");
    assert_eq!(found, guarded, "{name}");
    assert!(took < SOON, "{name} took {took:?}");
}

#[test]
fn twenty_thousand_spins_in_a_row() {
    let mut text = String::from("\nENTRY\n    jump block1\n");
    for block in 1..=20_000 {
        writeln!(text, "block{block}:\n    v{} = ATOMIC v2\n    brif v1, block{block}, block{}", block + 9, block + 1)
            .unwrap();
    }
    text.push_str("block20001:\n    return v1\n");
    plan_and_check("spins in a row", &[text], 20_000);
}

#[test]
fn loops_in_loops_in_loops() {
    // Block 1 to n are headers, the innermost reads, and its exits lead back to each header in turn.
    let depth = 5_000;
    let mut text = String::from("\nENTRY\n    jump block1\n");
    for block in 1..depth {
        writeln!(text, "block{block}:\n    jump block{}", block + 1).unwrap();
    }
    writeln!(text, "block{depth}:\n    v9 = ATOMIC v2\n    jump block{}", depth + 1).unwrap();
    for back in 1..=depth {
        let (here, header) = (depth + back, depth + 1 - back);
        writeln!(text, "block{here}:\n    brif v1, block{header}, block{}", here + 1).unwrap();
    }
    writeln!(text, "block{}:\n    return v1", 2 * depth + 1).unwrap();
    plan_and_check("a deep nest", &[text], depth);
}

#[test]
fn a_nest_whose_cycles_all_call() {
    // Each loop of the nest calls on its way back: the worst case for serving inner loops first.
    let depth = 2_000;
    let mut text = String::from("\nENTRY\n    jump block1\n");
    for block in 1..depth {
        writeln!(text, "block{block}:\n    v{} = ATOMIC v2\n    jump block{}", 10_000 + block, block + 1).unwrap();
    }
    writeln!(text, "block{depth}:\n    v9 = ATOMIC v2\n    jump block{}", depth + 1).unwrap();
    for back in 1..=depth {
        let (here, header) = (depth + back, depth + 1 - back);
        let call = format!("v{} = call fn1(v0, v1)", 20_000 + back);
        writeln!(text, "block{here}:\n    brif v1, block{}, block{}", 10_000 + back, here + 1).unwrap();
        writeln!(text, "block{}:\n    {call}\n    jump block{header}", 10_000 + back).unwrap();
    }
    writeln!(text, "block{}:\n    return v1", 2 * depth + 1).unwrap();
    let leaf = String::from("\nENTRY\n    return v1\n");
    plan_and_check("a nest of calls", &[text, leaf], 0);
}
