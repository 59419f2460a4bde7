//! Prints the outcome of a simulation.

use super::{json, table};
use simulator::{Outcome, Plan};

/// Prints a table, or one JSON object.
pub(super) fn print(plan: &Plan, outcome: &Outcome, is_json: bool) {
    match is_json {
        true => daemon::say!("{}", json::object(plan, outcome)),
        false => table::lines(plan, outcome).iter().for_each(|line| daemon::say!("{line}")),
    }
}
