//! The tests of a suite by their names, of which one may run alone.

use crate::listing::list;
use crate::outcome::Outcome;
use crate::plan::Plan;
use crate::preparation::Preparation;

/// Maximum number of names listed.
const NAMES_MAX: usize = 40;

/// Runs a suite on a device that does nothing.
fn listed(plan: &Plan, only: Option<String>) -> Outcome {
    let preparation = Preparation::default();
    let plan = Plan { cache: None, preparation, only, ..plan.clone() };
    list(&plan).outcome
}

/// Returns the tests of a plan that can run alone; none if its suite runs only as a whole.
pub fn names(plan: &Plan) -> Vec<String> {
    let whole = listed(plan, None).rows;
    let mut names: Vec<String> = Vec::new();
    for row in &whole {
        if names.contains(&row.test) {
            continue;
        }
        let alone = listed(plan, Some(row.test.clone())).rows.len();
        if alone > 0 && (alone < whole.len() || whole.len() == 1) {
            names.push(row.test.clone());
        }
    }
    names
}

/// Refuses an unknown test `only` before anything is written.
///
/// # Errors
/// The suite has no such test, or runs only as a whole.
pub fn check(plan: &Plan, only: &str) -> Result<(), String> {
    let names = names(plan);
    if names.iter().any(|name| name.eq_ignore_ascii_case(only)) {
        return Ok(());
    }
    Err(format!("--only {only}: {}", refusal(plan.suite.name, only, &names)))
}

/// Returns the reason for refusing a test, with the available tests.
fn refusal(suite: &str, only: &str, names: &[String]) -> String {
    if names.is_empty() {
        return format!("{suite} runs as a whole; omit --only");
    }
    let near = match stack::near(only, names.iter().map(String::as_str)) {
        Some(near) => format!("did you mean '{near}'? It has "),
        None => "it has ".to_owned(),
    };
    format!("{suite} has no such test; {near}{}", listing(names))
}

/// Returns the names in quotes; if there are very many, only the first ones.
pub fn listing(names: &[String]) -> String {
    let quoted = names.iter().take(NAMES_MAX).map(|name| format!("'{name}'"));
    let quoted = quoted.collect::<Vec<_>>().join(", ");
    match names.len().saturating_sub(NAMES_MAX) {
        0 => quoted,
        more => format!("{quoted}, and {more} more, which the table of a whole run shows"),
    }
}
