//! Errors on the wire and errors of the block layer.

use super::constants::*;
use block::Kind;

/// The protocol's number for a failed request; `change` says whether the request stores something
/// (write, write-zeroes), for which reaching beyond the end reads as "no space".
///
/// `NBD_ENOTSUP` is never among them: the protocol keeps that for write-zeroes that would not be
/// fast, and forbids it for those that need not be.
pub fn error_of(kind: Kind, change: bool) -> u32 {
    match kind {
        Kind::NoSpace => NBD_ENOSPC,
        Kind::Invalid | Kind::Unsupported => NBD_EINVAL,
        Kind::OutOfRange if change => NBD_ENOSPC,
        Kind::OutOfRange => NBD_EINVAL,
        Kind::ReadOnly => NBD_EPERM,
        Kind::Stopping => NBD_ESHUTDOWN,
        // `Kind` may grow: what is not known here is a plain failure.
        _ => NBD_EIO,
    }
}

/// What an error number from a server means; None for 0, which is success.
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
