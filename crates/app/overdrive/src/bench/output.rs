//! Prints outcomes.

use suites::{Outcome, report};

/// Prints a table for each outcome, or one JSON object.
pub(super) fn print(outcomes: &[Outcome], json: bool) {
    let text = match json {
        true => format!("{}\n", report::json_of(outcomes)),
        false => outcomes.iter().map(report::text).collect::<Vec<_>>().join("\n"),
    };
    daemon::console::output(format_args!("{text}"));
}
