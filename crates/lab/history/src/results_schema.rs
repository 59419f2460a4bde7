//! The layout of the file.
//!
//! ```text
//!   runs                                     rows (a view: the figures in `result`, one row each)
//!     id        counts up, is never reused     run, at, suite, target, cached, complete, state,
//!                                              preparation
//!     at        UTC, "2026-11-25T10:00:00Z"    number     the index of the row, from 0
//!     command   JSON: the words of it          test, unit, value
//!     machine   JSON: names and values         requests, mean_ns, min_ns, p50_ns, p90_ns, p99_ns,
//!     result    JSON: overdrive.bench/1        p99_9_ns, p99_99_ns, max_ns, stdev_ns, flush_ns
//!                                              cold, ceiling, near_ceiling, valid, shortened,
//!                                              partial
//! ```
//!
//! `user_version` of the file is the version of this layout. `application_id` marks it as a file of
//! this program.

/// The version of the layout.
pub(crate) const VERSION: i32 = 1;

/// "OvHi". Files of other programs have another number.
pub(crate) const APPLICATION: i32 = 0x4f76_4869;

/// The keys of a result's row that are columns of the view, in order.
pub(crate) const COLUMNS: [&str; 20] = [
    "test",
    "unit",
    "value",
    "requests",
    "mean_ns",
    "min_ns",
    "p50_ns",
    "p90_ns",
    "p99_ns",
    "p99_9_ns",
    "p99_99_ns",
    "max_ns",
    "stdev_ns",
    "flush_ns",
    "cold",
    "ceiling",
    "near_ceiling",
    "valid",
    "shortened",
    "partial",
];

/// The keys of a result that are columns of the view.
pub(crate) const OF_RUN: [&str; 6] =
    ["suite", "target", "cached", "complete", "state", "preparation"];

/// Returns the SQL that turns an empty file into a history.
pub(crate) fn create() -> String {
    let of_run = OF_RUN.map(|key| format!("result ->> '$.{key}' AS {key}")).join(", ");
    let columns = COLUMNS.map(|key| format!("value ->> '$.{key}' AS {key}")).join(", ");
    format!(
        "CREATE TABLE runs (
            id INTEGER PRIMARY KEY AUTOINCREMENT,
            at TEXT NOT NULL,
            command TEXT NOT NULL,
            machine TEXT NOT NULL,
            result TEXT NOT NULL
         ) STRICT;
         CREATE VIEW rows AS
            SELECT runs.id AS run, runs.at, {of_run}, key AS number, {columns}
            FROM runs, json_each(runs.result, '$.rows');
         PRAGMA application_id = {APPLICATION};
         PRAGMA user_version = {VERSION};"
    )
}
