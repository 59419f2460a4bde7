//! The file of samples of volumes and drives (crate `history`), as commands read it.

use history::{Error, Range, Samples};
use serde_json::Value;
use stack::{Exit, Failure};
use std::io::Write;
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

/// Returns the failure of reading or writing the file.
pub(crate) fn broken(error: Error) -> Failure {
    let exit = if error.is_denied() { Exit::Permission } else { Exit::Io };
    Failure::new(exit, error.to_string())
}

/// Returns the seconds since 1970.
pub(crate) fn now_s() -> i64 {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(now.as_secs()).unwrap_or(i64::MAX)
}

/// Opens a file to read it; None: the usual one. None is returned if nothing has been recorded yet.
///
/// # Errors
/// There is no place for the file; it cannot be read, is damaged, or is of a later program.
pub(crate) fn open(file: Option<&Path>) -> Result<Option<Samples>, Failure> {
    let Some(path) = file.map(Path::to_owned).or_else(daemon::history_file) else {
        let message = "nothing is recorded: neither XDG_STATE_HOME nor HOME is set";
        return Err(Failure::new(Exit::Negative, message));
    };
    match path.try_exists() {
        Ok(true) => Samples::open(&path).map(Some).map_err(broken),
        Ok(false) => Ok(None),
        Err(error) => {
            let message = format!("{}: cannot be read ({error})", path.display());
            Err(Failure::new(Exit::Permission, message))
        }
    }
}

/// Parses the length of the past: a time of at least a second.
pub(crate) fn past(text: &str) -> Result<i64, String> {
    let days = text.strip_suffix('d').and_then(|days| days.parse::<u64>().ok());
    let seconds = match days {
        Some(days) => days.saturating_mul(86_400),
        None => daemon::units::time_ms(text)? / 1000,
    };
    match i64::try_from(seconds) {
        Ok(seconds @ 1..) => Ok(seconds),
        _ => Err(format!("'{text}': write a time of at least a second, like 30m, 6h or 7d")),
    }
}

/// Returns the range of the last seconds. None: all.
pub(crate) fn range(last_s: Option<i64>) -> Range {
    match last_s {
        None => Range::ALL,
        Some(last_s) => Range { from_s: now_s().saturating_sub(last_s), to_s: i64::MAX },
    }
}

/// Formats a time as `2026-11-25T10:00:00Z`.
pub(crate) fn utc(at_s: i64) -> String {
    report::circumstances::utc(u64::try_from(at_s).unwrap_or(0))
}

/// Prints rows as CSV (RFC 4180), after a line of column names. Values that are absent are empty.
pub(crate) fn print_csv(names: &[&str], rows: impl Iterator<Item = Vec<Value>>) {
    let mut out = std::io::BufWriter::new(std::io::stdout().lock());
    let cell = |value: &Value| match value {
        Value::Null => String::new(),
        Value::String(text) if text.contains(['"', ',', '\r', '\n']) => {
            format!("\"{}\"", text.replace('"', "\"\""))
        }
        Value::String(text) => text.clone(),
        other => other.to_string(),
    };
    // The output need not be read to its end.
    _ = write!(out, "{}\r\n", names.join(","));
    for row in rows {
        let cells: Vec<String> = row.iter().map(cell).collect();
        _ = write!(out, "{}\r\n", cells.join(","));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_past_is_at_least_a_second() {
        assert_eq!((past("30m"), past("7d"), past("1s")), (Ok(1800), Ok(604_800), Ok(1)));
        for text in ["0s", "1ms", "d", "-1d", "99999999999999999999d", "soon"] {
            assert!(past(text).is_err(), "{text}");
        }
    }
}
