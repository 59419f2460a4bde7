//! Reasons why a trace was not simulated.

use std::fmt;

/// Reason why a trace was not simulated: one sentence, which names the file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Error {
    /// The arguments make no sense together.
    Usage(String),
    /// The file does not exist.
    NotFound(String),
    /// The file may not be read.
    Permission(String),
    /// A file could not be read or written.
    Io(String),
    /// The file is not a trace, or is damaged.
    Malformed(String),
    /// The run was interrupted before there were results.
    Interrupted,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Error::Usage(message)
            | Error::NotFound(message)
            | Error::Permission(message)
            | Error::Io(message)
            | Error::Malformed(message) => f.write_str(message),
            Error::Interrupted => f.write_str("interrupted before anything was simulated"),
        }
    }
}

impl std::error::Error for Error {}
