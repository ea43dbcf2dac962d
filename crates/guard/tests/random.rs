//! Random programs: the planner against the definition in its plainest form, the checker against the planner, and both
//! against runs of the guarded code with random branches.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod support;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use cranelift_codegen::ir::condcodes::IntCC;
use cranelift_codegen::ir::{Block, ExternalName, Function, Inst, InstructionData, Opcode, Value};
use spinwise_guard::{Mode, Plan, Verdict};
use spinwise_model::context::{InstanceHeader, ThreadContext};
use spinwise_model::symbol::{Builtin, NS_BUILTIN, NS_FUNC, NS_POLL_THUNK};
use support::{Program, Random};

/// A random module: one import, up to four functions of up to ten blocks.
fn program(random: &mut Random) -> Program {
    let functions = 1 + random.below(4);
    let bodies: Vec<String> = (0..functions).map(|_| body(random, functions)).collect();
    Program::new(1, &bodies.iter().map(String::as_str).collect::<Vec<_>>())
}

fn body(random: &mut Random, functions: u32) -> String {
    let blocks = 1 + random.below(9);
    let mut text = String::from("\nENTRY\n    jump block1\n");
    for block in 1..=blocks {
        writeln!(text, "block{block}:").unwrap();
        for op in 0..random.below(3) {
            let value = 10 * block + op;
            match random.below(10) {
                0..3 => writeln!(text, "    v{value} = ATOMIC v2").unwrap(),
                3 => writeln!(text, "    v{value} = call fn0(v0, v1)").unwrap(),
                4..6 => {
                    let callee = 1 + random.below(functions);
                    writeln!(text, "    v{value} = call fn{callee}(v0, v1)").unwrap();
                }
                _ => writeln!(text, "    v{value} = PLAIN v2").unwrap(),
            }
        }
        let mut target = || {
            if random.below(3) == 0 { 1 + random.below(blocks) } else { (block + 1 + random.below(2)).min(blocks) }
        };
        let (a, b, c) = (target(), target(), target());
        match random.below(12) {
            0 => writeln!(text, "    return v1").unwrap(),
            8 => writeln!(text, "    call fn22(v0, v2)\n    trap user1").unwrap(),
            9..12 => {
                let callee = random.below(functions + 1);
                writeln!(text, "    try_call fn{callee}(v0, v1), sig0, block{a}, [ default: block{b} ]").unwrap();
            }
            1 => writeln!(text, "    jump block{a}").unwrap(),
            2 => writeln!(text, "    br_table v1, block{a}, [block{b}, block{c}, block{b}]").unwrap(),
            _ => writeln!(text, "    brif v1, block{a}, block{b}").unwrap(),
        }
    }
    text
}

#[test]
fn the_planner_satisfies_the_checker_and_follows_the_definition() {
    let mut random = Random(0x5eed);
    let mut seen = BTreeMap::<&str, usize>::new();
    for round in 0..1500 {
        let program = program(&mut random);
        let (plan, _) = program.accept(Mode::Spin);
        for (function, func) in plan.functions.iter().zip(&program.functions) {
            let plain = Plain::new(func);
            for natural in &function.loops {
                *seen.entry(if natural.irreducible { "irreducible" } else { natural.verdict.name() }).or_default() += 1;
                if !natural.irreducible {
                    let expected = plain.verdict(natural.header as usize);
                    assert_eq!(natural.verdict, expected, "block{} in round {round}\n{func}", natural.header);
                }
            }
            if let Some(poll) = &function.entry_poll {
                *seen.entry(poll.reason.name()).or_default() += 1;
            }
        }
        if round % 10 == 0 {
            program.accept(Mode::All);
        }
    }
    for kind in
        ["guarded", "polls", "calls", "no-atomic-read", "irreducible", "reads-atomically", "called-in-spin-loop"]
    {
        assert!(seen.get(kind).is_some_and(|count| *count > 50), "{kind} must be exercised: {seen:?}");
    }
}

/// A function as sets of blocks, by number, for the definition of a verdict.
struct Plain {
    next: Vec<Vec<usize>>,
    reads: Vec<bool>,
    imports: Vec<bool>,
    calls: Vec<bool>,
}

impl Plain {
    fn new(func: &Function) -> Self {
        let blocks: Vec<Block> = func.layout.blocks().collect();
        let holds = |kind: &dyn Fn(Inst) -> bool| {
            blocks.iter().map(|block| func.layout.block_insts(*block).any(kind)).collect::<Vec<_>>()
        };
        let call = |inst: Inst| match func.dfg.insts[inst] {
            InstructionData::Call { func_ref, .. } | InstructionData::TryCall { func_ref, .. } => {
                let (namespace, index) = name(func, func_ref);
                (namespace == NS_FUNC).then_some(index)
            }
            _ => None,
        };
        Self {
            next: blocks
                .iter()
                .map(|block| func.block_successors(*block).map(|b| b.as_u32() as usize).collect())
                .collect(),
            reads: holds(&|inst| func.dfg.insts[inst].opcode() == Opcode::AtomicLoad),
            imports: holds(&|inst| call(inst) == Some(0)),
            calls: holds(&|inst| call(inst).is_some()),
        }
    }

    fn reaches(&self, from: usize, to: usize, keep: &dyn Fn(usize) -> bool) -> bool {
        let mut seen = vec![false; self.next.len()];
        let mut work: Vec<usize> = if keep(from) { self.next[from].clone() } else { Vec::new() };
        while let Some(block) = work.pop() {
            if keep(block) && !std::mem::replace(&mut seen[block], true) {
                work.extend(&self.next[block]);
            }
        }
        seen[to]
    }

    fn dominates(&self, a: usize, b: usize) -> bool {
        a == b || a == 0 || !self.reaches(0, b, &|block| block != a)
    }

    fn verdict(&self, header: usize) -> Verdict {
        let live = |block: usize| block == 0 || self.reaches(0, block, &|_| true);
        let latch = |block: usize| live(block) && self.next[block].contains(&header) && self.dominates(header, block);
        let latches: Vec<usize> = (0..self.next.len()).filter(|block| latch(*block)).collect();
        let body: Vec<bool> = (0..self.next.len())
            .map(|block| {
                block == header
                    || live(block)
                        && latches.iter().any(|l| *l == block || self.reaches(block, *l, &|at| at != header))
                        && self.dominates(header, block)
            })
            .collect();
        let spins = |deleted: &[bool]| {
            let keep = |block: usize| body[block] && !deleted[block];
            (0..self.next.len()).any(|block| {
                self.reads[block] && self.reaches(header, block, &keep) && self.reaches(block, header, &keep)
            })
        };
        if !(0..self.next.len()).any(|block| body[block] && self.reads[block]) {
            Verdict::NoAtomicRead
        } else if !spins(&self.imports) {
            Verdict::Polls
        } else if spins(&self.calls) {
            Verdict::Guarded
        } else {
            Verdict::Calls
        }
    }
}

fn name(func: &Function, callee: cranelift_codegen::ir::FuncRef) -> (u32, u32) {
    let ExternalName::User(name) = func.dfg.ext_funcs[callee].name else { panic!("named by number") };
    let name = &func.params.user_named_funcs()[name];
    (name.namespace, name.index)
}

/// A budget that is gone in a few turns.
const REFILL: i64 = 64;
/// Steps of a run.
const STEPS: usize = 30_000;
/// More atomic reads than this between two polls are a spin out of reach: far more than a program this small can make
/// without a cycle, far fewer than a spin makes in a run.
const LIMIT: usize = 1500;

/// Runs guarded code with a random choice at every branch of the guest, the guards' own for real. Returns the most atomic
/// reads between two polls.
struct Run<'p> {
    program: &'p Program,
    random: Random,
    /// How often, of 16, a branch goes another way than usual.
    restless: u32,
    usual: BTreeMap<(usize, Block), usize>,
    budget: i64,
    reads: usize,
    worst: usize,
}

struct Frame {
    func: usize,
    block: Block,
    next: Option<Inst>,
    /// The call that it waits for, if that has a handler.
    handles: Option<Inst>,
    values: BTreeMap<Value, Known>,
}

#[derive(Clone, Copy, PartialEq)]
enum Known {
    Thread,
    Number(i64),
}

impl Run<'_> {
    fn go(mut self, start: usize) -> usize {
        let mut frames = vec![self.enter(start)];
        for _ in 0..STEPS {
            let Some(frame) = frames.last_mut() else { break };
            let Some(inst) = frame.next else { break };
            let func = &self.program.functions[frame.func];
            frame.next = func.layout.next_inst(inst);
            match func.dfg.insts[inst].opcode() {
                Opcode::Return => {
                    frames.pop();
                    self.come_back(&mut frames, false);
                }
                Opcode::Call | Opcode::TryCall => {
                    let (InstructionData::Call { func_ref, .. } | InstructionData::TryCall { func_ref, .. }) =
                        func.dfg.insts[inst]
                    else {
                        unreachable!()
                    };
                    let handles = func.dfg.insts[inst].opcode() == Opcode::TryCall;
                    frame.handles = handles.then_some(inst);
                    match name(func, func_ref) {
                        (NS_POLL_THUNK, _) | (NS_FUNC, 0) => {
                            let at = (frame.func, frame.block);
                            self.poll();
                            if handles {
                                let throws = self.choose(at, 2) == 1;
                                self.come_back(&mut frames, throws);
                            }
                        }
                        (NS_BUILTIN, builtin) => {
                            assert_eq!(Builtin::from_index(builtin), Some(Builtin::Throw));
                            frames.pop();
                            while frames.last().is_some_and(|frame| frame.handles.is_none()) {
                                frames.pop();
                            }
                            self.come_back(&mut frames, true);
                        }
                        (NS_FUNC, callee) => {
                            if frames.len() > 40 {
                                break;
                            }
                            let callee = self.enter(callee as usize - 1);
                            frames.push(callee);
                        }
                        other => panic!("{other:?} is never called"),
                    }
                }
                _ => self.step(frame, inst),
            }
        }
        self.worst.max(self.reads)
    }

    /// Goes on in the innermost frame after its call, which returned or threw.
    fn come_back(&self, frames: &mut [Frame], threw: bool) {
        let Some(frame) = frames.last_mut() else { return };
        let Some(call) = frame.handles.take() else { return };
        let func = &self.program.functions[frame.func];
        let table = &func.dfg.exception_tables[func.dfg.insts[call].exception_table().unwrap()];
        let to = if threw { table.all_branches()[0] } else { *table.normal_return() };
        frame.block = to.block(&func.dfg.value_lists);
        frame.next = func.layout.first_inst(frame.block);
    }

    fn enter(&self, func: usize) -> Frame {
        let layout = &self.program.functions[func].layout;
        let block = layout.entry_block().unwrap();
        Frame { func, block, next: layout.first_inst(block), handles: None, values: BTreeMap::new() }
    }

    fn poll(&mut self) {
        self.worst = self.worst.max(self.reads);
        (self.reads, self.budget) = (0, REFILL);
    }

    fn step(&mut self, frame: &mut Frame, inst: Inst) {
        let func = &self.program.functions[frame.func];
        let dfg = &func.dfg;
        let known = |value: Value| frame.values.get(&dfg.resolve_aliases(value)).copied();
        let result = match dfg.insts[inst] {
            InstructionData::UnaryImm { opcode: Opcode::Iconst, imm } => Some(Known::Number(imm.bits())),
            InstructionData::Load { arg, offset, .. } => match (known(arg), i32::from(offset)) {
                (None, InstanceHeader::THREAD) if arg == dfg.block_params(func.layout.entry_block().unwrap())[0] => {
                    Some(Known::Thread)
                }
                (Some(Known::Thread), ThreadContext::BUDGET) => Some(Known::Number(self.budget)),
                (Some(Known::Thread), ThreadContext::INTERRUPTED) => Some(Known::Number(0)),
                _ => None,
            },
            InstructionData::Binary { opcode: Opcode::Isub, args } => match args.map(known) {
                [Some(Known::Number(a)), Some(Known::Number(b))] => Some(Known::Number(a - b)),
                _ => None,
            },
            InstructionData::IntCompare { args, cond: IntCC::SignedLessThanOrEqual, .. } => match args.map(known) {
                [Some(Known::Number(a)), Some(Known::Number(b))] => Some(Known::Number(i64::from(a <= b))),
                _ => None,
            },
            InstructionData::Store { args: [value, base], .. } => {
                if let (Some(Known::Number(left)), Some(Known::Thread)) = (known(value), known(base)) {
                    self.budget = left;
                }
                None
            }
            InstructionData::LoadNoOffset { opcode: Opcode::AtomicLoad, .. } => {
                self.reads += 1;
                None
            }
            ref data if data.opcode().is_branch() => {
                let calls = data.branch_destination(&dfg.jump_tables, &dfg.exception_tables);
                let side = match data {
                    InstructionData::Brif { arg, .. } if known(*arg).is_some() => {
                        usize::from(known(*arg) == Some(Known::Number(0)))
                    }
                    _ => self.choose((frame.func, frame.block), calls.len()),
                };
                frame.block = calls[side].block(&dfg.value_lists);
                frame.next = func.layout.first_inst(frame.block);
                return;
            }
            _ => None,
        };
        if let (Some(result), [value]) = (result, dfg.inst_results(inst)) {
            frame.values.insert(*value, result);
        }
    }

    fn choose(&mut self, at: (usize, Block), ways: usize) -> usize {
        let ways = u32::try_from(ways).unwrap();
        let usual = *self.usual.entry(at).or_insert(self.random.below(ways) as usize);
        if self.random.below(16) < self.restless { self.random.below(ways) as usize } else { usual }
    }
}

/// The most atomic reads between two polls in some runs of a guarded program.
fn worst(program: &Program, random: &mut Random) -> usize {
    (0..6u32)
        .map(|restless| {
            let seed = 1 + u64::from(random.below(u32::MAX));
            let start = random.below(u32::try_from(program.functions.len()).unwrap()) as usize;
            let run = Run {
                program,
                random: Random(seed),
                restless,
                usual: BTreeMap::new(),
                budget: REFILL,
                reads: 0,
                worst: 0,
            };
            run.go(start)
        })
        .max()
        .unwrap()
}

#[test]
fn guarded_programs_poll_and_what_runs_away_unguarded_is_reported() {
    let mut random = Random(0xbadc_0ffe);
    let (mut ran_away, mut reported) = (0, 0);
    for _ in 0..600 {
        let program = program(&mut random);
        let plan: Plan = program.plan(Mode::Spin);
        let guarded = program.guarded(&plan);
        let reads = worst(&guarded, &mut random);
        assert!(reads <= LIMIT, "{reads} atomic reads without a poll\n{}", guarded.text());
        for (what, mutant) in Program::mutants(&plan) {
            let without = program.guarded(&mutant);
            let violations = without.violations(Mode::Spin);
            reported += usize::from(!violations.is_empty());
            if worst(&without, &mut random) > LIMIT {
                ran_away += 1;
                assert!(!violations.is_empty(), "{what} is missing, it spins out of reach, and the checker accepts it");
            }
        }
    }
    assert!(ran_away > 50 && reported > 200, "the runs must have power: {ran_away} ran away, {reported} were reported");
}
