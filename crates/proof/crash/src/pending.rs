//! The operations of a history: their kinds, and one that was sent.

use crate::oracle::Range;
use crate::stamp::Operation;

/// One kind of operation.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    Read,
    Write,
    WriteFua,
    Zero,
    ZeroFua,
    Discard,
    Flush,
    /// A query for contents known without reading.
    Status,
}

/// An operation that was sent.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Pending {
    pub(crate) operation: Operation,
    pub(crate) kind: Kind,
    pub(crate) range: Range,
    /// The tick at which it was sent.
    pub(crate) sent: u32,
    /// Whether its blocks held buffered data that was not durable yet: it may be absorbed (C12).
    pub(crate) overlaps_dirty: bool,
    /// The time for which all changes were refused, if it was sent in one: its number.
    pub(crate) refusal: Option<u64>,
}
