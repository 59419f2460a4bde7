//! Each row of docs/LIFECYCLE.md names the tests that hold it, and these exist.

use crate::metadata::root;
use std::fs;

/// The folders of the tests that are named as `FILE::TEST`.
const TESTS: [&str; 2] =
    ["crates/app/overdrive/tests/serve/devices", "crates/app/overdrive/tests/serve"];

/// The cells of each row of the table.
fn rows(text: &str) -> Vec<Vec<&str>> {
    text.lines().filter(|line| line.starts_with("| ")).skip(1).map(cells).collect()
}

fn cells(row: &str) -> Vec<&str> {
    // An empty last cell has left only its bar.
    let inner = row.trim_matches(['|', ' ']);
    inner.split(" | ").map(|cell| cell.trim_matches([' ', '|'])).collect()
}

/// The names in backquotes that are written as `FILE::TEST`.
fn named(cell: &str) -> Vec<(&str, &str)> {
    cell.split('`').skip(1).step_by(2).filter_map(|name| name.split_once("::")).collect()
}

fn is_test(file: &str, test: &str) -> bool {
    TESTS.iter().any(|folder| {
        let source = fs::read_to_string(root().join(folder).join(format!("{file}.rs")));
        source.is_ok_and(|source| source.contains(&format!("fn {test}()")))
    })
}

#[test]
fn each_row_of_the_life_of_a_device_names_tests_that_exist() {
    let text = fs::read_to_string(root().join("docs/LIFECYCLE.md")).expect("the page");
    let rows = rows(&text);
    assert!(rows.len() > 40, "{} rows", rows.len());
    let mut wrong = Vec::new();
    for row in rows {
        let last = row.last().copied().unwrap_or_default();
        let tests = if row.len() > 3 { named(last) } else { Vec::new() };
        let is_file = |path: &str| path.contains('/') && root().join(path).is_file();
        let by_other = last.contains("system") || last.split('`').any(is_file);
        let is_held = !tests.is_empty() || row.len() > 3 && by_other;
        let needs_none = ["unsupported", "later"].contains(&row[1]);
        if !is_held && !needs_none {
            wrong.push(format!("no test holds: {}", row[0]));
        }
        for (file, test) in tests {
            if !is_test(file, test) {
                wrong.push(format!("{}: there is no {file}::{test}", row[0]));
            }
        }
    }
    assert_eq!(wrong, [""; 0]);
}
