//! Requests as data.

use crate::buffer::Buf;

/// A run of 512-byte sectors; never empty once it has passed [`crate::Limits::check`].
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Extent {
    /// The first sector.
    pub first: u64,
    /// How many sectors.
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

    /// Whether the two share a sector.
    #[inline]
    pub const fn overlaps(&self, other: &Extent) -> bool {
        self.first < other.end() && other.first < self.end()
    }
}

/// What a client says of blocks that it does not touch yet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Advice {
    /// It will read them soon.
    WillNeed,
}

/// What is asked of a block device. Small and `Send`; also what is recorded, traced and listed.
#[derive(Clone, Debug)]
pub enum Request {
    /// Fill `into` with what is at `at`.
    Read {
        /// Where.
        at: Extent,
        /// As long as `at`.
        into: Buf,
    },
    /// Store `from` at `at`.
    Write {
        /// Where.
        at: Extent,
        /// As long as `at`.
        from: Buf,
        /// Durable when answered.
        fua: bool,
    },
    /// Make durable whatever was answered before this was sent.
    Flush,
    /// The contents of `at` are no longer needed. Afterwards they are stable: zeros, or unchanged.
    Discard {
        /// Where.
        at: Extent,
    },
    /// Store zeros at `at`.
    Zero {
        /// Where.
        at: Extent,
        /// Durable when answered.
        fua: bool,
        /// Space behind it may be given up.
        may_unmap: bool,
    },
    /// A hint, which changes nothing but how fast later requests are. A device that can do nothing with it
    /// answers at once.
    Advise {
        /// Where.
        at: Extent,
        /// What is said of it.
        advice: Advice,
    },
}

const _: () = assert!(size_of::<Request>() <= 40, "a request is copied into every queue");

impl Request {
    /// Where it acts; None for a flush.
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

    /// Whether it changes what a later read returns.
    pub fn is_change(&self) -> bool {
        matches!(self, Request::Write { .. } | Request::Discard { .. } | Request::Zero { .. })
    }
}
