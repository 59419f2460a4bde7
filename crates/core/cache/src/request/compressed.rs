//! Reads from the compressed tier that cannot be answered immediately: their blocks are cached
//! uncompressed again, or they are long.

use crate::blocks::{blocks_of, slices};
use crate::handle::Handle;
use crate::planted::{Bug, planted};
use crate::shard::Fetch;
use crate::shard::shards::ShardEntry;
use block::Buf;
use core::ops::Range;

impl Handle {
    /// Answers a fetch from the compressed tier. Returns false if a block has left it meanwhile:
    /// then nothing of the buffer may be used.
    pub(super) async fn read_compressed(
        &self,
        entry: &ShardEntry,
        fetch: &Fetch,
        into: &Buf,
    ) -> bool {
        let (first, blocks) = blocks_of(&fetch.at);
        let part = into.part(fetch.skip, fetch.at.count);
        for slice in slices(first..first + u64::from(blocks)) {
            if planted(Bug::ReadMovedObject) {
                if !self.read_moved(entry, fetch, &part, slice).await {
                    return false;
                }
                continue;
            }
            self.lane.turn().await;
            let are_there = {
                let mut copies = self.decoder.begin();
                entry.shard.with(|shard| shard.copy_compressed(fetch, slice, &mut copies))
            };
            if !are_there || !self.decoder.decode_into(&fetch.at, &part) {
                return false;
            }
        }
        true
    }

    /// Planted bug: copies blocks in another section than the one that finds them.
    async fn read_moved(
        &self,
        entry: &ShardEntry,
        fetch: &Fetch,
        part: &Buf,
        blocks: Range<u64>,
    ) -> bool {
        let count = blocks.end - blocks.start;
        self.lane.turn().await;
        let places = entry.shard.with(|shard| shard.compressed_slots(blocks));
        // A slow reader.
        for _ in 0..16 {
            self.lane.turn().await;
        }
        {
            let mut copies = self.decoder.begin();
            entry.shard.with(|shard| shard.copy_compressed_from(&places, &mut copies));
        }
        places.len() as u64 == count && self.decoder.decode_into(&fetch.at, part)
    }
}
