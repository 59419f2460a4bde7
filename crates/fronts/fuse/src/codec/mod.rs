//! Messages of the protocol: the kernel's questions and the server's answers. Numbers are in the
//! machine's byte order.

mod constants;
mod question;
mod reply;

pub(crate) use constants::*;
pub(crate) use question::{Header, LOOKED_AT_BYTES, Question};
pub(crate) use reply::{Attributes, Directory, Reply};

use block::Kind;

/// Bytes of the header of each message from the kernel.
pub(crate) const HEADER_BYTES: usize = 40;
/// Bytes of the header and the arguments of a write; its data follows.
pub(crate) const WRITE_HEAD_BYTES: usize = HEADER_BYTES + 40;
/// Maximum size of a read or write.
pub(crate) const TRANSFER_BYTES_MAX: usize = 1 << 20;
/// In pages of 4 KiB.
pub(crate) const TRANSFER_PAGES_MAX: u16 = 256;

/// Returns the errno of a failed request. `change`: the request was a change.
pub(crate) fn errno_of(kind: Kind, change: bool) -> i32 {
    match kind {
        Kind::NoSpace => ENOSPC,
        Kind::Invalid => EINVAL,
        Kind::OutOfRange if change => ENOSPC,
        Kind::OutOfRange => EINVAL,
        Kind::ReadOnly => EROFS,
        Kind::Unsupported => EOPNOTSUPP,
        Kind::Stopping => ENODEV,
        // `Kind` may grow: a new kind is a plain failure.
        _ => EIO,
    }
}
