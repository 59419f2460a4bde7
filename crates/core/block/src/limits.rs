//! What a device can do and wants: negotiated from the bottom of a stack to its top.

use crate::error::{Error, Kind, Result};
use crate::request::Request;
use serde::Serialize;

/// How a device makes a single write durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fua {
    /// Not at all: what stands on it writes, then flushes.
    None,
    /// By a flush of its own after the write: an error may be that flush's, and then all that was
    /// written before is in doubt.
    Emulated,
    /// By the write itself: an error concerns that write alone.
    Native,
}

/// What a discard does.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Discard {
    /// Nothing; the contents stay.
    Ignored,
    /// The range reads as zeros from then on.
    Zeroes,
}

/// The limits of a device. Fixed once a stack is built.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Limits {
    /// Size in sectors of 512 bytes.
    pub sectors: u64,
    /// The smallest request and its alignment, in bytes; a power of two.
    pub block_logical_bytes: u32,
    /// What the device does not tear, in bytes: the unit of atomicity.
    pub block_physical_bytes: u32,
    /// Transfers that suit the device, in bytes.
    pub io_best_bytes: u32,
    /// The largest read or write, in bytes.
    pub io_max_bytes: u32,
    /// Whether answered writes may still be lost until a flush.
    pub flush_needed: bool,
    /// How a single write is made durable.
    pub fua: Fua,
    /// What a discard does.
    pub discard: Discard,
    /// Whether write-zeroes is done without writing zeros, that is, faster than a write.
    pub zero_fast: bool,
    /// Whether seeks cost.
    pub rotational: bool,
    /// Whether changes are refused.
    pub read_only: bool,
    /// Whether requests may also begin and end inside a block: [`crate::Block::run_padded`].
    pub unaligned: bool,
    /// Bytes that stand for a sector: 512, or less in a simulated world.
    pub grain: u32,
}

impl Limits {
    /// The limits of memory: everything is durable, nothing is large or small.
    pub fn plain(sectors: u64, grain: u32) -> Limits {
        Limits {
            sectors,
            block_logical_bytes: 512,
            block_physical_bytes: 4096,
            io_best_bytes: 128 << 10,
            io_max_bytes: 32 << 20,
            flush_needed: false,
            fua: Fua::Native,
            discard: Discard::Zeroes,
            zero_fast: true,
            rotational: false,
            read_only: false,
            unaligned: false,
            grain,
        }
    }

    /// Size in bytes.
    pub fn bytes(&self) -> u64 {
        self.sectors * crate::SECTOR
    }

    /// Checks a request that comes from outside. What has passed is only asserted further down.
    ///
    /// # Errors
    /// `Invalid` (empty, misaligned, too large, a buffer of another length), `OutOfRange`, or
    /// `ReadOnly`.
    #[inline]
    pub fn check(&self, request: &Request) -> Result {
        match self.refusal(request) {
            None => Ok(()),
            Some(kind) => Err(Error::new(kind, doing(kind, request))),
        }
    }

    /// Why a request is not taken. None: it is.
    #[inline]
    fn refusal(&self, request: &Request) -> Option<Kind> {
        if self.read_only && request.is_change() {
            return Some(Kind::ReadOnly);
        }
        let at = request.extent()?;
        let unit = u64::from(self.block_sectors());
        if at.count == 0 || (at.first | u64::from(at.count)) & (unit - 1) != 0 {
            return Some(Kind::Invalid);
        }
        if at.first > self.sectors || u64::from(at.count) > self.sectors - at.first {
            return Some(Kind::OutOfRange);
        }
        if let Request::Read { into: buf, .. } | Request::Write { from: buf, .. } = request {
            let bytes = u64::from(at.count) * crate::SECTOR;
            if buf.sectors() != at.count || bytes > u64::from(self.io_max_bytes) {
                return Some(Kind::Invalid);
            }
        }
        None
    }
}

/// What is told of a request that is refused.
#[cold]
fn doing(kind: Kind, request: &Request) -> &'static str {
    match request {
        _ if kind == Kind::ReadOnly => "change a read-only volume",
        Request::Read { .. } => "read",
        Request::Write { .. } => "write",
        Request::Discard { .. } => "discard",
        Request::Advise { .. } => "advise",
        Request::Zero { .. } | Request::Flush => "write zeroes",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Buf, Extent};

    #[test]
    fn requests_are_refused_at_the_edge() {
        let limits = Limits { block_logical_bytes: 4096, ..Limits::plain(64, 16) };
        let read = |first, count| Request::Read {
            at: Extent::new(first, count),
            into: Buf::new(count, 16),
        };
        assert_eq!(limits.check(&read(0, 8)), Ok(()));
        let kind = |request| limits.check(&request).map_err(|error| error.kind);
        assert_eq!(kind(read(1, 8)), Err(Kind::Invalid));
        assert_eq!(kind(read(0, 0)), Err(Kind::Invalid));
        assert_eq!(kind(read(64, 8)), Err(Kind::OutOfRange));
        assert_eq!(kind(read(u64::MAX - 7, 8)), Err(Kind::OutOfRange));
        let short = Request::Write { at: Extent::new(0, 8), from: Buf::new(7, 16), fua: false };
        assert_eq!(kind(short), Err(Kind::Invalid));
        let locked = Limits { read_only: true, ..limits.clone() };
        let discard = Request::Discard { at: Extent::new(0, 8) };
        assert_eq!(locked.check(&discard).map_err(|error| error.kind), Err(Kind::ReadOnly));
        assert_eq!(locked.check(&Request::Flush), Ok(()));
    }
}
