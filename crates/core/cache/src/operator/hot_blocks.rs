//! The blocks to name in the list of hot blocks.

use crate::BLOCK_SECTORS;
use crate::request::Cache;
use crate::shard::ranking::Walk;
use alloc::vec::Vec;
use hotlist::Entry;

impl Cache {
    /// Returns the whole blocks of the volume that are cached, each with its heat among the blocks
    /// of its shard. Compressed blocks are among them if they were read since they were compressed.
    /// A part of a block at the volume's end is left out: a list names whole blocks. Takes short
    /// sections, and lets other tasks of the lane run after each.
    pub async fn hot_blocks(&self) -> Vec<Entry> {
        let (lane, shared) = (&self.0.lane, &self.0.shared);
        let slots = shared.geometry.slots_per_shard();
        let end = shared.limits.sectors / u64::from(BLOCK_SECTORS);
        // Reserved at once: a vector that grows would copy megabytes.
        let compressed = shared.shards.iter().map(|entry| entry.counters.compressed_blocks.get());
        let most = u64::from(shared.geometry.slots) + compressed.sum::<u64>();
        let mut ranked = Vec::with_capacity(most as usize);
        for entry in shared.shards.iter() {
            let mut walk = Walk::new(slots, end);
            loop {
                lane.turn().await;
                if !entry.shard.with(|shard| shard.rank(&mut walk, &mut ranked)) {
                    break;
                }
                lane.rest().await;
            }
        }
        ranked
    }
}
