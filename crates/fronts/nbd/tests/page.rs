//! PROTOCOL.md names a test or a reason for every requirement; all tests that it names exist.

use std::fs;
use std::path::{Path, PathBuf};

fn sources(directory: &Path, into: &mut Vec<PathBuf>) {
    for entry in fs::read_dir(directory).expect("a directory of sources") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|end| end == "rs") {
            into.push(path);
        }
    }
}

/// Whether a file of this name defines a test of that name, not only mentions it.
fn exists(sources: &[PathBuf], file: &str, test: &str) -> bool {
    let named = sources.iter().filter(|path| path.file_name().is_some_and(|name| name == file));
    let start = format!("fn {test}(");
    named.into_iter().any(|path| {
        let text = fs::read_to_string(path).expect("a source");
        let mut lines = text.lines().map(str::trim);
        let mut is_test = false;
        lines.any(|line| {
            let found = is_test && line.starts_with(&start);
            is_test = line == "#[test]" || is_test && (line.is_empty() || line.starts_with("//"));
            found
        })
    })
}

/// Every `file.rs::test` in a text.
fn named(text: &str) -> Vec<(&str, &str)> {
    let quoted = text.split('`').skip(1).step_by(2);
    quoted.filter(|name| name.contains(".rs::")).filter_map(|name| name.split_once("::")).collect()
}

/// Returns the lines of the tables: number and last column.
fn demands(page: &str) -> Vec<(&str, &str)> {
    let cells = page.lines().filter_map(|line| {
        let mut cells = line.strip_prefix("| ")?.strip_suffix(" |")?.split(" | ");
        Some((cells.next()?, cells.last()?))
    });
    cells.filter(|(number, _)| number.starts_with(|first: char| first.is_ascii_digit())).collect()
}

#[test]
fn each_demand_of_the_protocol_has_a_test_or_a_reason() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let page = fs::read_to_string(root.join("PROTOCOL.md")).expect("the page");
    let mut files = Vec::new();
    sources(&root.join("src"), &mut files);
    sources(&root.join("tests"), &mut files);
    let demands = demands(&page);
    assert!(demands.len() > 90, "{} demands", demands.len());
    let reasons = ["By construction: ", "Does not apply: ", "Not held by this crate: "];
    let mut wrong = Vec::new();
    for (number, held_by) in &demands {
        let has_reason = reasons.iter().any(|reason| held_by.starts_with(reason));
        if named(held_by).is_empty() && !has_reason {
            wrong.push(format!("{number} has neither a test nor a reason"));
        }
    }
    for (file, test) in named(&page) {
        if !exists(&files, file, test) && test != "test" {
            wrong.push(format!("{file}::{test} does not exist"));
        }
    }
    assert_eq!(wrong, [""; 0]);
    let mut numbers: Vec<_> = demands.iter().map(|(number, _)| number).collect();
    numbers.sort_unstable();
    numbers.dedup();
    assert_eq!(numbers.len(), demands.len(), "two demands have one number");
}

#[test]
fn a_test_that_does_not_exist_is_found() {
    let here = vec![PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/page.rs")];
    assert!(exists(&here, "page.rs", "a_test_that_does_not_exist_is_found"));
    assert!(!exists(&here, "page.rs", "sources"), "no test");
    assert!(!exists(&here, "page.rs", "nothing") && !exists(&here, "other.rs", "sources"));
    assert_eq!(named("`a.rs::b`, `c`: `d.rs::e`"), [("a.rs", "b"), ("d.rs", "e")]);
}
