//! The printed plan, character by character.

mod support;

use spinwise_guard::{Mode, explain_json, explain_text};
use spinwise_model::index::FuncIndex;
use support::Program;

fn program() -> Program {
    let spin = "
ENTRY
    jump block1
block1:
@003d    nop
@0040    v3 = ATOMIC v2
@0041    v4 = icmp eq v3, v1
@0042    brif v4, block1, block2
block2:
    return v1";
    let calling = "
ENTRY
    jump block1
block1:
@0052    nop
@0053    v3 = call fn3(v0, v1)
@0054    v4 = ATOMIC v2
@0055    brif v4, block2, block1
block2:
    return v1";
    let leaf = "
ENTRY
    return v1";
    let mut program = Program::new(1, &[spin, calling, leaf]);
    program.module.functions[1].name = Some(String::from("bare_spin"));
    program
}

#[test]
fn json_has_the_documented_keys_in_their_order() {
    let program = program();
    let (plan, _) = program.accept(Mode::Spin);
    let inlined = [(FuncIndex(3), FuncIndex(2)), (FuncIndex(3), FuncIndex(1)), (FuncIndex(3), FuncIndex(2))];
    let json = explain_json(&program.module, &plan, &inlined).to_string();
    let expected = concat!(
        r#"{"version":1,"functions":[{"index":1,"name":"bare_spin","inlined_into":[],"entry_poll":null,"#,
        r#""loops":[{"header_offset":61,"depth":1,"size":2,"atomic_reads":1,"plain_loads":0,"calls":0,"#,
        r#""verdict":"guarded","interval":16384,"weight":16,"#,
        r#""watch":{"memory":0,"width":32,"exit_when":"ne","offset":0}}]},"#,
        r#"{"index":2,"name":"func[2]","inlined_into":[],"entry_poll":null,"#,
        r#""loops":[{"header_offset":82,"depth":1,"size":2,"atomic_reads":1,"plain_loads":0,"calls":1,"#,
        r#""verdict":"calls","interval":null,"weight":null,"watch":null}]},"#,
        r#"{"index":3,"name":"func[3]","inlined_into":[1,2],"entry_poll":"called-in-spin-loop","loops":[]}],"#,
        r#""totals":{"loops":2,"guarded":1,"entry_polls":1}}"#,
    );
    assert_eq!(json, expected);
}

#[test]
fn text_tells_people_the_same() {
    let program = program();
    let (plan, _) = program.accept(Mode::Spin);
    let text = explain_text(&program.module, &plan, &[(FuncIndex(3), FuncIndex(1))]);
    let expected = "\
bare_spin (function 1)
  loop at 0x3d: guarded every 16384 turns (weight 16); 2 values, 1 atomic read; waits until the 32-bit word at offset 0 is ne
func[2] (function 2)
  loop at 0x52: calls; 2 values, 1 atomic read, 1 call
func[3] (function 3): polls on entry, called-in-spin-loop (weight 16); also inlined into bare_spin
3 functions, 2 loops, 1 of them guarded; 1 entry poll
";
    assert_eq!(text, expected);
}

#[test]
fn a_plan_survives_a_round_trip_and_numbers_its_sites() {
    let (plan, _) = program().accept(Mode::Spin);
    let text = serde_json::to_string(&plan).expect("a plan is plain data");
    assert_eq!(serde_json::from_str::<spinwise_guard::Plan>(&text).expect("and back"), plan);
    let sites: Vec<_> = plan.sites().map(|site| (site.charge.site, site.function, site.guarded.is_some())).collect();
    assert_eq!(sites, [(0, 1, true), (1, 3, false)]);
}
