//! Errors of the history files.

use std::fmt;
use std::path::Path;

/// An error as one sentence that names the file.
#[derive(Debug)]
pub struct Error {
    message: String,
    kind: Kind,
}

/// Errors that callers distinguish.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    /// The contents are not those of a database.
    Damaged,
    /// The file, or its file system, is full.
    Full,
    /// This user may not open the file.
    Denied,
    /// Anything else.
    Other,
}

impl Error {
    pub(crate) fn new(path: &Path, what: impl fmt::Display) -> Error {
        Error { message: format!("{}: {what}", path.display()), kind: Kind::Other }
    }

    pub(crate) fn sqlite(path: &Path, error: rusqlite::Error) -> Error {
        use rusqlite::ErrorCode;
        let (kind, what) = match error.sqlite_error_code() {
            Some(ErrorCode::NotADatabase | ErrorCode::DatabaseCorrupt) => {
                let what = format!("cannot be read as a history ({error}); move it away");
                (Kind::Damaged, what)
            }
            Some(ErrorCode::DatabaseBusy) => {
                (Kind::Other, format!("another program keeps it busy ({error}); try again"))
            }
            Some(ErrorCode::DiskFull) => {
                (Kind::Full, format!("has no space left ({error}); free some, or remove the file"))
            }
            Some(ErrorCode::SystemIoFailure) => {
                let what = format!("its file system refuses it ({error}); is it full?");
                (Kind::Other, what)
            }
            _ => (Kind::Other, format!("{error}")),
        };
        Error { kind, ..Error::new(path, what) }
    }

    pub(crate) fn system(path: &Path, error: std::io::Error) -> Error {
        let kind = match error.kind() {
            std::io::ErrorKind::PermissionDenied => Kind::Denied,
            _ => Kind::Other,
        };
        Error { kind, ..Error::new(path, error) }
    }

    pub(crate) fn damaged(path: &Path, words: &str) -> Error {
        let what = format!("cannot be read as a history ({words}); move it away");
        Error { kind: Kind::Damaged, ..Error::new(path, what) }
    }

    /// Whether the file's contents are damaged, or were never a database.
    pub fn is_damage(&self) -> bool {
        self.kind == Kind::Damaged
    }

    /// Whether this user may not open the file.
    pub fn is_denied(&self) -> bool {
        self.kind == Kind::Denied
    }

    /// Whether the file, or its file system, is full.
    pub fn is_full(&self) -> bool {
        self.kind == Kind::Full
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Error {}
