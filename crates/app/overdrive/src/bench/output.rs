//! Prints outcomes, and stores them in the history.

#[cfg(feature = "history")]
use super::history::file;
#[cfg(feature = "history")]
use ::history::History;
#[cfg(feature = "history")]
use serde_json::{Map, Value};
use suites::{Outcome, report};

/// Prints a table for each outcome, or one JSON object.
pub(super) fn print(outcomes: &[Outcome], json: bool) {
    let text = match json {
        true => format!("{}\n", report::json_of(outcomes)),
        false => outcomes.iter().map(report::text).collect::<Vec<_>>().join("\n"),
    };
    daemon::console::output(format_args!("{text}"));
}

/// Stores a result in the history. A failure is reported, and does not make the suite fail.
#[cfg(feature = "history")]
pub(super) fn keep(outcome: &Outcome) {
    // A suite that could not begin has no result.
    let Some(path) = file().filter(|_| !outcome.rows.is_empty()) else { return };
    let command: Vec<String> =
        std::env::args_os().map(|word| word.to_string_lossy().into_owned()).collect();
    let facts = rigs::machine().into_iter().map(|(name, value)| (name.to_owned(), value.into()));
    let machine = Value::Object(facts.collect::<Map<_, _>>());
    let kept = History::open(&path)
        .and_then(|mut history| history.keep(&command, &machine, &report::json(outcome)));
    if let Err(error) = kept {
        daemon::tell!("overdrive: the result could not be stored: {error}");
    }
}
