//! Counts the requests to a backing, for volumes without a cache.

use block::{Layer, Padding, Request, Result, SECTOR, Stack};
use lane::Lane;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

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
}

fn bytes_of(request: &Request) -> u64 {
    request.extent().map_or(0, |at| u64::from(at.count) * SECTOR)
}

/// The top of a stack without a cache, as a lane sees it.
pub(crate) struct Counted {
    counts: Arc<Counts>,
    lane: Lane,
    below: Stack,
}

impl Counted {
    pub(crate) fn new(counts: &Arc<Counts>, below: Stack) -> Counted {
        Counted { counts: counts.clone(), lane: below.lane().clone(), below }
    }
}

impl Layer for Counted {
    fn lower(&self) -> &Stack {
        &self.below
    }

    #[inline]
    fn try_now(&self, request: &Request) -> Option<Result> {
        let answer = self.below.try_now(request);
        if let Some(result) = &answer
            && let Some(kind) = self.counts.of(request)
        {
            kind.count(bytes_of(request), result, 0);
        }
        answer
    }

    async fn serve(&self, request: Request, padding: Padding) -> Result {
        let (kind, bytes, start_ns) =
            (self.counts.of(&request), bytes_of(&request), self.lane.now());
        let result = self.below.serve(request, padding).await;
        if let Some(kind) = kind {
            kind.count(bytes, &result, self.lane.now().saturating_sub(start_ns));
        }
        result
    }
}
