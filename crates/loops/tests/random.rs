//! Every algorithm against its definition, on random graphs, and its time on large ones.

use std::time::{Duration, Instant};

use petgraph::algo::dominators::simple_fast;
use petgraph::graph::{DiGraph, NodeIndex};
use spinwise_loops::{Components, Cores, Dominators, Graph, LoopForest, Node, irreducible_cycles};

/// xorshift64*: small, seedable, good enough to shape graphs.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        u32::try_from((high * u64::from(limit)) >> 32).expect("below a u32")
    }

    /// Up to 12 nodes; mostly forward edges, so that there is something to dominate.
    fn graph(&mut self) -> Graph {
        let nodes = 1 + self.below(12);
        let edges: Vec<_> = (0..self.below(3 * nodes + 1))
            .map(|_| {
                let from = self.below(nodes);
                let to = if self.below(3) == 0 { self.below(nodes) } else { (from + 1 + self.below(3)).min(nodes - 1) };
                (from, to)
            })
            .collect();
        Graph::new(nodes as usize, 0, &edges)
    }
}

/// What `from` reaches over kept nodes, itself included if kept.
fn reached(graph: &Graph, from: Node, keep: impl Fn(Node) -> bool) -> Vec<bool> {
    let mut seen = vec![false; graph.len()];
    let mut work = vec![from];
    while let Some(node) = work.pop() {
        if keep(node) && !std::mem::replace(&mut seen[node as usize], true) {
            work.extend_from_slice(graph.successors(node));
        }
    }
    seen
}

/// Whether a path of one edge or more leads from `from` to `to` over kept nodes, both ends kept.
fn leads(graph: &Graph, from: Node, to: Node, keep: impl Fn(Node) -> bool + Copy) -> bool {
    keep(from) && graph.successors(from).iter().any(|next| reached(graph, *next, keep)[to as usize])
}

/// By definition: without `a`, the entry no longer reaches `b`.
fn dominates(graph: &Graph, a: Node, b: Node) -> bool {
    reached(graph, graph.entry(), |_| true)[b as usize]
        && (a == b || !reached(graph, graph.entry(), |node| node != a)[b as usize])
}

/// By definition: what reaches a back edge of `header` without passing it.
fn body(graph: &Graph, header: Node) -> Vec<bool> {
    let reachable = reached(graph, graph.entry(), |_| true);
    let latches: Vec<_> =
        graph.predecessors(header).iter().copied().filter(|latch| dominates(graph, header, *latch)).collect();
    (0u32..)
        .zip(&reachable)
        .map(|(node, live)| {
            let walk = reached(graph, node, |at| at != header);
            !latches.is_empty() && *live && (node == header || latches.iter().any(|latch| walk[*latch as usize]))
        })
        .collect()
}

#[test]
fn dominators_follow_the_definition() {
    let mut random = Random(1);
    for _ in 0..3000 {
        let graph = random.graph();
        let dominators = Dominators::new(&graph);
        for a in graph.nodes() {
            for b in graph.nodes() {
                assert_eq!(dominators.dominates(a, b), dominates(&graph, a, b), "{a} over {b} in {graph:?}");
            }
            let strict = |b: &Node| *b != a && dominates(&graph, *b, a);
            let closest =
                graph.nodes().filter(strict).find(|b| graph.nodes().filter(strict).all(|c| dominates(&graph, c, *b)));
            assert_eq!(dominators.immediate(a), closest, "over {a} in {graph:?}");
        }
    }
}

#[test]
fn loops_follow_the_definition() {
    let mut random = Random(2);
    let mut nested = 0;
    for _ in 0..3000 {
        let graph = random.graph();
        let dominators = Dominators::new(&graph);
        let forest = LoopForest::new(&graph, &dominators);
        let headers: Vec<_> = graph.nodes().filter(|node| body(&graph, *node)[*node as usize]).collect();
        let mut found: Vec<_> = forest.loops().iter().map(|natural| natural.header).collect();
        found.sort_unstable();
        assert_eq!(found, headers);
        for (index, natural) in forest.indices().zip(forest.loops()) {
            let body = body(&graph, natural.header);
            for node in graph.nodes() {
                assert_eq!(forest.contains(index, node), body[node as usize], "{node} in {natural:?} of {graph:?}");
            }
            let around = forest.indices().filter(|outer| forest.contains(*outer, natural.header)).count();
            assert_eq!(natural.depth as usize, around);
            assert!(natural.parent.is_none_or(|parent| parent < index));
            nested += usize::from(natural.parent.is_some());
            assert_eq!(forest.sums(|_| 1)[index as usize] as usize, body.iter().filter(|inside| **inside).count());
        }
    }
    assert!(nested > 500, "the graphs must exercise nesting: {nested}");
}

#[test]
fn irreducible_cycles_are_all_that_loops_leave() {
    let mut random = Random(3);
    let mut seen = 0;
    for _ in 0..3000 {
        let graph = random.graph();
        let cycles = irreducible_cycles(&graph, &Dominators::new(&graph));
        seen += cycles.len();
        let live = reached(&graph, 0, |_| true);
        let forward: Vec<_> = graph.edges().filter(|&(from, to)| !dominates(&graph, to, from)).collect();
        let rest = Graph::new(graph.len(), 0, &forward);
        for node in graph.nodes() {
            let cyclic = live[node as usize] && leads(&rest, node, node, |node| live[node as usize]);
            assert_eq!(cycles.iter().any(|cycle| cycle.contains(&node)), cyclic, "{node} in {graph:?}");
        }
    }
    assert!(seen > 100, "the graphs must have irreducible cycles: {seen}");
}

#[test]
fn components_and_cores_follow_the_definition() {
    let mut random = Random(4);
    let mut smaller = 0;
    for _ in 0..4000 {
        let graph = random.graph();
        let kept: Vec<_> = graph.nodes().map(|_| random.below(5) > 0).collect();
        let keep = |node: Node| kept[node as usize];
        let components = Components::new(&graph, keep, |_, _| true);
        for a in graph.nodes() {
            assert_eq!(components.on_cycle(a), leads(&graph, a, a, keep));
            for b in graph.nodes() {
                let mutual =
                    keep(a) && keep(b) && reached(&graph, a, keep)[b as usize] && reached(&graph, b, keep)[a as usize];
                assert_eq!(components.same(a, b), mutual);
            }
        }
        let forest = LoopForest::new(&graph, &Dominators::new(&graph));
        let cores = Cores::new(&graph, &forest, keep);
        let even = cores.holds(|node| node % 2 == 0);
        for (index, natural) in forest.indices().zip(forest.loops()) {
            let body = body(&graph, natural.header);
            let inside = |node: Node| body[node as usize] && keep(node);
            let turns =
                |node: Node| leads(&graph, natural.header, node, inside) && leads(&graph, node, natural.header, inside);
            let expected: Vec<_> = graph.nodes().filter(|node| turns(*node)).collect();
            let mut nodes: Vec<_> = cores.nodes(index).collect();
            nodes.sort_unstable();
            assert_eq!(nodes, expected, "{natural:?} of {graph:?} keeping {kept:?}");
            assert_eq!(cores.is_cyclic(index), !expected.is_empty());
            assert_eq!(even[index as usize], expected.iter().any(|node| node % 2 == 0));
            smaller +=
                usize::from(!expected.is_empty() && expected.len() < body.iter().filter(|inside| **inside).count());
        }
    }
    assert!(smaller > 200, "deletion must leave parts of loops: {smaller}");
}

#[test]
fn dominators_agree_with_petgraph_on_larger_graphs() {
    let mut random = Random(5);
    for _ in 0..200 {
        let nodes = 2 + random.below(300);
        let edges: Vec<_> = (0..2 * nodes).map(|_| (random.below(nodes), random.below(nodes))).collect();
        let dominators = Dominators::new(&Graph::new(nodes as usize, 0, &edges));
        let mut other = DiGraph::<(), (), u32>::new();
        (0..nodes).for_each(|_| {
            other.add_node(());
        });
        other.extend_with_edges(&edges);
        let oracle = simple_fast(&other, NodeIndex::new(0));
        for node in 0..nodes {
            let expected = oracle.immediate_dominator(NodeIndex::new(node as usize)).map(NodeIndex::index);
            assert_eq!(dominators.immediate(node).map(|d| d as usize), expected.filter(|_| node != 0));
        }
    }
}

/// Runs the whole of it on a thread with a small stack, and returns how long it took.
fn analyse(nodes: u32, edges: Vec<(Node, Node)>) -> (Duration, usize) {
    let run = move || {
        let start = Instant::now();
        let graph = Graph::new(nodes as usize, 0, &edges);
        let dominators = Dominators::new(&graph);
        let forest = LoopForest::new(&graph, &dominators);
        let cores = Cores::new(&graph, &forest, |node| node % 7 != 5);
        assert_eq!(cores.holds(|_| true).len(), forest.loops().len());
        assert!(irreducible_cycles(&graph, &dominators).is_empty());
        (start.elapsed(), forest.loops().len())
    };
    std::thread::Builder::new().stack_size(128 << 10).spawn(run).expect("a thread").join().expect("no overflow")
}

/// Far above what a linear algorithm needs in a debug build, far below what a quadratic one takes.
const INSTANT: Duration = Duration::from_secs(5);

#[test]
fn large_shapes_are_instant_and_need_little_stack() {
    const N: u32 = 100_000;
    let chain = || (1..N).map(|node| (node - 1, node));
    let one_exit = chain().chain((0..N - 1).map(|node| (node, N - 1))).collect();
    let one_header = chain().chain((1..N).map(|node| (node, 1))).collect();
    let nested = chain().chain((0..N / 2).map(|node| (N - 1 - node, node + 1))).collect();
    let two_fans = chain().take(N as usize / 2).chain((N / 2 + 1..N).flat_map(|to| [(1, to), (N / 2, to)])).collect();
    let shapes: [(&str, u32, Vec<_>, usize); 6] = [
        ("20,000 empty loops", 20_002, (0..20_001).flat_map(|at| [(at, at + 1), (at + 1, at + 1)]).collect(), 20_001),
        ("a chain", N, chain().collect(), 0),
        ("a chain with one exit", N, one_exit, 0),
        ("one header with all back edges", N, one_header, 1),
        ("a deep nest", N, nested, N as usize / 2),
        ("two fans over a chain", N, two_fans, 0),
    ];
    for (name, nodes, edges, loops) in shapes {
        let (took, found) = analyse(nodes, edges);
        assert_eq!(found, loops, "{name}");
        assert!(took < INSTANT, "{name} took {took:?}");
    }
}
