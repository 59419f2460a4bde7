//! The counters and measurements of a volume outside its shards.

use crate::stats::counters::Counters;
use crate::stats::latencies::Latencies;
use alloc::boxed::Box;
use lane::atomic::{AtomicU64, Ordering};

/// Counts of a volume, each named as in [`Counters`], and its latencies.
#[derive(Default)]
pub(crate) struct VolumeStats {
    flushes: AtomicU64,
    flushes_backing: AtomicU64,
    epochs: AtomicU64,
    writes_urgent: AtomicU64,
    blocks_recovered: AtomicU64,
    headers_rejected: AtomicU64,
    takeover_ns: AtomicU64,
    /// Boxed: otherwise ten kilobytes would be copied with the rest whenever a cache is made.
    pub(crate) latencies: Box<Latencies>,
}

impl VolumeStats {
    /// Counts a requested flush.
    pub(crate) fn count_flush(&self) {
        self.flushes.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts a flush that is sent to the backing.
    pub(crate) fn count_flush_of_backing(&self) {
        self.flushes_backing.fetch_add(1, Ordering::Relaxed);
    }

    /// Counts an epoch that became durable, `took_ns` after its commit began.
    pub(crate) fn count_epoch(&self, took_ns: u64) {
        self.epochs.fetch_add(1, Ordering::Relaxed);
        self.latencies.write_out_ns.record(took_ns);
    }

    /// Counts a commit that had to begin immediately.
    pub(crate) fn count_urgent(&self) {
        self.writes_urgent.fetch_add(1, Ordering::Relaxed);
    }

    /// Records the number of blocks found dirty at the start, and of damaged headers.
    pub(crate) fn set_recovered(&self, blocks: u32, headers_rejected: u64) {
        self.blocks_recovered.store(blocks.into(), Ordering::Relaxed);
        self.headers_rejected.store(headers_rejected, Ordering::Relaxed);
    }

    /// Records the time that the takeover of an earlier process's memory took.
    pub(crate) fn set_takeover_ns(&self, ns: u64) {
        self.takeover_ns.store(ns, Ordering::Relaxed);
    }

    /// Adds the counters.
    pub(crate) fn count(&self, all: &mut Counters) {
        let load = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        all.flushes = load(&self.flushes);
        all.flushes_backing = load(&self.flushes_backing);
        all.epochs = load(&self.epochs);
        all.writes_urgent = load(&self.writes_urgent);
        all.blocks_recovered = load(&self.blocks_recovered);
        all.headers_rejected = load(&self.headers_rejected);
        all.takeover_ns = load(&self.takeover_ns);
    }
}
