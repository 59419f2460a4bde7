//! Abilities and preferences of a device. Each device derives its limits from those of the device
//! below it.

use crate::error::{Error, Kind, Result};
use crate::request::Request;
use serde::Serialize;

/// How a device makes a single write durable.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Fua {
    /// It cannot: the layer above writes, then flushes.
    None,
    /// By a flush that the device does after the write. An error may come from that flush; then all
    /// earlier unflushed writes are in doubt too.
    Emulated,
    /// By the write itself. An error concerns only that write.
    Native,
}

/// The effect of a discard.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Discard {
    /// None; the contents stay.
    Ignored,
    /// The range reads as zeros from then on.
    Zeroes,
}

/// Limits of a device. They do not change once a stack is built.
#[derive(Clone, PartialEq, Eq, Debug, Serialize)]
pub struct Limits {
    /// Size in sectors of 512 bytes.
    pub sectors: u64,
    /// Minimum size and alignment of a request, in bytes; a power of two.
    pub block_logical_bytes: u32,
    /// Unit of atomic writes, in bytes: the device does not tear it.
    pub block_physical_bytes: u32,
    /// Transfer size that suits the device best, in bytes.
    pub io_best_bytes: u32,
    /// Maximum size of a read or write, in bytes.
    pub io_max_bytes: u32,
    /// Whether a power cut may lose acknowledged writes that were not flushed.
    pub flush_needed: bool,
    /// Whether the end of a connection may lose them as well, while this process lives.
    pub loses_with_connection: bool,
    /// How a single write is made durable.
    pub fua: Fua,
    /// The effect of a discard.
    pub discard: Discard,
    /// Whether write-zeroes is faster than a write of zeros.
    pub zero_fast: bool,
    /// Whether seeks take time.
    pub rotational: bool,
    /// Whether changes are refused.
    pub read_only: bool,
    /// Whether requests may also begin and end inside a block: [`crate::Block::run_padded`].
    pub unaligned: bool,
    /// Number of bytes that represent a sector: 512, or less in a simulated world.
    pub grain: u32,
}

impl Limits {
    /// Limits of memory: all writes are durable, and any request size is suitable.
    pub fn plain(sectors: u64, grain: u32) -> Limits {
        Limits {
            sectors,
            block_logical_bytes: 512,
            block_physical_bytes: 4096,
            io_best_bytes: 128 << 10,
            io_max_bytes: 32 << 20,
            flush_needed: false,
            loses_with_connection: false,
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

    /// Checks a request that comes from outside. Code further down only asserts what this has
    /// checked.
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

    /// Returns the reason to refuse a request, or None if it is valid.
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

/// Returns the text of the error for a refused request.
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
