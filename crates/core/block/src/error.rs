//! Errors of block requests: small, copyable, with an errno each.

use std::fmt;

/// The result of a block request.
pub type Result<T = ()> = std::result::Result<T, Error>;

/// What went wrong, in the few kinds that a client can be told apart. Each has one errno.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Hash)]
#[non_exhaustive]
pub enum Kind {
    /// The device failed to do it (EIO).
    Io,
    /// No space left behind a sparse image, or a limit of its size reached (ENOSPC).
    NoSpace,
    /// The request is malformed or misaligned (EINVAL).
    Invalid,
    /// The request reaches beyond the end (ENOSPC for writes on the wire, EINVAL for reads).
    OutOfRange,
    /// A change to something that may only be read (EPERM).
    ReadOnly,
    /// The device cannot do this at all (ENOTSUP).
    Unsupported,
    /// The volume is stopping (ESHUTDOWN).
    Stopping,
}

/// A failed request: its kind and the step that failed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Error {
    /// What a client is told.
    pub kind: Kind,
    /// What was being done, as words that fit into "cannot ...".
    pub doing: &'static str,
    /// The errno behind it, or 0.
    pub errno: i32,
}

impl Error {
    /// An error of this kind, found while `doing` something.
    pub const fn new(kind: Kind, doing: &'static str) -> Error {
        Error { kind, doing, errno: 0 }
    }

    /// The error for an errno that the system returned.
    pub const fn from_errno(errno: i32, doing: &'static str) -> Error {
        // Linux numbers; this crate makes no system calls and needs no bindings for five of them.
        let kind = match errno {
            // 27: the file would become larger than its file system or the process's limit allows.
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
