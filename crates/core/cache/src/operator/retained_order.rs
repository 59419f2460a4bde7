//! The order of the blocks that were taken over, from the list of hot blocks.

use crate::request::Cache;
use alloc::vec::Vec;
use hotlist::HotList;

/// Blocks between two pauses: a request waits for these at most.
const SLICE: usize = 16;

impl Cache {
    /// Gives the clean blocks that were taken over from an earlier process the order of its list:
    /// the policy has them in the order of their slots, and would evict hot ones as soon as cold
    /// ones. Blocks that the list does not name become the coldest. Call it at the start: blocks
    /// that were used before in this life are ordered by the list, too. Lets other tasks of the
    /// lane run in between. Does nothing if no block was taken over.
    pub async fn order_retained(&self, list: &HotList) {
        let (lane, shared) = (&self.0.lane, &self.0.shared);
        if shared.counters(lane.now()).blocks_retained == 0 {
            return;
        }
        let hottest_first: Vec<u64> = list.clone().into_blocks().collect();
        for (number, &block) in hottest_first.iter().rev().enumerate() {
            if number % SLICE == 0 {
                lane.rest().await;
            }
            lane.turn().await;
            shared.shards.of(block).shard.with(|shard| shard.renew(block));
        }
    }
}
