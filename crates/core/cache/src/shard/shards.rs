//! The shards of a volume, each with its events.

use crate::arena::Arena;
use crate::dirty::gauges::Gauges;
use crate::geometry::Geometry;
use crate::sampling::Sampling;
use crate::shard::{Prefetcher, Shard};
use crate::spread::Spread;
use crate::stats::counters::LiveCounters;
use crate::streams::Streams;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ops::{Deref, DerefMut};
use lane::atomic::{AtomicBool, Ordering};
use lane::{Event, Lock};
use policy::Kind;

/// A shard with its events.
pub(crate) struct ShardEntry {
    pub(crate) shard: Lock<Shard>,
    pub(crate) prefetcher: Prefetcher,
    /// Those of the shard, to read without its lock.
    pub(crate) counters: Arc<LiveCounters>,
    /// Whether blocks should be evicted ahead of need, and compressed.
    pub(crate) compression_due: Arc<core::sync::atomic::AtomicBool>,
    /// Notified when a state changes for which a request may wait: a fetch, a write-through or a
    /// run has ended, or slots were released.
    pub(crate) changed: Event,
    /// Whether the workers may find work here.
    pub(crate) has_work: AtomicBool,
}

impl ShardEntry {
    /// Records and returns whether the workers may find work here. In a section of the shard.
    pub(crate) fn look_for_work(&self, shard: &Shard, gauges: &Gauges) -> bool {
        let found = shard.has_work(gauges);
        self.has_work.store(found, Ordering::SeqCst);
        if found {
            return found;
        }
        // Checked again: the flusher allows early writeback outside of this section, and then notes
        // the work. Either its note comes after this store, or this check sees the permission.
        let found = shard.has_work(gauges);
        if found {
            self.has_work.store(true, Ordering::SeqCst);
        }
        found
    }
}

/// All shards of a volume.
pub(crate) struct Shards {
    entries: Box<[ShardEntry]>,
    pub(crate) spread: Spread,
}

impl Shards {
    /// Makes empty shards of this geometry.
    pub(crate) fn new(
        kind: Kind,
        sampling: &Arc<Sampling>,
        streams: &Arc<Streams>,
        arena: &Arena,
        geometry: &Geometry,
    ) -> Shards {
        assert!(geometry.slice_blocks > 0);
        let shard = |number| {
            Shard::new(kind, sampling.clone(), streams.clone(), arena.clone(), number, geometry)
        };
        let entries = (0..geometry.shards).map(shard).map(|shard| ShardEntry {
            prefetcher: shard.hints(),
            counters: shard.counters.clone(),
            compression_due: shard.compression_due(),
            shard: Lock::new(shard),
            changed: Event::new(),
            has_work: AtomicBool::new(false),
        });
        Shards { entries: entries.collect(), spread: Spread::of(geometry) }
    }

    /// Returns the number of the shard that a block belongs to.
    #[inline]
    pub(crate) fn number_of(&self, block: u64) -> usize {
        self.spread.shard_of(block)
    }

    /// Returns the shard that a block belongs to.
    #[inline]
    pub(crate) fn of(&self, block: u64) -> &ShardEntry {
        &self.entries[self.number_of(block)]
    }

    /// Returns the number of sectors from `sector` on that one decision may cover: up to the
    /// region's border.
    #[inline]
    pub(crate) fn stretch(&self, sector: u64) -> u64 {
        let region = self.spread.region_sectors();
        region - (sector & (region - 1))
    }

    /// Whether the workers may find work in any shard.
    pub(crate) fn have_work(&self) -> bool {
        self.iter().any(|entry| entry.has_work.load(Ordering::SeqCst))
    }

    /// Notes that the workers may find work in every shard.
    pub(crate) fn note_work(&self) {
        self.iter().for_each(|entry| entry.has_work.store(true, Ordering::SeqCst));
    }

    /// Wakes the tasks that wait for a change of any shard.
    pub(crate) fn notify(&self) {
        self.iter().for_each(|entry| entry.changed.notify());
    }
}

impl Deref for Shards {
    type Target = [ShardEntry];

    fn deref(&self) -> &[ShardEntry] {
        &self.entries
    }
}

impl DerefMut for Shards {
    fn deref_mut(&mut self) -> &mut [ShardEntry] {
        &mut self.entries
    }
}
