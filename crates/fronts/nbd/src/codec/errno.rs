//! Conversion between errors on the wire and errors of the block layer.

use super::constants::*;
use block::Kind;
use std::borrow::Cow;

/// Returns the protocol's error number for a failed request. `change`: the request stores something
/// (write, write-zeroes); if it exceeds the end, the error is then "no space".
///
/// Never returns `NBD_ENOTSUP`: the protocol reserves it for write-zeroes that must be fast and
/// would not be, and forbids it for other write-zeroes.
pub fn error_of(kind: Kind, change: bool) -> u32 {
    match kind {
        Kind::NoSpace => NBD_ENOSPC,
        Kind::Invalid | Kind::Unsupported => NBD_EINVAL,
        Kind::OutOfRange if change => NBD_ENOSPC,
        Kind::OutOfRange => NBD_EINVAL,
        Kind::ReadOnly => NBD_EPERM,
        Kind::Stopping => NBD_ESHUTDOWN,
        // `Kind` may grow: a new kind is a plain failure.
        _ => NBD_EIO,
    }
}

/// Converts a server's error number; None for 0, which is success.
pub fn kind_of(error: u32) -> Option<Kind> {
    match error {
        0 => None,
        NBD_EPERM => Some(Kind::ReadOnly),
        NBD_EINVAL | NBD_EOVERFLOW => Some(Kind::Invalid),
        NBD_ENOSPC => Some(Kind::NoSpace),
        NBD_ENOTSUP => Some(Kind::Unsupported),
        NBD_ESHUTDOWN => Some(Kind::Stopping),
        _ => Some(Kind::Io),
    }
}

/// Returns the name of a server's error number, or the number itself if it has no name here.
pub fn error_name(error: u32) -> Cow<'static, str> {
    let name = match error {
        NBD_EPERM => "EPERM",
        NBD_EIO => "EIO",
        NBD_ENOMEM => "ENOMEM",
        NBD_EINVAL => "EINVAL",
        NBD_ENOSPC => "ENOSPC",
        NBD_EOVERFLOW => "EOVERFLOW",
        NBD_ENOTSUP => "ENOTSUP",
        NBD_ESHUTDOWN => "ESHUTDOWN",
        _ => return format!("error {error}").into(),
    };
    name.into()
}

/// Returns the name of a command for messages, such as "a read", or its number if it has no name
/// here.
pub fn command_name(command: u16) -> Cow<'static, str> {
    let name = match command {
        NBD_CMD_READ => "a read",
        NBD_CMD_WRITE => "a write",
        NBD_CMD_FLUSH => "a flush",
        NBD_CMD_TRIM => "a trim",
        NBD_CMD_CACHE => "a prefetch",
        NBD_CMD_WRITE_ZEROES => "a write of zeros",
        NBD_CMD_BLOCK_STATUS => "a block status",
        _ => return format!("command {command}").into(),
    };
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn beyond_the_end_is_no_space_for_changes_only() {
        assert_eq!(error_of(Kind::OutOfRange, true), NBD_ENOSPC);
        assert_eq!(error_of(Kind::OutOfRange, false), NBD_EINVAL);
    }

    #[test]
    fn kinds_survive_the_trip() {
        let kinds = [Kind::Io, Kind::NoSpace, Kind::Invalid, Kind::ReadOnly, Kind::Stopping];
        for kind in kinds {
            assert_eq!(kind_of(error_of(kind, true)), Some(kind));
        }
        assert_eq!(kind_of(0), None);
        assert_eq!(error_of(Kind::Unsupported, true), NBD_EINVAL, "ENOTSUP is for fast zeros");
        assert_eq!(kind_of(NBD_ENOTSUP), Some(Kind::Unsupported));
        assert_eq!(kind_of(9999), Some(Kind::Io));
    }
}
