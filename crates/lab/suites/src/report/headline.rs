//! The result of a suite in one sentence.

use crate::outcome::{Outcome, Row};
use crate::suite;
use report::direction::direction;
use report::words::figure;

/// Returns the suite's own sentence, or its first figures of each direction.
pub(crate) fn headline(outcome: &Outcome) -> String {
    let suite = suite::find(outcome.plan.suite.name);
    let own = suite.and_then(|suite| suite.verdict(outcome));
    own.unwrap_or_else(|| first_figures(&outcome.rows))
}

fn first_figures(rows: &[Row]) -> String {
    let mut seen = Vec::new();
    let mut parts = Vec::new();
    for row in rows {
        let direction = direction(&row.test);
        if !seen.contains(&direction) {
            seen.push(direction);
            parts.push(format!("{}: {} {}", row.full_name(), figure(row.value), row.unit));
        }
    }
    match parts.is_empty() {
        true => "Nothing was measured.".to_owned(),
        false => format!("{}.", parts.join("; ")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_figure_of_each_direction_stands_for_the_rest() {
        let row = |test: &str, value| Row::plain(test, "MB/s", value);
        let rows = [row("read, 4 KiB", 1.0), row("read, 8 KiB", 2.0), row("write, 4 KiB", 3.0)];
        assert_eq!(first_figures(&rows), "read, 4 KiB: 1.00 MB/s; write, 4 KiB: 3.00 MB/s.");
        assert_eq!(first_figures(&[]), "Nothing was measured.");
    }
}
