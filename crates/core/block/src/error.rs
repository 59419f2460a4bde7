//! Errors of block requests: small, copyable, and each with an errno.

use std::fmt;

/// The result of a block request.
pub type Result<T = ()> = std::result::Result<T, Error>;

/// The kind of a failure, as far as a client can distinguish it. Each kind has one errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The device failed to serve the request (EIO).
    Io,
    /// A sparse image's file system is full, or the image has reached its size limit (ENOSPC).
    NoSpace,
    /// The request is malformed or misaligned (EINVAL).
    Invalid,
    /// The request reaches beyond the end (ENOSPC for writes on the wire, EINVAL for reads).
    OutOfRange,
    /// The request would change a read-only device (EPERM).
    ReadOnly,
    /// The device does not support the request (ENOTSUP).
    Unsupported,
    /// The volume is stopping (ESHUTDOWN).
    Stopping,
}

/// A failed request: its kind and the step that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Error {
    /// The kind that a client sees.
    pub kind: Kind,
    /// The step that failed, as words that fit into "cannot ...".
    pub doing: &'static str,
    /// The system's errno for it, or 0.
    pub errno: i32,
}

impl Error {
    /// An error of this kind that occurred while `doing` something.
    pub const fn new(kind: Kind, doing: &'static str) -> Error {
        Error { kind, doing, errno: 0 }
    }

    /// The error for an errno that the system returned.
    pub const fn from_errno(errno: i32, doing: &'static str) -> Error {
        // The numbers are Linux's; this crate makes no system calls and needs no bindings for these
        // few.
        let kind = match errno {
            // 27 (EFBIG): the file would exceed the limit of its file system or of the process.
            27 | 28 | 122 => Kind::NoSpace,
            22 => Kind::Invalid,
            1 | 30 => Kind::ReadOnly,
            95 => Kind::Unsupported,
            _ => Kind::Io,
        };
        Error { kind, doing, errno }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.kind {
            Kind::Io => "input/output error",
            Kind::NoSpace => "no space left",
            Kind::Invalid => "malformed or misaligned request",
            Kind::OutOfRange => "request beyond the end",
            Kind::ReadOnly => "read-only",
            Kind::Unsupported => "not supported",
            Kind::Stopping => "the volume is stopping",
        };
        write!(f, "cannot {}: {what}", self.doing)?;
        if self.errno != 0 {
            write!(f, " (errno {})", self.errno)?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}
