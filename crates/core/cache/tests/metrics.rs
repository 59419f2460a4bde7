//! docs/METRICS.md has a row for every counter and histogram: unit, meaning, action.

use cache::{Counters, Histograms};

/// Returns the rows of the page that begin with a name in backquotes, without the last cell, and
/// that cell.
fn rows() -> Vec<(String, String)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../../docs/METRICS.md");
    let text = std::fs::read_to_string(path).expect("the document");
    // Names in the format of OpenMetrics have a table of their own, which the daemon's tests check.
    let is_row = |line: &&str| line.starts_with("| `") && !line.starts_with("| `overdrive_");
    let rows = text.lines().filter(is_row);
    let split = |line: &str| {
        let (row, action) = line.trim_end_matches(" |").rsplit_once(" | ").expect("cells");
        (row.to_owned(), action.trim().to_owned())
    };
    rows.map(split).collect()
}

fn expected() -> Vec<String> {
    let counter = |(name, unit, is_gauge, meaning)| {
        let kind = if is_gauge { "gauge" } else { "counter" };
        format!("| `{name}` | {unit} | {kind} | {meaning}")
    };
    let histogram = |(name, label, meaning)| format!("| `{name}` | {label} | {meaning}");
    let counters = Counters::explained().map(counter);
    counters.chain(Histograms::explained().map(histogram)).collect()
}

#[test]
fn the_page_of_metrics_is_complete_and_has_the_meanings_of_the_source() {
    let (rows, expected) = (rows(), expected());
    let found: Vec<&String> = rows.iter().map(|(row, _)| row).collect();
    let missing: Vec<&String> = expected.iter().filter(|row| !found.contains(row)).collect();
    let unknown: Vec<&&String> = found.iter().filter(|row| !expected.contains(row)).collect();
    assert_eq!(
        (missing, unknown),
        (vec![], vec![]),
        "docs/METRICS.md: rows missing, rows to remove"
    );
    assert_eq!(found.len(), expected.len(), "a row is there twice");
    assert!(found.iter().zip(&expected).all(|(found, row)| *found == row), "not in their order");
    let empty: Vec<_> = rows.iter().filter(|(_, action)| action.is_empty()).collect();
    assert_eq!(empty, Vec::<&(String, String)>::new(), "rows without an action");
}
