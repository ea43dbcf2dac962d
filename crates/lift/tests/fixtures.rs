//! The project's own modules: those made to run lift to CLIF that verifies, those made to be refused are refused with the
//! words that their second line gives.

mod common;

use std::fs;
use std::path::{Path, PathBuf};

use common::{config, verify};
use spinwise_lift::lift;

fn modules(folder: &str) -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fixtures").join(folder);
    let files = fs::read_dir(&folder).expect("a folder of fixtures").map(|entry| entry.expect("a fixture").path());
    let mut modules: Vec<_> = files.filter(|path| path.extension().is_some_and(|e| e == "wat")).collect();
    modules.sort();
    modules
}

#[test]
fn modules_made_to_run_lift() {
    let mut count = 0;
    for path in ["lift", "loops", "guard", "run"].into_iter().flat_map(modules) {
        let bytes = wat::parse_file(&path).unwrap();
        let lifted = lift(&bytes, &config()).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        verify(&lifted);
        count += 1;
    }
    assert!(count > 40, "{count} modules");
}

#[test]
fn modules_made_to_be_refused_are_refused_in_those_words() {
    let mut count = 0;
    for path in modules("reject") {
        let text = fs::read_to_string(&path).unwrap();
        let words = text.lines().find_map(|line| line.strip_prefix(";; error: ")).expect("the words");
        // Bad text is refused before it gets here.
        let Ok(bytes) = wat::parse_str(&text) else { continue };
        let error = lift(&bytes, &config()).expect_err(&path.display().to_string()).to_string();
        assert!(error.contains(words.trim()), "{}: {error}", path.display());
        count += 1;
    }
    assert!(count > 20, "{count} modules");
}
