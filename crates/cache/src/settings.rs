//! What is fixed at start, and what may be set.

use block::{CacheSpec, Durability, Fua, Limits, SECTOR, WriteMode};

/// Sizes that are fixed when a volume's cache is made; they decide the arena's layout.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Geometry {
    /// Slots of one block each, in all shards together.
    pub slots: u32,
    /// Shards, each with a lock and an equal part of the slots.
    pub shards: u32,
    /// Blocks in a region. All blocks of a region belong to one shard; requests are cut at its
    /// borders, and no write-out run crosses one. A power of two.
    pub region_blocks: u32,
    /// Pending zeroed ranges that a shard can hold.
    pub extents: u32,
    /// Reads of the backing that a shard can have in flight.
    pub fills: u32,
    /// Blocks in the largest such read, and in the largest write-out run.
    pub run_blocks: u32,
}

impl Default for Geometry {
    /// The smallest cache that makes sense, for one lane.
    fn default() -> Geometry {
        Geometry {
            slots: 64,
            shards: 1,
            region_blocks: 1024,
            extents: 4096,
            fills: 256,
            run_blocks: 256,
        }
    }
}

impl Geometry {
    /// The geometry for this much memory, used by this many lanes.
    pub fn for_memory(bytes: u64, lanes: u32) -> Geometry {
        let slots = (bytes / (u64::from(crate::BLOCK_SECTORS) * SECTOR)).clamp(64, 1 << 30) as u32;
        // Lanes rarely meet in one of four times as many shards; a lane alone needs only one, and
        // then all slots serve all blocks. A shard can address four million slots.
        let wanted = if lanes > 1 { (4 * lanes).next_power_of_two() } else { 1 };
        let wanted = wanted.max(slots.div_ceil(4_000_000));
        let shards = wanted.min(slots / 16).max(1);
        Geometry {
            slots: slots - slots % shards,
            shards,
            extents: 4096 / shards.min(16),
            ..Geometry::default()
        }
    }

    pub(crate) fn slots_per_shard(&self) -> u32 {
        self.slots / self.shards
    }
}

/// The least time that a request may take before the backing counts as hanging: one second.
const STALL_TIME_NS_MIN: u64 = 1_000_000_000;

/// What may differ from volume to volume and be changed later.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// What happens to writes.
    pub write: WriteMode,
    /// What a flush means.
    pub durability: Durability,
    /// C6: the most blocks that may be dirty.
    pub dirty_blocks_max: u32,
    /// C6: how long a dirty block may wait, in nanoseconds.
    pub dirty_age_ns: u64,
    /// C13: how long writing out everything dirty may take as predicted, in nanoseconds; 0: no
    /// limit.
    pub flush_target_ns: u64,
    /// C8: how long errors of the backing are retried, in nanoseconds.
    pub retry_time_ns: u64,
    /// C8: how long a request to the backing may go unanswered before the backing counts as hanging,
    /// in nanoseconds; 0: nobody watches.
    pub stall_time_ns: u64,
    /// Write-outs that each lane has in flight.
    pub crew: u32,
    /// Requests larger than this many blocks go past the cache: such reads are not kept, and such
    /// writes go to the backing directly, unless they meet dirty data.
    pub absorb_blocks_max: u32,
    /// What a block costs to keep after a miss, in nanoseconds; 0: every miss is kept. Measured:
    /// `cargo xtask bench prices`.
    pub fill_cost_ns: u64,
}

impl Settings {
    /// Whether a flush makes durable.
    pub(crate) fn is_durable(&self) -> bool {
        self.durability == Durability::Flush
    }

    /// Whether flushes are answered at once, and only the order is kept.
    #[inline]
    pub(crate) fn is_ordered(&self) -> bool {
        self.durability == Durability::Ordered
    }

    /// The settings that a spec asks for, over a cache of this geometry.
    pub fn from_spec(spec: &CacheSpec, geometry: &Geometry) -> Settings {
        let block_bytes = u64::from(crate::BLOCK_SECTORS) * SECTOR;
        let asked =
            spec.dirty_bytes.map_or(u64::from(geometry.slots / 4), |size| size.0 / block_bytes);
        let most = u64::from(geometry.slots) * 15 / 16;
        Settings {
            write: spec.write,
            durability: spec.durability,
            dirty_blocks_max: asked.min(most).max(2) as u32,
            dirty_age_ns: spec.dirty_age_ms.saturating_mul(1_000_000),
            flush_target_ns: spec.flush_target_ms.saturating_mul(1_000_000),
            retry_time_ns: spec.retry_time_ms.saturating_mul(1_000_000),
            // Also who wants no error to be tried again gives a slow answer its time: disks that
            // spin up or mend a sector take some.
            stall_time_ns: spec.retry_time_ms.saturating_mul(1_000_000).max(STALL_TIME_NS_MIN),
            crew: 16,
            absorb_blocks_max: 32,
            fill_cost_ns: 400,
        }
    }
}

/// The limits that the cache shows above a backing with these.
pub(crate) fn limits_above(below: &Limits) -> Limits {
    // However the backing does it: above the cache, a write is made durable by itself.
    Limits { io_best_bytes: below.io_best_bytes.max(4096), fua: Fua::Native, ..below.clone() }
}
