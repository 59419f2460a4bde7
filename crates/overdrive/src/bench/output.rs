//! What is printed of an outcome.

use std::io::Write;
use suites::{Outcome, report};

/// A table, or one JSON object.
pub(super) fn print(outcome: &Outcome, json: bool) {
    let text = if json { format!("{}\n", report::json(outcome)) } else { report::text(outcome) };
    // It need not be read: a closed pipe is no failure of the suite.
    let _ = std::io::stdout().write_all(text.as_bytes());
}
