//! Sizes that are fixed when a volume's cache is made, and the layout of its arena.

use crate::BLOCK_SECTORS;
use block::SECTOR;
use core::ops::Range;

/// The layout of an arena. Its superblock records it; new arenas have the newest one.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub enum Format {
    /// Headers before ranges; no room beyond the live slots; regions spread over shards by a hash.
    /// Made until November 2026; taken over unchanged.
    Two = 2,
    /// As drawn in `arena/mod.rs`, but pending ranges of zeros are ranges of the volume, so that
    /// ranges of neighbouring regions could only be merged within a shard. Made until November
    /// 2026; taken over unchanged.
    Three = 3,
    /// Pending ranges are ranges of positions (`spread.rs`).
    #[default]
    Four = 4,
}

impl Format {
    /// Returns the format of this number.
    pub(crate) fn of(number: u64) -> Option<Format> {
        [Format::Two, Format::Three, Format::Four]
            .into_iter()
            .find(|format| *format as u64 == number)
    }
}

/// Minimum number of slots of a shard, where there are several: eight regions of 4 MiB.
const SHARD_SLOTS_LEAST: u32 = 8 * 1024;
/// Memory per shard; there are at most `SHARDS` of them as long as these can address all memory.
const SHARD_BYTES: u64 = 128 << 20;
/// Enough that two lanes rarely use the same shard. More shards slow down a single lane: their
/// lists and locks are separate.
const SHARDS: u64 = 8;
/// Maximum number of slots that a shard can address: 15 GiB.
const SHARD_SLOTS_MAX: u32 = 4_000_000;
/// The spare slots of a shard are a multiple of this: their headers then fill whole pages.
const SPARE_STEP: u32 = 256;
const SLOTS_LEAST: u32 = 64;
const SLOTS_MAX: u32 = 1 << 30;

/// Sizes that are fixed when a volume's cache is made; they determine the arena's layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// The layout of the arena.
    pub format: Format,
    /// Live slots of one block each, in all shards together.
    pub slots: u32,
    /// Additional slots for which the arena has room, but no memory: it can be taken over with more
    /// slots.
    pub slots_spare: u32,
    /// Shards, each with a lock and an equal part of the slots. A power of two, except in
    /// [`Format::Two`].
    pub shards: u32,
    /// Blocks in a region. All blocks of a region belong to one shard; requests are split at its
    /// borders, and no writeback run crosses one. A power of two.
    pub region_blocks: u32,
    /// Pending zeroed ranges that a shard can hold.
    pub extents: u32,
    /// Blocks in a shard's largest range of zeros, unless a former format has made a larger one. A
    /// multiple of `region_blocks`.
    pub zeros_blocks: u32,
    /// Reads of the backing that a shard can have in flight.
    pub fills: u32,
    /// Blocks in the largest such read, and in the largest writeback run.
    pub run_blocks: u32,
    /// Blocks that become clean, wait again or are dropped in one section of a shard's lock.
    pub slice_blocks: u32,
}

impl Default for Geometry {
    fn default() -> Geometry {
        Geometry::SMALLEST
    }
}

fn slots_in(bytes: u64) -> u32 {
    let slots = bytes / (u64::from(BLOCK_SECTORS) * SECTOR);
    slots.clamp(SLOTS_LEAST.into(), SLOTS_MAX.into()) as u32
}

impl Geometry {
    /// The smallest useful cache.
    pub const SMALLEST: Geometry = Geometry {
        format: Format::Four,
        slots: SLOTS_LEAST,
        slots_spare: 0,
        shards: 1,
        region_blocks: 1024,
        extents: 4096,
        zeros_blocks: 1 << 20,
        fills: 256,
        run_blocks: 256,
        slice_blocks: 256,
    };

    /// Returns the geometry for this amount of memory. The number of shards depends on the memory
    /// alone: the next process may have another number of threads, and takes over the same arena.
    pub fn for_memory(bytes: u64) -> Geometry {
        let slots = slots_in(bytes);
        let roomy = 1 << (bytes / SHARD_BYTES).clamp(1, SHARDS).ilog2();
        let shards = slots.div_ceil(SHARD_SLOTS_MAX).next_power_of_two().max(roomy);
        Geometry {
            slots: slots - slots % shards,
            shards,
            extents: 4096 / shards.min(16),
            ..Geometry::default()
        }
    }

    /// Returns the geometry with room for the slots of `bytes_max` of memory, as far as its shards
    /// can address them.
    pub fn with_spare(self, bytes_max: u64) -> Geometry {
        let most = (slots_in(bytes_max) / self.shards).min(SHARD_SLOTS_MAX);
        let spare = most.saturating_sub(self.slots_per_shard()) / SPARE_STEP * SPARE_STEP;
        Geometry { slots_spare: spare * self.shards, ..self }
    }

    /// Returns the geometry of the same arena with this number of live slots, or a few less, so
    /// that all shards have the same number. `None`: it has no room for them.
    pub fn resized(&self, slots: u32) -> Option<Geometry> {
        let slots = slots / self.shards * self.shards;
        let slots_spare = self.slots_max().checked_sub(slots)?;
        let fits = slots > 0 && (self.format != Format::Two || slots_spare == 0);
        fits.then_some(Geometry { slots, slots_spare, ..*self })
    }

    /// Whether each of several shards has slots for a few regions. With fewer slots, a shard evicts
    /// a hot region while other shards are empty.
    pub fn has_roomy_shards(&self) -> bool {
        self.shards == 1 || self.slots_per_shard() >= SHARD_SLOTS_LEAST
    }

    pub(crate) fn slots_per_shard(&self) -> u32 {
        self.slots / self.shards
    }

    /// Returns the number of slots, live and spare.
    pub(crate) fn slots_max(&self) -> u32 {
        self.slots + self.slots_spare
    }

    /// Returns the number of a shard's first slot.
    pub(crate) fn first_slot(&self, shard: u32) -> u32 {
        shard * (self.slots_max() / self.shards)
    }

    /// Returns the numbers of the live slots, shard by shard.
    pub(crate) fn live(&self) -> impl Iterator<Item = Range<u32>> + use<> {
        let geometry = *self;
        (0..self.shards).map(move |shard| {
            let first = geometry.first_slot(shard);
            first..first + geometry.slots_per_shard()
        })
    }

    /// Returns the number of every live slot.
    pub(crate) fn live_slots(&self) -> impl Iterator<Item = u32> + use<> {
        self.live().flatten()
    }

    /// Returns the numbers of live slots that are spare in `fewer`, which is the same arena with
    /// less memory.
    pub(crate) fn live_beyond(&self, fewer: &Geometry) -> impl Iterator<Item = u32> + use<> {
        self.live().zip(fewer.live()).flat_map(|(all, stay)| stay.end..all.end)
    }

    /// Returns the numbers of a shard's pending ranges.
    pub(crate) fn ranges_of(&self, shard: u32) -> Range<u32> {
        shard * self.extents..(shard + 1) * self.extents
    }

    /// Returns the maximum number of pending ranges, in all shards together.
    pub(crate) fn ranges_max(&self) -> u32 {
        self.shards * self.extents
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards_are_roomy_until_an_arena_has_shrunk_too_far() {
        let of = |mebibytes: u64| Geometry::for_memory(mebibytes << 20).with_spare(1 << 36);
        for mebibytes in [1, 64, 255, 1024, 100_000] {
            assert!(of(mebibytes).has_roomy_shards(), "{mebibytes} MiB");
        }
        let shards = [1, 255, 256, 511, 512, 1023, 1024, 125_000, 126_000];
        assert_eq!(shards.map(|mebibytes| of(mebibytes).shards), [1, 1, 2, 2, 4, 4, 8, 8, 16]);
        let shrunk = |from: u64, to: u64| of(from).resized(of(to).slots).expect("less");
        assert!(shrunk(100_000, 256).has_roomy_shards());
        assert!(!shrunk(100_000, 255).has_roomy_shards());
        assert!(shrunk(128, 1).has_roomy_shards(), "the only one");
    }

    #[test]
    fn all_memory_is_used_and_shards_share_it_alike() {
        for (mebibytes, shards) in [(300, 2), (40 << 10, 8), (300 << 10, 32)] {
            let bytes = mebibytes << 20;
            // With one slot more than they can share.
            let geometry = Geometry::for_memory(bytes + 4096);
            assert_eq!((geometry.shards, geometry.slots), (shards, slots_in(bytes)));
            assert_eq!(geometry.extents, 4096 / shards.min(16));
        }
    }

    #[test]
    fn spare_places_reach_as_far_as_the_memory_that_there_may_be() {
        let geometry = Geometry::for_memory(40 << 30);
        let roomy = geometry.with_spare(50 << 30);
        let step = 8 * SPARE_STEP;
        assert_eq!(roomy.slots_spare % step, 0);
        let most = slots_in(50 << 30);
        assert!(roomy.slots_max() <= most && most < roomy.slots_max() + step + 8);
        assert_eq!(geometry.with_spare(30 << 30).slots_spare, 0);
        // No shard has more than it can address.
        let vast = geometry.with_spare(1 << 42);
        assert!(vast.slots_max() <= 8 * SHARD_SLOTS_MAX);
        assert!(8 * SHARD_SLOTS_MAX < vast.slots_max() + step);
    }
}
