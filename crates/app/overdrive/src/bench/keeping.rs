//! Stores results in the history.

use history::History;
use serde_json::{Map, Value};
use std::path::PathBuf;
use suites::{Outcome, report};

/// Returns the file: `history.sqlite3` in the user's data directory. None: neither XDG_DATA_HOME
/// nor HOME is set.
pub(super) fn place() -> Option<PathBuf> {
    let absolute =
        |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let data =
        absolute("XDG_DATA_HOME").or_else(|| Some(absolute("HOME")?.join(".local/share")))?;
    Some(data.join("overdrive").join("history.sqlite3"))
}

/// Stores a result. A failure is reported, and does not make the suite fail.
pub(super) fn keep(outcome: &Outcome) {
    // A suite that could not begin has no result.
    let Some(path) = place().filter(|_| !outcome.rows.is_empty()) else { return };
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
