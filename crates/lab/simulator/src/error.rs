//! Why a trace was not simulated.

use std::fmt;

/// Why a trace was not simulated: one sentence each, which names the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// What was asked for cannot be done so.
    Usage(String),
    /// The file is not there.
    NotFound(String),
    /// The file may not be read.
    Permission(String),
    /// A file could not be read or written.
    Io(String),
    /// The file is no trace, or is damaged.
    Malformed(String),
    /// It was interrupted before there was anything to tell.
    Interrupted,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage(told)
            | Error::NotFound(told)
            | Error::Permission(told)
            | Error::Io(told)
            | Error::Malformed(told) => f.write_str(told),
            Error::Interrupted => f.write_str("interrupted before anything was simulated"),
        }
    }
}

impl std::error::Error for Error {}
