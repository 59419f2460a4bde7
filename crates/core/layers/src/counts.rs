//! Counts the requests to a backing, for volumes without a cache.

use block::{Request, Result, SECTOR};
use core::sync::atomic::{AtomicU64, Ordering};
use lane::Lane;

/// Requests to a backing, by kind.
#[derive(Default, Debug)]
pub struct Counts {
    /// Reads.
    pub reads: Kind,
    /// Writes.
    pub writes: Kind,
    /// Zeroes.
    pub zeroes: Kind,
    /// Discards.
    pub discards: Kind,
    /// Flushes.
    pub flushes: Kind,
}

/// Requests of one kind.
#[derive(Default, Debug)]
pub struct Kind {
    /// Requests answered.
    pub requests: AtomicU64,
    /// Bytes of these requests.
    pub bytes: AtomicU64,
    /// Requests that failed.
    pub errors: AtomicU64,
    /// Sum of the times from request to answer, in nanoseconds. Immediate answers add nothing.
    pub summed_ns: AtomicU64,
}

impl Kind {
    #[inline]
    fn count(&self, bytes: u64, result: &Result, ns: u64) {
        self.requests.fetch_add(1, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        if result.is_err() {
            self.errors.fetch_add(1, Ordering::Relaxed);
        }
        if ns > 0 {
            self.summed_ns.fetch_add(ns, Ordering::Relaxed);
        }
    }
}

impl Counts {
    /// Returns the counters for a request. None for advice, which causes no work in the device.
    fn of(&self, request: &Request) -> Option<&Kind> {
        Some(match request {
            Request::Read { .. } => &self.reads,
            Request::Write { .. } => &self.writes,
            Request::Zero { .. } => &self.zeroes,
            Request::Discard { .. } => &self.discards,
            Request::Flush => &self.flushes,
            Request::Advise { .. } => return None,
        })
    }

    /// Counts a request that was answered immediately.
    #[inline]
    pub(crate) fn count(&self, request: &Request, result: &Result) {
        if let Some(kind) = self.of(request) {
            kind.count(bytes_of(request), result, 0);
        }
    }

    /// Begins to count a request, which is counted at [`Counting::end`].
    pub(crate) fn begin(&self, request: &Request, lane: &Lane) -> Option<Counting<'_>> {
        let kind = self.of(request)?;
        Some(Counting { kind, bytes: bytes_of(request), start_ns: lane.now() })
    }
}

/// A request in flight that is counted at its end.
pub(crate) struct Counting<'a> {
    kind: &'a Kind,
    bytes: u64,
    start_ns: u64,
}

impl Counting<'_> {
    pub(crate) fn end(self, result: &Result, lane: &Lane) {
        self.kind.count(self.bytes, result, lane.now().saturating_sub(self.start_ns));
    }
}

fn bytes_of(request: &Request) -> u64 {
    request.extent().map_or(0, |at| u64::from(at.count) * SECTOR)
}
