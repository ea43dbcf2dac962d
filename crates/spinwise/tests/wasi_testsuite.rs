//! The programs of the official `wasi-testsuite`, from a folder that is given:
//!
//! ```text
//! SPINWISE_WASI_TESTSUITE=FOLDER cargo test --workspace --test wasi_testsuite -- --ignored --nocapture
//! ```
//!
//! FOLDER holds the built programs: that repository's branch `prod/testsuite-all`, or any folder with `.wasm` files and
//! their `.json`. Each runs in a child process of the command, in a copy of its directories, on an input that gives nothing
//! and never ends. Prints a table, and what was left out with the reason.
//!
//! Three programs of wasi-threads have a thread in a plain compute loop. With `--guard spin` the command ends hard around it,
//! with the right code; with `--guard all` the loop must end as all others do.
#![expect(clippy::print_stdout, reason = "the table is what the test is run for")]

use std::collections::BTreeMap;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use serde_json::Value;
use tests::{Ended, run_on_within};

/// The variable that names the folder.
const FOLDER: &str = "SPINWISE_WASI_TESTSUITE";

/// How long one program may take; the slowest takes a second.
const LIMIT: Duration = Duration::from_secs(60);

/// What a program is run with, and what it must do. The defaults are the suite's.
#[derive(Debug, Default, PartialEq)]
struct Case {
    args: Vec<String>,
    env: Vec<(String, String)>,
    dirs: Vec<String>,
    exit_code: i32,
    stdout: Option<String>,
    stderr: Option<String>,
}

/// Reads a program's `.json`, in either of the two forms that the suite describes; `Err` is why it cannot be run here.
fn case(text: &str) -> Result<Case, String> {
    let value: Value = serde_json::from_str(text).map_err(|error| format!("its .json is none: {error}"))?;
    let mut case = Case::default();
    if !value["proposals"].as_array().is_none_or(Vec::is_empty) {
        return Err(format!("needs the proposals {}", value["proposals"]));
    }
    let steps = match value["operations"].as_array() {
        Some(steps) => steps.clone(),
        None => vec![value],
    };
    for step in &steps {
        let kind = step["type"].as_str().unwrap_or("all in one");
        if !["all in one", "run", "read", "wait"].contains(&kind) {
            return Err(format!("needs the operation `{kind}`, which only programs beyond preview 1 have"));
        }
        let object = step.as_object().ok_or("its .json is not an object")?;
        for (name, value) in object {
            match (name.as_str(), kind) {
                ("type" | "id" | "proposals", _) => {}
                ("args", _) => case.args = strings(value)?,
                ("dirs", _) => case.dirs = strings(value)?,
                ("env", _) => {
                    let pairs = value.as_object().ok_or("`env` is not an object")?;
                    let pair = |(name, value): (&String, &Value)| Some((name.clone(), value.as_str()?.to_owned()));
                    case.env =
                        pairs.iter().map(pair).collect::<Option<_>>().ok_or("`env` has a value that is no text")?;
                }
                ("exit_code", _) => {
                    let code = value.as_i64().and_then(|code| i32::try_from(code).ok());
                    case.exit_code = code.ok_or("`exit_code` is not a number")?;
                }
                ("stdout", _) => case.stdout = value.as_str().map(ToOwned::to_owned),
                ("stderr", _) => case.stderr = value.as_str().map(ToOwned::to_owned),
                ("payload", "read") => {
                    let payload = value.as_str().map(ToOwned::to_owned);
                    *(if step["id"] == "stderr" { &mut case.stderr } else { &mut case.stdout }) = payload;
                }
                (other, _) => return Err(format!("its .json has a field `{other}` that is not known here")),
            }
        }
    }
    Ok(case)
}

fn strings(value: &Value) -> Result<Vec<String>, String> {
    let list = value.as_array().ok_or("a list is expected")?;
    list.iter()
        .map(|item| item.as_str().map(ToOwned::to_owned))
        .collect::<Option<_>>()
        .ok_or("texts are expected".into())
}

/// All folders that have programs, sorted.
fn folders(root: &Path) -> io::Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut rest = vec![root.to_owned()];
    while let Some(folder) = rest.pop() {
        let mut has_programs = false;
        for entry in fs::read_dir(&folder)? {
            let entry = entry?;
            // Not through links: the suite's own directories have such, and they may lead anywhere.
            if entry.file_type()?.is_dir() {
                rest.push(entry.path());
            }
            has_programs |= is_program(&entry.path());
        }
        if has_programs {
            found.push(folder);
        }
    }
    found.sort();
    Ok(found)
}

fn is_program(path: &Path) -> bool {
    path.extension().is_some_and(|extension| extension == "wasm")
}

/// What kind of module a file holds: core modules have version 1 and layer 0.
fn is_core_module(path: &Path) -> io::Result<bool> {
    Ok(fs::read(path)?.starts_with(b"\0asm\x01\0\0\0"))
}

fn copy(from: &Path, to: &Path) -> io::Result<()> {
    fs::create_dir_all(to)?;
    for entry in fs::read_dir(from)? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        let kind = entry.file_type()?;
        if kind.is_dir() {
            copy(&entry.path(), &target)?;
        } else if kind.is_symlink() {
            std::os::unix::fs::symlink(fs::read_link(entry.path())?, target)?;
        } else if !entry.file_name().to_string_lossy().ends_with(".cleanup") {
            // What an earlier run left behind is not part of the suite.
            fs::copy(entry.path(), target)?;
        }
    }
    Ok(())
}

/// Runs a program with these flags; `Err` is what it did wrong.
fn run(flags: &[&str], program: &Path, case: &Case) -> Result<(), String> {
    let scratch = tempfile::tempdir().map_err(|error| error.to_string())?;
    let mut command = Command::new(env!("CARGO_BIN_EXE_spinwise"));
    command.arg("run").args(flags);
    for dir in &case.dirs {
        let host = scratch.path().join(dir);
        copy(&program.with_file_name(dir), &host).map_err(|error| format!("cannot copy {dir}: {error}"))?;
        command.arg("--dir").arg(format!("{}::{dir}", host.display()));
    }
    for (name, value) in &case.env {
        command.arg("--env").arg(format!("{name}={value}"));
    }
    command.arg(program).arg("--").args(&case.args);
    let (input, _kept_open) = io::pipe().map_err(|error| error.to_string())?;
    let output = match run_on_within(LIMIT, &mut command, input.into(), std::process::Stdio::piped()) {
        Ended::Itself(output, _) => output,
        Ended::Killed => return Err(format!("still running after {LIMIT:?}")),
    };
    if flags.contains(&"all") && output.stderr.windows(13).any(|bytes| bytes == b"not stoppable") {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned());
    }
    judge(&output, case)
}

fn judge(output: &Output, case: &Case) -> Result<(), String> {
    let [stdout, stderr] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes).into_owned());
    if output.status.code() != Some(case.exit_code) {
        return Err(format!("{} instead of exit code {}: {stdout}{stderr}", output.status, case.exit_code));
    }
    for (name, found, wanted) in [("stdout", stdout, &case.stdout), ("stderr", stderr, &case.stderr)] {
        if let Some(wanted) = wanted
            && *wanted != found
        {
            return Err(format!("{name} is {found:?}, not {wanted:?}"));
        }
    }
    Ok(())
}

/// The name of a folder's programs, for people.
fn title(folder: &Path) -> String {
    let manifest = fs::read_to_string(folder.join("manifest.json")).unwrap_or_default();
    let value: Value = serde_json::from_str(&manifest).unwrap_or_default();
    value["name"].as_str().map_or_else(|| folder.display().to_string(), |name| name.replace("  ", " "))
}

#[test]
#[ignore = "needs the suite: set SPINWISE_WASI_TESTSUITE to its folder"]
fn the_suite_passes() {
    the_suite_passes_with(&["-O", "speed", "--guard", "spin"]);
    the_suite_passes_with(&["-O", "none", "--guard", "all"]);
}

fn the_suite_passes_with(flags: &[&str]) {
    let root = std::env::var_os(FOLDER).unwrap_or_else(|| panic!("set {FOLDER} to the suite's folder"));
    let folders = folders(root.as_ref()).unwrap_or_else(|error| panic!("{FOLDER}={}: {error}", root.display()));
    assert!(!folders.is_empty(), "{FOLDER}={}: no .wasm in it", root.display());
    let mut failures = Vec::new();
    let mut skips: BTreeMap<String, Vec<String>> = BTreeMap::new();
    let mut total = 0;
    println!("\n{}\n\n| suite | programs | passed | failed | skipped |\n|---|---|---|---|---|", flags.join(" "));
    for folder in folders {
        let mut programs: Vec<_> = fs::read_dir(&folder)
            .and_then(|entries| entries.map(|entry| Ok(entry?.path())).collect::<io::Result<Vec<_>>>())
            .unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
        programs.retain(|path| is_program(path));
        programs.sort();
        let [mut passed, mut failed, mut skipped] = [0; 3];
        for program in &programs {
            let name = program.strip_prefix(&root).unwrap_or(program).display().to_string();
            let text = fs::read_to_string(program.with_extension("json")).unwrap_or_else(|_| "{}".to_owned());
            let case = match is_core_module(program) {
                Ok(true) => case(&text),
                Ok(false) => Err("a component: preview 2 and later".to_owned()),
                Err(error) => Err(error.to_string()),
            };
            match case.map(|case| run(flags, program, &case)) {
                Ok(Ok(())) => passed += 1,
                Ok(Err(what)) => {
                    failed += 1;
                    failures.push(format!("{name}: {what}"));
                }
                Err(reason) => {
                    skipped += 1;
                    skips.entry(reason).or_default().push(name);
                }
            }
        }
        total += passed;
        println!("| {} | {} | {passed} | {failed} | {skipped} |", title(&folder), programs.len());
    }
    for (reason, names) in &skips {
        println!("\nskipped ({reason}), {}:\n    {}", names.len(), names.join("\n    "));
    }
    assert!(failures.is_empty(), "{} failed:\n{}", failures.len(), failures.join("\n"));
    assert!(total > 0, "every program was skipped");
}

#[test]
fn both_forms_of_a_case_are_read() {
    let all_in_one = r#"{"args": ["a"], "env": {"K": "V"}, "dirs": ["d"], "exit_code": 3, "stdout": "s"}"#;
    let steps = r#"{"operations": [{"type": "run", "args": ["a"], "env": {"K": "V"}, "dirs": ["d"]},
        {"type": "read", "payload": "s"}, {"type": "wait", "exit_code": 3}]}"#;
    let expected = Case {
        args: vec!["a".into()],
        env: vec![("K".into(), "V".into())],
        dirs: vec!["d".into()],
        exit_code: 3,
        stdout: Some("s".into()),
        stderr: None,
    };
    assert_eq!(case(all_in_one).as_ref(), Ok(&expected));
    assert_eq!(case(steps).as_ref(), Ok(&expected));
    assert_eq!(case("{}"), Ok(Case::default()));
    assert!(case(r#"{"operations": [{"type": "connect"}]}"#).is_err());
    assert!(case(r#"{"proposals": ["http"], "operations": []}"#).is_err());
    assert!(case(r#"{"unknown": 1}"#).is_err());
}

#[test]
fn what_a_program_did_is_judged() {
    use std::os::unix::process::ExitStatusExt as _;
    let output = |code: i32, stdout: &str, stderr: &str| Output {
        status: std::process::ExitStatus::from_raw(code << 8),
        stdout: stdout.into(),
        stderr: stderr.into(),
    };
    let case = Case { exit_code: 3, stdout: Some("s".into()), ..Case::default() };
    assert_eq!(judge(&output(3, "s", "anything"), &case), Ok(()));
    assert!(judge(&output(0, "s", ""), &case).is_err());
    assert!(judge(&output(3, "t", ""), &case).is_err());
}
