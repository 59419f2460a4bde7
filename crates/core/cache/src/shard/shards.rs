//! The shards of a volume, and what is waited for beside each.

use crate::arena::Arena;
use crate::dirty::gauges::Gauges;
use crate::geometry::Geometry;
use crate::sampling::Sampling;
use crate::shard::{Nearer, Shard};
use crate::spread::Spread;
use crate::streams::Streams;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::ops::{Deref, DerefMut};
use lane::atomic::{AtomicBool, Ordering};
use lane::{Event, Lock};
use policy::Kind;

/// A shard with what is waited for beside it.
pub(crate) struct ShardEntry {
    pub(crate) shard: Lock<Shard>,
    pub(crate) nearer: Nearer,
    /// Something that a request may wait for has changed: a fetch, a pass, a run has ended, slots
    /// were released.
    pub(crate) changed: Event,
    /// Whether the workers may find work here.
    pub(crate) has_work: AtomicBool,
}

impl ShardEntry {
    /// Notes whether the workers may find work here, and says so. In a section of the shard.
    pub(crate) fn look_for_work(&self, shard: &Shard, gauges: &Gauges) -> bool {
        let found = shard.has_work(gauges);
        self.has_work.store(found, Ordering::SeqCst);
        if found {
            return found;
        }
        // Once more: the flusher lets the workers write early outside of this section, and notes
        // the work then. Either its note is behind ours, or we see what it allows.
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
    /// Shards of this geometry that hold nothing.
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
            nearer: shard.hints(),
            shard: Lock::new(shard),
            changed: Event::new(),
            has_work: AtomicBool::new(false),
        });
        Shards { entries: entries.collect(), spread: Spread::of(geometry) }
    }

    /// The number of the shard that a block belongs to.
    #[inline]
    pub(crate) fn number_of(&self, block: u64) -> usize {
        self.spread.shard_of(block)
    }

    /// The shard that a block belongs to.
    #[inline]
    pub(crate) fn of(&self, block: u64) -> &ShardEntry {
        &self.entries[self.number_of(block)]
    }

    /// Sectors from `sector` on that one decision may cover: up to the region's border.
    #[inline]
    pub(crate) fn stretch(&self, sector: u64) -> u64 {
        let region = self.spread.region_sectors();
        region - (sector & (region - 1))
    }

    /// Whether the workers may find work anywhere.
    pub(crate) fn have_work(&self) -> bool {
        self.iter().any(|entry| entry.has_work.load(Ordering::SeqCst))
    }

    /// The workers may find work everywhere.
    pub(crate) fn note_work(&self) {
        self.iter().for_each(|entry| entry.has_work.store(true, Ordering::SeqCst));
    }

    /// Wakes what waits for a change of any shard.
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
