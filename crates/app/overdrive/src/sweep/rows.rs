//! The results of a sweep, as the package passes them on: lines of JSON, the summary first.

use serde::Deserialize;
use serde_json::Value;

/// A row of the results: one cache over one trace.
#[derive(Deserialize, Clone, Debug)]
pub(super) struct Row {
    pub(super) trace: String,
    /// The class of workload.
    pub(super) class: String,
    pub(super) policy: String,
    /// `off`, or a mean ratio.
    pub(super) compression: String,
    /// `none`, or the name of a model.
    pub(super) drive: String,
    /// The size as in the manifest.
    pub(super) memory: String,
    /// None: the row has no figures.
    pub(super) miss_ratio: Option<f64>,
    pub(super) memory_bytes: Option<u64>,
    /// The mean latency of all requests. None: without a drive.
    pub(super) mean_ns: Option<f64>,
    pub(super) p99_ns: Option<u64>,
    /// The reason that there are no figures.
    pub(super) error: Option<String>,
}

/// All results.
pub(super) struct Results {
    /// The object of `--json`.
    pub(super) summary: Value,
    pub(super) rows: Vec<Row>,
}

impl Results {
    /// Reads the lines.
    ///
    /// # Errors
    /// A line is not of this form.
    pub(super) fn parse(text: &str) -> Result<Results, String> {
        let mut lines = text.lines();
        let broken = |error: serde_json::Error| format!("the results of the package: {error}");
        let first = lines.next().unwrap_or_default();
        let summary = serde_json::from_str(first).map_err(broken)?;
        let rows: Result<Vec<Row>, _> = lines.map(serde_json::from_str).collect();
        Ok(Results { summary, rows: rows.map_err(broken)? })
    }

    /// Returns the distinct values of a column in the order of the rows.
    pub(super) fn distinct<'a>(&'a self, column: fn(&'a Row) -> &'a str) -> Vec<&'a str> {
        let mut found: Vec<&str> = Vec::new();
        let mut last = None;
        for value in self.rows.iter().map(column) {
            // Neighbours are mostly the same.
            if last != Some(value) && !found.contains(&value) {
                found.push(value);
            }
            last = Some(value);
        }
        found
    }
}
