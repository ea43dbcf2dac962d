//! `docs/REFERENCE.md` against the command: its flags, its JSON, its table of intervals, its exit codes.
//!
//! `SPINWISE_BLESS=1` writes the real JSON into the page.

use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

use spinwise_model::budget;

fn page() -> String {
    fs::read_to_string(tests::root().join("docs/REFERENCE.md")).expect("the page")
}

fn output(args: &[&str]) -> String {
    let output = Command::new(env!("CARGO_BIN_EXE_spinwise")).args(args).current_dir(tests::root()).output();
    let output = output.expect("the command runs");
    assert!(output.status.success(), "{args:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("UTF-8")
}

/// The part of the page under a heading that begins so, up to the next heading.
fn section(page: &str, heading: &str) -> String {
    let start = page.find(heading).unwrap_or_else(|| panic!("no heading `{heading}`")) + heading.len();
    let rest = &page[start..];
    rest[..rest.find("\n#").unwrap_or(rest.len())].to_owned()
}

/// The flags of a help text or a page: `--name <VALUE>` and `-O <LEVEL>`.
fn flags(text: &str) -> BTreeSet<String> {
    let mut flags = BTreeSet::new();
    for (at, _) in text.match_indices("--").chain(text.match_indices("-O")) {
        let before = text[..at].chars().next_back();
        let flag: String = text[at..].chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
        let value = text[at + flag.len()..].strip_prefix(" <").and_then(|v| v.split_once('>')).map(|(v, _)| v);
        // A mention in running text has no value; only definitions count.
        if matches!(before, Some(' ' | '`'))
            && flag.len() > 1
            && !["--help", "--version", "--"].contains(&flag.as_str())
        {
            let valueless = ["--verify"].contains(&flag.as_str());
            if valueless || value.is_some() {
                flags.insert(value.map_or(flag.clone(), |v| format!("{flag} <{v}>")));
            }
        }
    }
    flags
}

#[test]
fn the_page_has_exactly_the_flags_of_the_command() {
    let page = page();
    let common = flags(&section(&page, "### All commands that translate"));
    assert!(common.len() == 6, "{common:?}");
    for command in ["run", "compile", "explain", "wast"] {
        let mut documented = flags(&section(&page, &format!("### `spinwise {command}")));
        documented.extend(common.iter().cloned());
        let real = flags(&output(&[command, "--help"]));
        assert_eq!(documented, real, "{command}");
    }
}

#[test]
fn the_page_names_every_feature() {
    let page = page();
    let (_, list) = page.split_once("<!-- names of features -->").expect("the list");
    let (list, _) = list.split_once("\n#").expect("a heading behind it");
    let documented: Vec<&str> = list.split('`').skip(1).step_by(2).collect();
    assert_eq!(documented, spinwise::config::Features::names().collect::<Vec<_>>());
}

#[test]
fn the_page_shows_real_json() {
    let page = page();
    let marker = "<!-- spinwise explain --format json fixtures/README.wat -->\n```json\n";
    let start = page.find(marker).expect("the marker") + marker.len();
    let end = start + page[start..].find("```").expect("the end of the block");
    let real = output(&["explain", "--format", "json", "fixtures/README.wat"]);
    if std::env::var_os("SPINWISE_BLESS").is_some() {
        let blessed = format!("{}{real}{}", &page[..start], &page[end..]);
        fs::write(tests::root().join("docs/REFERENCE.md"), blessed).expect("written");
        return;
    }
    assert_eq!(&page[start..end], real, "run again with SPINWISE_BLESS=1");
    let fields = section(&page, "## `explain --format json`");
    let value: serde_json::Value = serde_json::from_str(&real).expect("JSON");
    let mut names = BTreeSet::new();
    collect_names(&value, &mut names);
    for name in names {
        assert!(fields.contains(&format!("`{name}`")), "the page does not explain `{name}`");
    }
}

fn collect_names(value: &serde_json::Value, names: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::Object(map) => {
            for (name, value) in map {
                names.insert(name.clone());
                collect_names(value, names);
            }
        }
        serde_json::Value::Array(items) => items.iter().for_each(|item| collect_names(item, names)),
        _ => {}
    }
}

#[test]
fn the_page_s_intervals_are_the_real_ones() {
    let table = section(&page(), "## The budget");
    for (first, last, row) in [
        (1, 16, "up to 16"),
        (17, 32, "17–32"),
        (33, 64, "33–64"),
        (65, 128, "65–128"),
        (129, 256, "129–256"),
        (257, 512, "257–512"),
        (513, 100_000, "513 and more"),
    ] {
        for size in [first, last] {
            let interval = budget::interval(size);
            let expected = format!("| {row} | {interval} | {} |", budget::weight(interval));
            assert!(table.contains(&expected), "no row `{expected}`");
        }
    }
    assert!(table.contains(&format!("A full budget is {}.", budget::FULL)));
}

#[test]
fn the_page_has_every_exit_code() {
    let codes = fs::read_to_string(tests::root().join("crates/spinwise/src/bin/spinwise/exit.rs")).expect("the source");
    let table = section(&page(), "## Exit codes");
    let numbers =
        codes.lines().filter_map(|l| l.split_once(": u8 = ")).map(|(_, n)| n.trim_end_matches(';').to_owned());
    let numbers: Vec<_> = numbers.collect();
    assert!(numbers.len() >= 8, "{numbers:?}");
    for number in numbers {
        assert!(table.contains(&format!("| {number} |")), "no exit code {number}");
    }
}
