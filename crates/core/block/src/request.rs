//! Requests as data.

use crate::buffer::Buf;

/// A run of 512-byte sectors; never empty once it has passed [`crate::Limits::check`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// The first sector.
    pub first: u64,
    /// Number of sectors.
    pub count: u32,
}

impl Extent {
    /// `count` sectors from `first` on.
    pub const fn new(first: u64, count: u32) -> Extent {
        Extent { first, count }
    }

    /// The first sector after the extent.
    #[inline]
    pub const fn end(&self) -> u64 {
        self.first + self.count as u64
    }

    /// Whether the two have a sector in common.
    #[inline]
    pub const fn overlaps(&self, other: &Extent) -> bool {
        self.first < other.end() && other.first < self.end()
    }
}

/// A client's advice about blocks that it has not accessed yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// The client will read them soon.
    WillNeed,
}

/// A request to a block device. Small and `Send`; also the form that is recorded, traced and
/// listed.
#[derive(Clone, Debug)]
pub enum Request {
    /// Fills `into` with the contents of `at`.
    Read {
        /// Range on the device.
        at: Extent,
        /// Buffer of the same length as `at`.
        into: Buf,
    },
    /// Stores `from` at `at`.
    Write {
        /// Range on the device.
        at: Extent,
        /// Buffer of the same length as `at`.
        from: Buf,
        /// Whether the data must be durable before the answer.
        fua: bool,
    },
    /// Makes all writes durable that were answered before the flush was sent.
    Flush,
    /// The contents of `at` are no longer needed. Afterwards they are stable: zeros, or unchanged.
    Discard {
        /// Range on the device.
        at: Extent,
    },
    /// Stores zeros at `at`.
    Zero {
        /// Range on the device.
        at: Extent,
        /// Whether the zeros must be durable before the answer.
        fua: bool,
        /// Whether the space behind the range may be deallocated.
        may_unmap: bool,
    },
    /// A hint that changes only the speed of later requests. A device that cannot use it answers
    /// immediately.
    Advise {
        /// Range on the device.
        at: Extent,
        /// The advice about it.
        advice: Advice,
    },
}

const _: () = assert!(size_of::<Request>() <= 40, "a request is copied into every queue");

impl Request {
    /// The range that the request affects; None for a flush.
    pub fn extent(&self) -> Option<Extent> {
        match self {
            Request::Read { at, .. }
            | Request::Write { at, .. }
            | Request::Discard { at }
            | Request::Zero { at, .. }
            | Request::Advise { at, .. } => Some(*at),
            Request::Flush => None,
        }
    }

    /// Whether the request changes the result of later reads.
    pub fn is_change(&self) -> bool {
        matches!(self, Request::Write { .. } | Request::Discard { .. } | Request::Zero { .. })
    }
}
