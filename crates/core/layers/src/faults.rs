//! The layer `faults`: operations with certain numbers fail.

use alloc::sync::Arc;
use block::{Error, FaultsSpec, Layer, Padding, Request, Result, Stack};
use core::sync::atomic::{AtomicU64, Ordering};

/// Linux's number for an input/output error.
const EIO: i32 = 5;

/// The part of the faults that all lanes share: the counters.
pub struct FaultsShared {
    spec: FaultsSpec,
    reads: AtomicU64,
    writes: AtomicU64,
    flushes: AtomicU64,
}

impl FaultsShared {
    /// Creates a device that fails as in `spec`.
    pub fn new(spec: &FaultsSpec) -> Arc<FaultsShared> {
        Arc::new(FaultsShared {
            spec: spec.clone(),
            reads: AtomicU64::new(0),
            writes: AtomicU64::new(0),
            flushes: AtomicU64::new(0),
        })
    }

    /// Counts the request. Returns the error if the spec lets its number fail.
    fn count(&self, request: &Request) -> Result {
        let (counter, from, doing) = match request {
            Request::Read { .. } => (&self.reads, self.spec.read_from, "read (injected)"),
            Request::Flush => (&self.flushes, self.spec.flush_from, "flush (injected)"),
            Request::Write { .. } | Request::Discard { .. } | Request::Zero { .. } => {
                (&self.writes, self.spec.write_from, "write (injected)")
            }
            Request::Advise { .. } => return Ok(()),
        };
        // Relaxed: only the number matters; it publishes no other data.
        let number = counter.fetch_add(1, Ordering::Relaxed) + 1;
        let fails = from != 0
            && number >= from
            && (self.spec.count == 0 || number - from < self.spec.count);
        if !fails {
            return Ok(());
        }
        let errno = match self.spec.errno {
            0 => EIO,
            errno => errno,
        };
        Err(Error::from_errno(errno, doing))
    }
}

/// One lane's handle on a failing device. With `hang_ms`, requests do not fail: they are delayed by
/// this time, and then served. Otherwise a failing request does not reach the device below: a
/// failed read leaves its buffer unchanged, a failed write leaves the old contents, a failed flush
/// makes nothing durable.
pub struct Faults {
    shared: Arc<FaultsShared>,
    below: Stack,
}

impl Faults {
    /// Creates one lane's handle on the failing device, in front of `below`.
    pub fn attach(shared: Arc<FaultsShared>, below: Stack) -> Faults {
        Faults { shared, below }
    }
}

impl Layer for Faults {
    fn lower(&self) -> &Stack {
        &self.below
    }

    /// Each request is counted, and may hang.
    fn try_now(&self, _request: &Request) -> Option<Result> {
        None
    }

    async fn serve(&self, request: Request, padding: Padding) -> Result {
        let counted = self.shared.count(&request);
        let hang_ms = self.shared.spec.hang_ms;
        if counted.is_err() && hang_ms > 0 {
            let lane = self.below.lane();
            lane.sleep_until(lane.now().saturating_add(hang_ms.saturating_mul(1_000_000))).await;
            return self.below.serve(request, padding).await;
        }
        counted?;
        self.below.serve(request, padding).await
    }
}
