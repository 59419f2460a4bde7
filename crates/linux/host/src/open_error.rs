//! Reasons why a backing could not be opened.

use crate::image::ImageFormat;
use std::fmt;

/// The kinds of [`OpenError`]: each maps to an exit status.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum OpenErrorKind {
    /// The path does not exist.
    NotFound,
    /// The process may not open it.
    Permission,
    /// Another program uses it.
    Busy,
    /// It is smaller than a block.
    TooSmall,
    /// Its size is not a multiple of its block size.
    Misaligned,
    /// It is read-only, and writing was requested.
    ReadOnly,
    /// It is neither a regular file nor a block device, or lacks a required feature.
    Unsupported,
    /// The system failed.
    Io,
}

/// The reason why a backing could not be opened: a sentence with the reason, the path, and a
/// remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct OpenError {
    /// Kind of the failure.
    pub kind: OpenErrorKind,
    /// The sentence.
    pub message: String,
    /// The image format of a file whose size is unsuitable.
    pub(crate) image: Option<ImageFormat>,
}

impl OpenError {
    pub(crate) fn new(kind: OpenErrorKind, message: String) -> OpenError {
        OpenError { kind, message, image: None }
    }
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for OpenError {}
