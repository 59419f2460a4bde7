//! Errors of the history file.

use std::fmt;
use std::path::Path;

/// An error as one sentence that names the file.
#[derive(Debug)]
pub struct Error(String);

impl Error {
    pub(crate) fn new(path: &Path, what: impl fmt::Display) -> Error {
        Error(format!("{}: {what}", path.display()))
    }

    pub(crate) fn sqlite(path: &Path, error: rusqlite::Error) -> Error {
        use rusqlite::ErrorCode;
        let what = match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                format!("cannot be read as a history of results ({error}); move it away")
            }
            Some(ErrorCode::DatabaseBusy) => {
                format!("another program keeps it busy ({error}); try again")
            }
            _ => format!("{error}"),
        };
        Error::new(path, what)
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for Error {}
