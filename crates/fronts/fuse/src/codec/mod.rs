//! Messages of the protocol: what the kernel asks, what it is answered. Numbers are in the machine's own byte order.

mod constants;
mod question;
mod reply;

pub(crate) use constants::*;
pub(crate) use question::{Header, LOOKED_AT_BYTES, Question};
pub(crate) use reply::{Attributes, Directory, Reply};

use block::Kind;

/// In front of each message of the kernel's.
pub(crate) const HEADER_BYTES: usize = 40;
/// Header and arguments of a write, behind which its data follows.
pub(crate) const WRITE_HEAD_BYTES: usize = HEADER_BYTES + 40;
/// The largest read or write.
pub(crate) const TRANSFER_BYTES_MAX: usize = 1 << 20;
/// Of pages of 4 KiB.
pub(crate) const TRANSFER_PAGES_MAX: u16 = 256;

/// The error number for a failed request; `change`: it would have stored something.
pub(crate) fn errno_of(kind: Kind, change: bool) -> i32 {
    match kind {
        Kind::NoSpace => ENOSPC,
        Kind::Invalid => EINVAL,
        Kind::OutOfRange if change => ENOSPC,
        Kind::OutOfRange => EINVAL,
        Kind::ReadOnly => EROFS,
        Kind::Unsupported => EOPNOTSUPP,
        Kind::Stopping => ENODEV,
        // `Kind` may grow: what is not known here is a plain failure.
        _ => EIO,
    }
}
