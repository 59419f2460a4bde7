//! What is printed of outcomes.

use std::io::Write;
use suites::{Outcome, report};

/// A table for each, or one JSON object.
pub(super) fn print(outcomes: &[Outcome], json: bool) {
    let text = match json {
        true => format!("{}\n", report::json_of(outcomes)),
        false => outcomes.iter().map(report::text).collect::<Vec<_>>().join("\n"),
    };
    // It need not be read: a closed pipe is no failure of the suite.
    let _ = std::io::stdout().write_all(text.as_bytes());
}
