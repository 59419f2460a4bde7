//! Blocks that the engine holds in the same memory, with and without compression.

use super::files::Set;
use crate::cached_pool::{BLOCK, Side};
use crate::metadata::allocated_bytes;
use anyhow::Result;
use block::Memory;
use cache::Settings;
use std::sync::Arc;

/// The set is this much larger than the memory of the cache.
const SET_TIMES: usize = 4;

/// A cache that has read all blocks of a set.
pub(super) struct Held {
    /// Blocks for each slot.
    pub(super) blocks: f64,
    /// Compressed blocks for each slot of the tier.
    pub(super) compressed: f64,
    /// Part of the slots that the tier has.
    pub(super) tier: f64,
    /// Number of blocks.
    pub(super) count: f64,
    /// Blocks for each byte of allocated memory, metadata included.
    density: f64,
}

impl Held {
    pub(super) fn of(set: &Set, settings: Settings) -> Result<Held> {
        let bytes = set.blocks.as_flattened();
        let pool = Memory::heap(bytes.len());
        pool.write(0, bytes);
        Ok(Held::of_pool(&Arc::new(pool), settings)?.0)
    }

    /// Reads all blocks of a pool. Also returns the cache.
    pub(super) fn of_pool(pool: &Arc<Memory>, settings: Settings) -> Result<(Held, Side)> {
        let blocks = (pool.bytes() / BLOCK) as u64;
        let before = allocated_bytes();
        let mut side = Side::new(pool, blocks, (pool.bytes() / SET_TIMES) as u64, settings)?;
        side.read_shuffled(0..blocks);
        let memory = allocated_bytes() - before;
        let counters = side.counters();
        let held = (counters.blocks_held + counters.compressed_blocks) as f64;
        let held = Held {
            blocks: held / side.slots as f64,
            compressed: counters.compressed_blocks as f64 / counters.compressed_slots as f64,
            tier: counters.compressed_slots as f64 / side.slots as f64,
            count: held,
            density: held / memory as f64,
        };
        Ok((held, side))
    }

    /// Returns how many times as many blocks the same memory holds as in another cache.
    pub(super) fn gain(&self, other: &Held) -> f64 {
        self.density / other.density
    }

    /// Describes the tier.
    pub(super) fn tier_words(&self) -> String {
        if self.tier == 0.0 {
            return "an empty tier".to_owned();
        }
        let (percent, blocks) = (self.tier * 100.0, self.compressed);
        format!("tier of {percent:.0} % of the slots with {blocks:.3} blocks in each")
    }

    /// Returns the bytes of memory for each block, beside those of a slot's share.
    pub(super) fn metadata_bytes(&self) -> f64 {
        1.0 / self.density - BLOCK as f64 / self.blocks
    }
}
