//! Fixtures with expected results, in every mode and at every optimisation; modules that must be refused.

use std::fs;
use std::path::Path;
use std::time::Duration;

use spinwise::config::{GuardMode, OptLevel};
use spinwise::{Config, Instance, Options, Process, RunError, Store, Val};
use tests::within;

fn key(text: &str, name: &str) -> Option<String> {
    let prefix = format!(";; {name}: ");
    text.lines().find_map(|line| line.strip_prefix(&prefix)).map(|value| value.trim().to_owned())
}

fn main_of(path: &Path, config: &Config) -> Result<Vec<Val>, RunError> {
    let wasm = spinwise::binary_form(fs::read(path).expect("readable")).expect("well-formed");
    let program = spinwise::program(&wasm, config).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    let process = Process::new(&Options::default())?;
    let mut store = Store::new(&process)?;
    let instance = Instance::new(&mut store, &program, &[])?;
    instance.call(&mut store, "main", &[])
}

#[test]
fn programs_give_their_results() {
    let files = tests::files("fixtures/run", "wat");
    assert!(files.len() >= 5, "only {} programs", files.len());
    for path in files {
        let text = fs::read_to_string(&path).expect("readable");
        for guard in [GuardMode::Spin, GuardMode::All, GuardMode::Off] {
            for opt in [OptLevel::None, OptLevel::Speed, OptLevel::Size] {
                let config = Config { guard, opt, verify: true, ..Config::default() };
                let (name, file) = (tests::relative(&path), path.clone());
                let result = within(Duration::from_secs(60), &name.clone(), move || main_of(&file, &config));
                match (key(&text, "expect"), key(&text, "trap")) {
                    (Some(expected), None) => {
                        let values = result.unwrap_or_else(|e| panic!("{name}: {guard:?} {opt:?}: {e}"));
                        let shown: Vec<_> = values
                            .iter()
                            .map(|v| match v {
                                Val::I32(v) => v.to_string(),
                                other => panic!("{name}: `main` answers {other:?}"),
                            })
                            .collect();
                        assert_eq!(shown.join(" "), expected, "{name}: {guard:?} {opt:?}");
                    }
                    (None, Some(message)) => {
                        let error = result.expect_err("it traps");
                        let trap = error.trap().unwrap_or_else(|| panic!("{name}: {error}"));
                        assert_eq!(trap.code.message(), message, "{name}: {guard:?} {opt:?}");
                        assert!(!trap.frames.is_empty(), "{name}: a trap has a place");
                    }
                    _ => panic!("{name} needs one line `;; expect:` or `;; trap:`"),
                }
            }
        }
    }
}

#[test]
fn bad_modules_are_refused_with_one_helpful_line() {
    let mut files = tests::files("fixtures/reject", "wat");
    files.extend(tests::files("fixtures/reject", "wasm"));
    assert!(files.len() >= 20, "only {} modules", files.len());
    for path in files {
        let bytes = fs::read(&path).expect("readable");
        let beside = path.with_extension("txt");
        let text = if beside.exists() { fs::read(&beside).expect("readable") } else { bytes.clone() };
        let expected = key(&String::from_utf8_lossy(&text), "error")
            .unwrap_or_else(|| panic!("{}: no error line", path.display()));
        let result = spinwise::binary_form(bytes).and_then(|wasm| spinwise::program(&wasm, &Config::default()));
        let error = match result {
            Ok(_) => panic!("{} is accepted", path.display()),
            Err(error) => error.to_string(),
        };
        assert_eq!(error.lines().count(), 1, "{}: {error}", path.display());
        assert!(error.contains(&expected), "{}: `{error}` lacks `{expected}`", path.display());
    }
}
