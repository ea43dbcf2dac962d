//! Small modules written in CLIF, guarded, checked, verified and compiled.
#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]
#![expect(dead_code, reason = "each test program uses a part of it")]

use std::fmt::Write as _;

use cranelift_codegen::ir::{Block, Function, InstructionData};
use cranelift_codegen::isa::{CallConv, OwnedTargetIsa};
use cranelift_codegen::settings::{self, Configurable as _};
use cranelift_codegen::{Context, verify_function};
use spinwise_guard::{FunctionPlan, Mode, Plan, check, insert, plan};
use spinwise_model::index::TypeIndex;
use spinwise_model::module::{self, Module};
use spinwise_model::symbol::Builtin;
use spinwise_model::types::{FuncType, MemoryType};

/// Functions that every body can name.
pub(crate) const FUNCTIONS: u32 = 8;

/// A module and its defined functions, all of type `(i64 vmctx, i32) -> i32`.
#[derive(Clone)]
pub(crate) struct Program {
    pub(crate) module: Module,
    pub(crate) functions: Vec<Function>,
}

impl Program {
    /// A module of `imported` imports and a defined function for each body. In a body `fnN` is function N and `wait` calls
    /// `memory.atomic.wait32`, `fn22` throws; `v0` is the instance context, `v1` a parameter, `v2` the memory's base.
    pub(crate) fn new(imported: u32, bodies: &[&str]) -> Self {
        let functions = (imported..).zip(bodies).map(|(index, body)| parse(index, body)).collect::<Vec<_>>();
        let types = vec![FuncType {
            params: vec![spinwise_model::types::ValType::I32],
            results: vec![spinwise_model::types::ValType::I32],
        }];
        let all = imported as usize + bodies.len();
        let function = |_| module::Function { ty: TypeIndex(0), name: None, body: 0..0 };
        let module = Module {
            types: types.into_iter().collect(),
            functions: (0..all).map(function).collect(),
            imported_functions: imported,
            memories: vec![MemoryType::new(1, Some(1)).shared()],
            ..Module::default()
        };
        Self { module, functions }
    }

    pub(crate) fn plan(&self, mode: Mode) -> Plan {
        plan(&self.module, &self.functions, mode)
    }

    /// The functions, guarded by a plan.
    pub(crate) fn guarded(&self, plan: &Plan) -> Self {
        let mut guarded = self.clone();
        for (func, plan) in guarded.functions.iter_mut().zip(&plan.functions) {
            insert(func, plan, CallConv::PreserveAll);
        }
        guarded
    }

    /// What the checker says of the functions as they are.
    pub(crate) fn violations(&self, mode: Mode) -> Vec<String> {
        match check(&self.module, &self.functions, mode) {
            Ok(_) => Vec::new(),
            Err(violations) => violations.iter().map(ToString::to_string).collect(),
        }
    }

    /// Plans, guards, checks, verifies; returns the plan and its summary.
    pub(crate) fn accept(&self, mode: Mode) -> (Plan, String) {
        let plan = self.plan(mode);
        assert_eq!(plan, self.plan(mode), "a plan is unique");
        let guarded = self.guarded(&plan);
        let empty: [String; 0] = [];
        assert_eq!(guarded.violations(mode), empty, "\n{}", guarded.text());
        guarded.verify();
        let summary = summary(&plan);
        (plan, summary)
    }

    /// Cranelift's own verifier.
    pub(crate) fn verify(&self) {
        let flags = settings::Flags::new(settings::builder());
        for func in &self.functions {
            if let Err(errors) = verify_function(func, &flags) {
                panic!("{errors}\n{func}");
            }
        }
    }

    /// Machine code of every function, to see that the backends take it.
    pub(crate) fn compile(&self, isa: &OwnedTargetIsa) -> Vec<Vec<u8>> {
        let code = |func: &Function| {
            let mut context = Context::for_function(func.clone());
            let code = context.compile(&**isa, &mut cranelift_codegen::control::ControlPlane::default());
            code.unwrap_or_else(|e| panic!("{}\n{func}", e.inner)).code_buffer().to_vec()
        };
        self.functions.iter().map(code).collect()
    }

    /// Every plan that lacks one guard or entry poll of `plan`, with what was left out.
    pub(crate) fn mutants(plan: &Plan) -> Vec<(String, Plan)> {
        let mut mutants = Vec::new();
        for (at, FunctionPlan { function, entry_poll, loops }) in plan.functions.iter().enumerate() {
            if entry_poll.is_some() {
                let mut mutant = plan.clone();
                mutant.functions[at].entry_poll = None;
                mutants.push((format!("entry poll of {function}"), mutant));
            }
            for (index, natural) in loops.iter().enumerate().filter(|(_, natural)| natural.guard.is_some()) {
                let mut mutant = plan.clone();
                mutant.functions[at].loops[index].guard = None;
                mutants.push((format!("guard of block{} in {function}", natural.header), mutant));
            }
        }
        mutants
    }

    pub(crate) fn text(&self) -> String {
        self.functions.iter().map(|func| format!("{func}\n")).collect()
    }
}

/// A plan in short: a line a function, `reason | block verdict interval …`.
pub(crate) fn summary(plan: &Plan) -> String {
    let mut text = String::new();
    for function in &plan.functions {
        write!(text, "{}:", function.function).unwrap();
        if let Some(poll) = &function.entry_poll {
            write!(text, " {}", poll.reason.name()).unwrap();
        }
        for natural in &function.loops {
            write!(text, " [block{} {}", natural.header, natural.verdict.name()).unwrap();
            if let Some(guard) = natural.guard {
                write!(text, " {}", guard.interval).unwrap();
            }
            text.push(']');
        }
        text.push('\n');
    }
    text
}

pub(crate) fn parse(index: u32, body: &str) -> Function {
    let mut text = format!("function u0:{index}(i64, i32) -> i32 tail {{\n    sig0 = (i64, i32) -> i32 tail\n");
    for callee in 0..FUNCTIONS {
        writeln!(text, "    fn{callee} = colocated u0:{callee} sig0").unwrap();
    }
    let wait = Builtin::AtomicWait32.index();
    writeln!(text, "    sig1 = (i64, i32, i64, i32, i64) -> i32 system_v\n    fn20 = u1:{wait} sig1").unwrap();
    let notify = Builtin::AtomicNotify.index();
    writeln!(text, "    sig2 = (i64, i32, i64, i32) -> i64 system_v\n    fn21 = u1:{notify} sig2").unwrap();
    let throw = Builtin::Throw.index();
    writeln!(text, "    sig3 = (i64, i64) system_v\n    fn22 = u1:{throw} sig3").unwrap();
    let body = body
        .replace("ATOMIC", "atomic_load.i32 little user2")
        .replace("PLAIN", "load.i32 little user2")
        .replace("ENTRY", "block0(v0: i64, v1: i32):\n    v2 = load.i64 notrap aligned readonly can_move v0+24\n");
    text.push_str(&body);
    text.push_str("}\n");
    let functions = cranelift_reader::parse_functions(&text).unwrap_or_else(|e| panic!("{e}\n{text}"));
    functions.into_iter().next().expect("one function")
}

/// The instruction set of a target, optimising.
pub(crate) fn isa(triple: &str) -> OwnedTargetIsa {
    let mut flags = settings::builder();
    flags.set("opt_level", "speed").unwrap();
    for flag in ["preserve_frame_pointers", "enable_multi_ret_implicit_sret", "enable_verifier"] {
        flags.enable(flag).unwrap();
    }
    let flags = settings::Flags::new(flags);
    cranelift_codegen::isa::lookup_by_name(triple).unwrap().finish(flags).unwrap()
}

/// The cold and the hot block of the only guard in a function.
pub(crate) fn only_guard(func: &Function) -> (Block, Block) {
    let cold: Vec<_> = func.layout.blocks().filter(|block| func.layout.is_cold(*block)).collect();
    let [cold] = cold[..] else { panic!("one guard expected\n{func}") };
    let hot = func.layout.blocks().find(|block| func.block_successors(*block).any(|next| next == cold));
    (cold, hot.expect("something leads to the cold block"))
}

/// The first instruction of a block that is of a kind.
pub(crate) fn find(
    func: &Function,
    block: Block,
    kind: impl Fn(&InstructionData) -> bool,
) -> cranelift_codegen::ir::Inst {
    func.layout
        .block_insts(block)
        .find(|inst| kind(&func.dfg.insts[*inst]))
        .unwrap_or_else(|| panic!("not there\n{func}"))
}

/// xorshift64*: small, seedable, good enough to shape programs.
pub(crate) struct Random(pub(crate) u64);

impl Random {
    pub(crate) fn below(&mut self, limit: u32) -> u32 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        let high = self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32;
        u32::try_from((high * u64::from(limit)) >> 32).expect("below a u32")
    }
}
