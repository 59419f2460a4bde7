//! Prints the outcome of a simulation.

use super::table;
use crate::terminal;
use simulator::{Outcome, Plan, json};

/// Prints a table, or one JSON object.
pub(super) fn print(plan: &Plan, outcome: &Outcome, is_json: bool) {
    match is_json {
        true => daemon::say!("{}", json::object(plan, outcome)),
        false => terminal::print(table::lines(plan, outcome, terminal::width())),
    }
}
