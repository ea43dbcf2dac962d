//! Exceptions where lowering is delicate: stack arguments, values that live across a throwing call, many frames, many
//! throws, at every optimisation and in every mode.

use std::fmt::Write as _;
use std::time::{Duration, Instant};

use spinwise::config::{GuardMode, OptLevel};
use spinwise::{Config, Instance, Options, Process, RunError, Store, TrapCode, Val};
use tests::within;

/// One guest at a time.
struct Guest {
    store: Store,
    instance: Instance,
}

impl Guest {
    fn new(text: &str, config: &Config) -> Self {
        let wasm = spinwise::binary_form(text.as_bytes().to_vec()).unwrap_or_else(|e| panic!("{e}: {text}"));
        let program = spinwise::program(&wasm, config).unwrap_or_else(|e| panic!("{e}: {text}"));
        let process = Process::new(&Options::default()).expect("a process");
        let mut store = Store::new(&process).expect("a store");
        let instance = Instance::new(&mut store, &program, &[]).expect("an instance");
        Self { store, instance }
    }

    fn call(&mut self, name: &str, arguments: &[i32]) -> Result<Vec<Val>, RunError> {
        let arguments: Vec<Val> = arguments.iter().map(|argument| Val::I32(*argument)).collect();
        self.instance.call(&mut self.store, name, &arguments)
    }

    /// The only result.
    fn i32(&mut self, name: &str, arguments: &[i32]) -> i32 {
        match self.call(name, arguments).unwrap_or_else(|e| panic!("{name}: {e}"))[..] {
            [Val::I32(result)] => result,
            ref other => panic!("{name}: {other:?}"),
        }
    }
}

/// Runs a check of a module in every configuration.
fn everywhere(text: &str, check: impl Fn(&mut Guest)) {
    for guard in [GuardMode::Spin, GuardMode::All, GuardMode::Off] {
        for opt in [OptLevel::None, OptLevel::Speed, OptLevel::Size] {
            check(&mut Guest::new(text, &Config { guard, opt, verify: true, ..Config::default() }));
        }
    }
}

/// Types in turn, so that registers and stack are both used for each.
const TYPES: [&str; 5] = ["i32", "f64", "i64", "v128", "f32"];

/// A constant of the type, told apart by its number.
fn constant(number: usize) -> String {
    match TYPES[number % TYPES.len()] {
        "v128" => format!("(v128.const i32x4 {number} {number} 7 {number})"),
        ty => format!("({ty}.const {number})"),
    }
}

/// The same number as an `i64`, of a value on the stack.
fn as_i64(number: usize) -> &'static str {
    match TYPES[number % TYPES.len()] {
        "i32" => "i64.extend_i32_u",
        "f64" => "i64.trunc_f64_u",
        "i64" => "",
        "v128" => "i32x4.extract_lane 3 i64.extend_i32_u",
        _ => "i64.trunc_f32_u",
    }
}

fn types(count: usize) -> String {
    (0..count).map(|number| TYPES[number % TYPES.len()]).collect::<Vec<_>>().join(" ")
}

/// Pops so many values of types in turn, and leaves the sum of their numbers, through local `$sum`.
fn add_up(count: usize) -> String {
    let mut text = String::from("i64.const 0 local.set $sum\n");
    for number in (0..count).rev() {
        writeln!(text, "{} local.get $sum i64.add local.set $sum", as_i64(number)).expect("a string");
    }
    text + "local.get $sum"
}

fn sum(count: usize) -> i64 {
    (0..count).map(|number| i64::try_from(number).expect("small")).sum()
}

#[test]
fn a_thousand_parameters_results_and_payloads() {
    const N: usize = 1000;
    // One of the parameters says what to do, so that one value is the callee's own.
    const GIVEN: usize = N - 1;
    let (types, given, values) = (types(N), types(GIVEN), (0..GIVEN).map(constant).collect::<Vec<_>>().join("\n"));
    let locals: String = (0..GIVEN).map(|number| format!("(local.get {number})\n")).collect();
    let locals = locals + &constant(GIVEN);
    let add = add_up(N);
    let text = format!(
        "(module
          (type $wide (func (param {given} i32) (result {types})))
          (tag $all (param {types}))
          (table funcref (elem $wide))
          (func $wide (type $wide)
            (if (local.get {GIVEN}) (then {locals} throw $all))
            {locals})
          (func (export \"run\") (param i32 i32) (result i64) (local $sum i64)
            (if (local.get 1)
              (then
                (block (result {types})
                  (try_table (result {types}) (catch $all 0)
                    {values}
                    local.get 0
                    call $wide))
                {add} return))
            (block (result {types})
              (try_table (result {types}) (catch $all 0)
                {values}
                local.get 0
                i32.const 0
                call_indirect (type $wide)))
            {add}))"
    );
    everywhere(&text, |guest| {
        for (throws, direct) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let result = guest.call("run", &[throws, direct]).expect("caught");
            assert!(matches!(result[..], [Val::I64(found)] if found == sum(N)), "{result:?}");
        }
    });
}

/// Each function of the chain becomes the next, which takes more or fewer parameters; the last one throws, or answers.
#[test]
fn tail_calls_that_move_the_stack_before_a_throw() {
    let counts = [3, 40, 0, 200, 17, 1, 90];
    let mut chain = String::new();
    for (index, count) in counts.iter().enumerate() {
        let next = match counts.get(index + 1) {
            Some(next) => {
                let values: String = (0..*next).map(constant).collect();
                format!("(return_call $f{} {values} (local.get $throws) (local.get $seen))", index + 1)
            }
            None => String::from("(if (local.get $throws) (then (throw $e (local.get $seen)))) (local.get $seen)"),
        };
        let locals: String = (0..*count).map(|number| format!("(local.get {number})\n")).collect();
        writeln!(
            chain,
            "(func $f{index} (param {}) (param $throws i32) (param $seen i64) (result i64) (local $sum i64)
               {locals} {} local.get $seen i64.add local.set $seen {next})",
            types(*count),
            add_up(*count)
        )
        .expect("a string");
    }
    let first: String = (0..counts[0]).map(constant).collect();
    // The caller's own stack arguments and locals must be as they were: 30 of each type.
    let before: String = (0..150).map(|number| format!("{} local.set $v{number}\n", constant(number))).collect();
    let after: String = (0..150).map(|number| format!("local.get $v{number}\n")).collect();
    let locals: String = (0..150).map(|number| format!("(local $v{number} {})", TYPES[number % TYPES.len()])).collect();
    let add = add_up(150);
    let text = format!(
        "(module (tag $e (param i64)) {chain}
          (func $run (export \"run\") (param $throws i32) (result i64) (local $sum i64) {locals}
            {before}
            (block $caught (result i64)
              (try_table (result i64) (catch $e $caught)
                (call $f0 {first} (local.get $throws) (i64.const 0))
                (i64.add (i64.const 1000000))))
            {after} {add} i64.add)
          (func (export \"twice\") (param $throws i32) (result i64)
            (i64.add (call $run (local.get $throws)) (call $run (i32.eqz (local.get $throws))))))"
    );
    let seen: i64 = counts.iter().map(|count| sum(*count)).sum();
    let quiet = seen + 1_000_000 + sum(150);
    everywhere(&text, |guest| {
        for (throws, expected) in [(0, quiet), (1, quiet - 1_000_000)] {
            let result = guest.call("run", &[throws]).expect("caught");
            assert!(matches!(result[..], [Val::I64(found)] if found == expected), "{result:?} is not {expected}");
            let result = guest.call("twice", &[throws]).expect("caught");
            assert!(matches!(result[..], [Val::I64(found)] if found == 2 * quiet - 1_000_000), "{result:?}");
        }
    });
}

/// Values that are in registers and on the stack when a callee throws, from frames that use all registers themselves.
#[test]
fn values_live_across_a_throw() {
    const N: usize = 120;
    let names: Vec<_> = (0..N).map(|number| format!("$v{number}")).collect();
    let params: String =
        (0..N).map(|number| format!("(param {} {})", names[number], TYPES[number % TYPES.len()])).collect();
    let get: String = names.iter().map(|name| format!("local.get {name}\n")).collect();
    let values: String = (0..N).map(constant).collect();
    let add = add_up(N);
    let text = format!(
        "(module (tag $e)
          (func $leaf {params} (param $depth i32) (result i64) (local $sum i64)
            (if (i32.eqz (local.get $depth)) (then (throw $e)))
            {get} (local.get $depth) (i32.sub (i32.const 1)) (call $leaf)
            {get} {add} i64.add)
          (func $catcher {params} (param $depth i32) (result i64) (local $sum i64) (local $copy i64)
            {get} {add} local.set $copy
            (block $caught
              (try_table (catch_all $caught)
                {get} (local.get $depth) (call $leaf) drop
                unreachable))
            {get} {add} local.get $copy i64.add)
          (func (export \"run\") (param $depth i32) (result i64)
            {values} local.get $depth call $catcher))"
    );
    everywhere(&text, |guest| {
        for depth in [0, 1, 20] {
            let result = guest.call("run", &[depth]).expect("caught");
            assert!(matches!(result[..], [Val::I64(found)] if found == 2 * sum(N)), "{depth}: {result:?}");
        }
    });
}

/// Locals are as they were at the call that threw, not as they were when the body began.
#[test]
fn locals_changed_in_the_body_are_seen_by_the_handler() {
    let text = r#"(module (tag $e)
      (func $at (param $i i32) (param $n i32)
        (if (i32.eq (local.get $i) (local.get $n)) (then (throw $e))))
      (func (export "run") (param $n i32) (result i32) (local $x i32) (local $i i32)
        (block $caught
          (try_table (catch $e $caught)
            (loop $again
              (local.set $x (i32.add (local.get $x) (i32.const 10)))
              (call $at (local.get $i) (local.get $n))
              (local.set $x (i32.add (local.get $x) (i32.const 1)))
              (local.set $i (i32.add (local.get $i) (i32.const 1)))
              (br_if $again (i32.lt_u (local.get $i) (i32.const 5))))
            (return (local.get $x))))
        (i32.sub (i32.const 0) (local.get $x))))"#;
    everywhere(text, |guest| {
        for (n, expected) in [(0, -10), (2, -32), (4, -54), (5, 55)] {
            assert_eq!(guest.i32("run", &[n]), expected);
        }
    });
}

const RECURSION: &str = r#"(module (tag $e (param i32)) (tag $other)
  (func $down (param $depth i32) (result i32)
    (if (i32.eqz (local.get $depth)) (then (throw $e (i32.const 7))))
    (i32.add (call $down (i32.sub (local.get $depth) (i32.const 1))) (i32.const 1)))
  (func (export "deep") (param $depth i32) (result i32)
    (block $caught (result i32)
      (try_table (catch $e $caught) (drop (call $down (local.get $depth))))
      unreachable))
  (func $each (param $depth i32) (result i32)
    (if (i32.eqz (local.get $depth)) (then (throw $e (i32.const 0))))
    (block $never
      (block $caught (result i32)
        (try_table (catch $other $never) (catch $e $caught)
          (drop (call $each (i32.sub (local.get $depth) (i32.const 1)))))
        unreachable)
      (throw $e (i32.add (i32.const 1))))
    unreachable)
  (func (export "each") (param $depth i32) (result i32)
    (block $caught (result i32)
      (try_table (catch $e $caught) (drop (call $each (local.get $depth))))
      unreachable))
  (func $maybe (param $turn i32) (result i32)
    (if (i32.and (local.get $turn) (i32.const 1)) (then (throw $e (local.get $turn))))
    (i32.const 3))
  (func (export "often") (param $turns i32) (result i32) (local $sum i32)
    (loop $again
      (block $done
        (block $caught (result i32)
          (try_table (catch $e $caught)
            (local.set $sum (i32.add (local.get $sum) (call $maybe (local.get $turns))))
            (br $done))
          unreachable)
        (i32.and (i32.const 1))
        (local.set $sum (i32.add (local.get $sum))))
      (br_if $again (local.tee $turns (i32.sub (local.get $turns) (i32.const 1)))))
    (local.get $sum))
  (func (export "overflow") (result i32)
    (block $caught (try_table (catch_all $caught) (drop (call $for_ever))) unreachable)
    (i32.const 1))
  (func $for_ever (result i32) (i32.add (call $for_ever) (i32.const 1))))"#;

#[test]
fn catching_in_recursion() {
    everywhere(RECURSION, |guest| {
        assert_eq!(guest.i32("each", &[1000]), 1000);
        assert_eq!(guest.i32("deep", &[1000]), 7);
        // A stack overflow is a trap, which nothing catches; and the stack is good afterwards.
        let error = guest.call("overflow", &[]).expect_err("a trap");
        assert_eq!(error.trap().map(|trap| trap.code), Some(TrapCode::StackOverflow), "{error}");
        assert_eq!(guest.i32("deep", &[1000]), 7);
    });
}

#[test]
fn a_throw_out_of_many_frames_takes_linear_time() {
    within(Duration::from_secs(120), "unwinding", || {
        let mut guest = Guest::new(RECURSION, &Config::default());
        let mut time = |depth: i32| {
            let one = |_: u32| {
                let start = Instant::now();
                assert_eq!(guest.i32("deep", &[depth]), 7);
                start.elapsed()
            };
            (0..5).map(one).min().expect("several")
        };
        let (small, large) = (time(10_000), time(100_000));
        println!("10,000 frames {small:?}, 100,000 frames {large:?}");
        // Ten times as many: were it quadratic, a hundred times as long.
        assert!(large < 40 * small, "10,000 frames {small:?}, 100,000 frames {large:?}");
    });
}

#[test]
fn a_million_throws_are_bounded_in_memory() {
    within(Duration::from_secs(120), "throwing", || {
        let mut guest = Guest::new(RECURSION, &Config::default());
        guest.i32("often", &[1000]);
        let before = resident();
        let start = Instant::now();
        assert_eq!(guest.i32("often", &[2_000_000]), 4_000_000);
        let (time, grown) = (start.elapsed(), resident() - before);
        println!("a million throws: {time:?}, {grown} KiB more");
        assert!(grown < 64 << 10, "{grown} KiB more");
    });
}

/// Resident memory, in KiB.
fn resident() -> i64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("readable");
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).expect("a line");
    line.trim().trim_end_matches("kB").trim().parse().expect("a number")
}
