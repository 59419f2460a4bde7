//! The rows of a review, as plain data.

use serde_json::Value;

/// The column of the drive without a cache.
pub const BARE: &str = "bare";
/// The column of the first run with the cache, which is empty at its start.
pub const COLD: &str = "cold";
/// The column of the run after it, with the same cache.
pub const WARM: &str = "warm";
/// The column of the drive without a cache once more.
pub const AGAIN: &str = "again";
/// The column of Samsung's cache of 2013.
pub const RAPID_COLUMN: &str = "rapid";
/// The column of the host's page cache.
pub const PAGE_CACHE: &str = "page-cache";

/// The rows of one way to run the tests.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Column {
    /// Its name.
    pub name: String,
    /// Rows as in `overdrive.bench/1`, each with its `suite`.
    pub rows: Vec<Value>,
}

/// Rows of another drive.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Drive {
    /// The drive as a target.
    pub target: String,
    /// Its rows without a cache.
    pub rows: Vec<Value>,
}

/// A run of a suite on one drive, with its durations on the machine's clock, in nanoseconds.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Run {
    /// The suite and its columns.
    pub name: String,
    /// The duration that was expected before it began.
    pub expected_ns: u64,
    /// The measured duration.
    pub elapsed_ns: u64,
}

/// A review.
#[derive(Clone, PartialEq, Debug, Default)]
pub struct Review {
    /// The target as it was written.
    pub target: String,
    /// Its name in a report.
    pub title: String,
    /// The kind of clock: `virtual` or `real`.
    pub time: String,
    /// The extent: `quick`, `usual` or `full`.
    pub extent: String,
    /// Memory of the cache, in bytes.
    pub cache_bytes: u64,
    /// The columns, `bare` first.
    pub columns: Vec<Column>,
    /// Further drives of the same model with other seeds, each with columns of these names: the
    /// noise of a modelled drive.
    pub spread: Vec<Vec<Column>>,
    /// The drive whose figures are 100 %. None: the bare drive itself.
    pub baseline: Option<Drive>,
    /// Sentences about how the tests ran.
    pub method: Vec<String>,
    /// The words of the command.
    pub command: Vec<String>,
    /// Names and values of the machine and the device.
    pub facts: Vec<(String, String)>,
    /// All tests have run.
    pub complete: bool,
    /// The finished runs.
    pub runs: Vec<Run>,
    /// Its duration on the machine's clock, in nanoseconds.
    pub elapsed_ns: u64,
}

impl Review {
    /// Returns the column of this name.
    pub fn column(&self, name: &str) -> Option<&Column> {
        self.columns.iter().find(|column| column.name == name)
    }

    /// Whether time was virtual.
    pub(crate) fn is_virtual(&self) -> bool {
        self.time == "virtual"
    }
}

/// Returns a text of a row; empty if it is missing.
pub(crate) fn text<'a>(row: &'a Value, key: &str) -> &'a str {
    row.get(key).and_then(Value::as_str).unwrap_or_default()
}

/// Returns a number of a row.
pub(crate) fn number(row: &Value, key: &str) -> Option<f64> {
    row.get(key).and_then(Value::as_f64).filter(|value| value.is_finite())
}
