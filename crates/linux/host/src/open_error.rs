//! Why a backing could not be opened.

use std::fmt;

/// The kinds of [`OpenError`]: each maps to an exit status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenErrorKind {
    /// There is nothing at this path.
    NotFound,
    /// The process may not open it.
    Permission,
    /// Another program uses it.
    Busy,
    /// It holds not even one block.
    TooSmall,
    /// Its size is no multiple of its block size.
    Misaligned,
    /// It can only be read, and writing was asked for.
    ReadOnly,
    /// It is neither a regular file nor a block device, or cannot do what is needed.
    Unsupported,
    /// The system failed.
    Io,
}

/// Why a backing could not be opened: one sentence that says what, where, and what to do.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenError {
    /// What kind of failure.
    pub kind: OpenErrorKind,
    /// The sentence.
    pub message: String,
}

impl OpenError {
    pub(crate) fn new(kind: OpenErrorKind, message: String) -> OpenError {
        OpenError { kind, message }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for OpenError {}
