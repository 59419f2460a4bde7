//! The action of a request, decided from its header alone.

use crate::codec::*;
use block::{Extent, Kind, Limits, Padding, Request, SECTOR};

/// A parsed request. All of its ranges are within the export's limits.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    Read {
        at: Extent,
    },
    Write {
        at: Extent,
        fua: bool,
    },
    Flush,
    Trim {
        at: Extent,
        fua: bool,
    },
    Zero {
        at: Extent,
        fua: bool,
        may_unmap: bool,
    },
    Cache {
        at: Extent,
    },
    /// Block status; `one`: of the first stretch only.
    Status {
        at: Extent,
        padding: Padding,
        one: bool,
    },
    /// A request of any kind except status and flush that begins or ends inside a block: the blocks
    /// around it, and its padding.
    Part {
        at: Extent,
        padding: Padding,
    },
    Disconnect,
    /// Refused with this error. `payload_bytes` bytes of payload follow the header nevertheless.
    Refuse {
        kind: Kind,
        payload_bytes: u32,
    },
}

/// Protocol features that the handshake has enabled.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Features {
    /// Replies are sent in chunks.
    pub(crate) structured: bool,
    /// The client has selected the context `base:allocation` for its export.
    pub(crate) status: bool,
}

/// Returns the flags that a command may carry. The protocol allows FUA on every command.
fn flags_of(command: u16, features: Features) -> u16 {
    match command {
        NBD_CMD_READ if features.structured => NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_DF,
        NBD_CMD_WRITE_ZEROES => NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_NO_HOLE | NBD_CMD_FLAG_FAST_ZERO,
        NBD_CMD_BLOCK_STATUS => NBD_CMD_FLAG_FUA | NBD_CMD_FLAG_REQ_ONE,
        _ => NBD_CMD_FLAG_FUA,
    }
}

/// Decides the action of a request, or its refusal.
#[inline]
pub(crate) fn understand(header: &RequestHeader, limits: &Limits, features: Features) -> Action {
    let checked = match header.command {
        NBD_CMD_DISC => return Action::Disconnect,
        _ if header.flags & !flags_of(header.command, features) != 0 => Err(Kind::Invalid),
        NBD_CMD_BLOCK_STATUS if !features.status => Err(Kind::Invalid),
        _ => accept(header, limits),
    };
    checked.unwrap_or_else(|kind| Action::Refuse {
        kind,
        // The payload of a write follows its header even if the request is refused.
        payload_bytes: if header.command == NBD_CMD_WRITE { header.length } else { 0 },
    })
}

fn accept(header: &RequestHeader, limits: &Limits) -> Result<Action, Kind> {
    if limits.unaligned && is_part(header, limits) {
        return accept_part(header, limits);
    }
    let fua = header.flags & NBD_CMD_FLAG_FUA != 0;
    let may_unmap = header.flags & NBD_CMD_FLAG_NO_HOLE == 0;
    match header.command {
        NBD_CMD_READ => transfer(header, limits).map(|at| Action::Read { at }),
        NBD_CMD_CACHE => transfer(header, limits).map(|at| Action::Cache { at }),
        NBD_CMD_WRITE if limits.read_only => Err(Kind::ReadOnly),
        NBD_CMD_WRITE => transfer(header, limits).map(|at| Action::Write { at, fua }),
        NBD_CMD_FLUSH if header.offset == 0 && header.length == 0 => Ok(Action::Flush),
        NBD_CMD_TRIM => {
            let at = extent(header)?;
            check(limits, &Request::Discard { at })?;
            Ok(Action::Trim { at, fua })
        }
        NBD_CMD_WRITE_ZEROES => {
            let at = extent(header)?;
            check(limits, &Request::Zero { at, fua, may_unmap })?;
            if header.flags & NBD_CMD_FLAG_FAST_ZERO != 0 && !limits.zero_fast {
                return Err(Kind::Unsupported);
            }
            Ok(Action::Zero { at, fua, may_unmap })
        }
        NBD_CMD_BLOCK_STATUS => {
            let one = header.flags & NBD_CMD_FLAG_REQ_ONE != 0;
            let status = |at| Action::Status { at, padding: Padding::NONE, one };
            any_length_extent(header, limits).map(status)
        }
        _ => Err(Kind::Invalid),
    }
}

/// Whether a request begins or ends inside a block.
#[inline]
fn is_part(header: &RequestHeader, limits: &Limits) -> bool {
    let mask = u64::from(limits.block_logical_bytes) - 1;
    (header.offset | u64::from(header.length)) & mask != 0
}

/// Decides the action of such a request.
fn accept_part(header: &RequestHeader, limits: &Limits) -> Result<Action, Kind> {
    let has_payload = match header.command {
        NBD_CMD_READ | NBD_CMD_CACHE => true,
        NBD_CMD_BLOCK_STATUS => false,
        NBD_CMD_WRITE | NBD_CMD_TRIM | NBD_CMD_WRITE_ZEROES if limits.read_only => {
            return Err(Kind::ReadOnly);
        }
        NBD_CMD_WRITE => true,
        NBD_CMD_TRIM | NBD_CMD_WRITE_ZEROES => false,
        _ => return Err(Kind::Invalid),
    };
    if has_payload && header.length > limits.io_max_bytes {
        return Err(Kind::Invalid);
    }
    let around = limits.around(header.offset, header.length);
    let (at, padding) = around.map_err(|error| error.kind)?;
    match header.command {
        NBD_CMD_BLOCK_STATUS => {
            let one = header.flags & NBD_CMD_FLAG_REQ_ONE != 0;
            Ok(Action::Status { at, padding, one })
        }
        // The ends are read and written, so it is no faster than a write.
        _ if header.flags & NBD_CMD_FLAG_FAST_ZERO != 0 => Err(Kind::Unsupported),
        _ => Ok(Action::Part { at, padding }),
    }
}

fn check(limits: &Limits, request: &Request) -> Result<(), Kind> {
    limits.check(request).map_err(|error| error.kind)
}

/// Converts bytes to sectors. Multiples of 512 only; the length always fits, as it has 32 bits.
fn extent(header: &RequestHeader) -> Result<Extent, Kind> {
    let length = u64::from(header.length);
    if header.length == 0 || !header.offset.is_multiple_of(SECTOR) || !length.is_multiple_of(SECTOR)
    {
        return Err(Kind::Invalid);
    }
    Ok(Extent::new(header.offset / SECTOR, (length / SECTOR) as u32))
}

/// Returns the extent of a request that needs a buffer, checked before the buffer is allocated.
#[inline]
fn transfer(header: &RequestHeader, limits: &Limits) -> Result<Extent, Kind> {
    if header.length > limits.io_max_bytes {
        return Err(Kind::Invalid);
    }
    any_length_extent(header, limits)
}

/// Returns the extent of a request that may have any length.
#[inline]
fn any_length_extent(header: &RequestHeader, limits: &Limits) -> Result<Extent, Kind> {
    let at = extent(header)?;
    if is_part(header, limits) {
        return Err(Kind::Invalid);
    }
    if at.first > limits.sectors || u64::from(at.count) > limits.sectors - at.first {
        return Err(Kind::OutOfRange);
    }
    Ok(at)
}

/// Returns the protocol's error number for a refusal of this command.
pub(crate) fn refusal_error(kind: Kind, command: u16) -> u32 {
    match kind {
        // Only a fast zero is refused as unsupported before it is tried.
        Kind::Unsupported => NBD_ENOTSUP,
        _ => error_of(kind, matches!(command, NBD_CMD_WRITE | NBD_CMD_WRITE_ZEROES)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(command: u16, flags: u16, offset: u64, length: u32) -> RequestHeader {
        RequestHeader { flags, command, cookie: 7, offset, length }
    }

    fn of(command: u16, flags: u16, offset: u64, length: u32) -> Action {
        let limits = Limits { block_logical_bytes: 4096, ..Limits::plain(1 << 20, 512) };
        understand(&header(command, flags, offset, length), &limits, Features::default())
    }

    const ALL: Features = Features { structured: true, status: true };

    fn of_all(command: u16, flags: u16, offset: u64, length: u32) -> Action {
        let limits = Limits { block_logical_bytes: 4096, ..Limits::plain(1 << 20, 512) };
        understand(&header(command, flags, offset, length), &limits, ALL)
    }

    fn refused(kind: Kind, payload_bytes: u32) -> Action {
        Action::Refuse { kind, payload_bytes }
    }

    #[test]
    fn what_is_inside_the_limits_is_taken() {
        let at = Extent::new(8, 16);
        assert_eq!(of(NBD_CMD_READ, 0, 4096, 8192), Action::Read { at });
        let write = Action::Write { at, fua: true };
        assert_eq!(of(NBD_CMD_WRITE, NBD_CMD_FLAG_FUA, 4096, 8192), write);
        let zero = Action::Zero { at, fua: false, may_unmap: false };
        let flags = NBD_CMD_FLAG_NO_HOLE;
        assert_eq!(of(NBD_CMD_WRITE_ZEROES, flags, 4096, 8192), zero);
        assert_eq!(of(NBD_CMD_FLUSH, 0, 0, 0), Action::Flush);
        assert_eq!(of(NBD_CMD_DISC, 0xffff, 1, 1), Action::Disconnect);
    }

    #[test]
    fn what_is_outside_is_refused_with_its_reason() {
        let invalid = refused(Kind::Invalid, 0);
        assert_eq!(of(NBD_CMD_READ, 0, 4096, 0), invalid);
        assert_eq!(of(NBD_CMD_READ, 0, 512, 4096), invalid);
        assert_eq!(of(NBD_CMD_READ, 0, 1, 4096), invalid);
        assert_eq!(of(NBD_CMD_READ, 0, 0, 33 << 20), invalid);
        assert_eq!(of(NBD_CMD_READ, 1 << 9, 0, 4096), invalid);
        assert_eq!(of(NBD_CMD_FLUSH, 0, 0, 1), invalid);
        assert_eq!(of(NBD_CMD_BLOCK_STATUS, 0, 0, 4096), invalid);
        assert_eq!(of(999, 0, 0, 4096), invalid);
        let beyond = u64::MAX - 4095;
        assert_eq!(of(NBD_CMD_READ, 0, beyond, 4096), refused(Kind::OutOfRange, 0));
        let beyond_write = refused(Kind::OutOfRange, 4096);
        assert_eq!(of(NBD_CMD_WRITE, 0, 512 << 20, 4096), beyond_write);
        assert_eq!(of(NBD_CMD_TRIM, 0, 0, u32::MAX - 4095), refused(Kind::OutOfRange, 0));
    }

    #[test]
    fn what_was_not_negotiated_is_refused() {
        let invalid = refused(Kind::Invalid, 0);
        let at = Extent::new(8, 8);
        assert_eq!(of(NBD_CMD_READ, NBD_CMD_FLAG_DF, 4096, 4096), invalid);
        assert_eq!(of_all(NBD_CMD_READ, NBD_CMD_FLAG_DF, 4096, 4096), Action::Read { at });
        assert_eq!(of(NBD_CMD_BLOCK_STATUS, 0, 4096, 4096), invalid);
        let one = |one| Action::Status { at, padding: Padding::NONE, one };
        assert_eq!(of_all(NBD_CMD_BLOCK_STATUS, 0, 4096, 4096), one(false));
        let flags = NBD_CMD_FLAG_REQ_ONE | NBD_CMD_FLAG_FUA;
        assert_eq!(of_all(NBD_CMD_BLOCK_STATUS, flags, 4096, 4096), one(true));
        assert_eq!(of_all(NBD_CMD_BLOCK_STATUS, NBD_CMD_FLAG_DF, 4096, 4096), invalid);
        assert_eq!(of_all(NBD_CMD_BLOCK_STATUS, 0, 512, 4096), invalid);
        let beyond = refused(Kind::OutOfRange, 0);
        assert_eq!(of_all(NBD_CMD_BLOCK_STATUS, 0, 512 << 20, 4096), beyond);
        let long = 480 << 20;
        let at = Extent::new(0, long / 512);
        let status = Action::Status { at, padding: Padding::NONE, one: false };
        assert_eq!(of_all(NBD_CMD_BLOCK_STATUS, 0, 0, long), status, "longer than any transfer");
    }

    #[test]
    fn parts_of_blocks_are_taken_where_the_stack_takes_them() {
        let block = Limits { block_logical_bytes: 4096, ..Limits::plain(1 << 20, 512) };
        let limits = Limits { unaligned: true, ..block.clone() };
        let of = |command, flags, offset, length| {
            understand(&header(command, flags, offset, length), &limits, ALL)
        };
        let (at, padding) = (Extent::new(8, 16), Padding { head: 4, tail: 4091 });
        let commands = [NBD_CMD_READ, NBD_CMD_CACHE, NBD_CMD_WRITE, NBD_CMD_TRIM];
        for command in commands.into_iter().chain([NBD_CMD_WRITE_ZEROES]) {
            assert_eq!(of(command, 0, 4100, 4097), Action::Part { at, padding });
            let payload = if command == NBD_CMD_WRITE { 4097 } else { 0 };
            let whole = understand(&header(command, 0, 4100, 4097), &block, ALL);
            assert_eq!(whole, refused(Kind::Invalid, payload));
            assert!(matches!(of(command, 0, 4096, 0), Action::Refuse { kind: Kind::Invalid, .. }));
            assert!(matches!(of(command, 0, 1, 0), Action::Refuse { kind: Kind::Invalid, .. }));
            let beyond = of(command, 0, (512 << 20) - 1, 2);
            assert!(matches!(beyond, Action::Refuse { kind: Kind::OutOfRange, .. }));
        }
        let one = true;
        let status = of(NBD_CMD_BLOCK_STATUS, NBD_CMD_FLAG_REQ_ONE, 4100, 4097);
        assert_eq!(status, Action::Status { at, padding, one });
        let at = Extent::new(0, 65_544);
        let padding = Padding { head: 1, tail: 4095 };
        assert_eq!(of(NBD_CMD_READ, 0, 1, 32 << 20), Action::Part { at, padding }, "the largest");
        assert_eq!(of(NBD_CMD_READ, 0, 1, (32 << 20) + 1), refused(Kind::Invalid, 0));
        assert_eq!(of(NBD_CMD_FLUSH, 0, 1, 0), refused(Kind::Invalid, 0));
        assert_eq!(of(999, 0, 1, 1), refused(Kind::Invalid, 0));
        assert_eq!(of(NBD_CMD_WRITE, 1 << 9, 1, 1), refused(Kind::Invalid, 1));
        let fast = of(NBD_CMD_WRITE_ZEROES, NBD_CMD_FLAG_FAST_ZERO, 1, 4096);
        assert_eq!(fast, refused(Kind::Unsupported, 0));
        let locked = Limits { read_only: true, ..limits.clone() };
        let write = understand(&header(NBD_CMD_WRITE, 0, 1, 3), &locked, ALL);
        assert_eq!(write, refused(Kind::ReadOnly, 3));
    }

    #[test]
    fn a_fast_zero_is_taken_only_where_zeros_are_fast() {
        let fast = NBD_CMD_FLAG_FAST_ZERO;
        let at = Extent::new(0, 8);
        let zero = Action::Zero { at, fua: false, may_unmap: true };
        assert_eq!(of(NBD_CMD_WRITE_ZEROES, fast, 0, 4096), zero);
        let slow = Limits { zero_fast: false, ..Limits::plain(64, 512) };
        let asked = header(NBD_CMD_WRITE_ZEROES, fast, 0, 4096);
        let action = understand(&asked, &slow, ALL);
        assert_eq!(action, refused(Kind::Unsupported, 0));
        assert_eq!(refusal_error(Kind::Unsupported, NBD_CMD_WRITE_ZEROES), NBD_ENOTSUP);
        assert_eq!(of(NBD_CMD_WRITE, fast, 0, 4096), refused(Kind::Invalid, 4096));
    }

    #[test]
    fn beyond_the_end_there_is_no_space_for_what_is_stored() {
        for command in [NBD_CMD_WRITE, NBD_CMD_WRITE_ZEROES] {
            assert_eq!(refusal_error(Kind::OutOfRange, command), NBD_ENOSPC);
        }
        for command in [NBD_CMD_READ, NBD_CMD_TRIM, NBD_CMD_CACHE, NBD_CMD_BLOCK_STATUS] {
            assert_eq!(refusal_error(Kind::OutOfRange, command), NBD_EINVAL);
        }
    }
}
