//! Compression of evicted blocks: a fixed task on every lane that frees slots ahead of need. A miss
//! that finds no free slot evicts a block itself, uncompressed, and waits for no compression.

use crate::compressed::Encoded;
use crate::handle::Handle;
use crate::shard::Batch;
use crate::shard::shards::ShardEntry;
use block::Compress;
use core::sync::atomic::Ordering;
use lane::Cost;
use packing::{Codec, Encoder};

/// Maximum number of blocks that are copied in one section, and wait to be compressed.
const BATCH_BLOCKS_MAX: usize = 8;

/// The task.
pub(crate) async fn run(handle: &Handle) {
    let shared = &handle.shared;
    let block_bytes = shared.arena.slot_bytes();
    let bytes_max = block_bytes * shared.settings.compressed_percent_max as usize / 100;
    // Volumes without compression need none.
    let mut encoder = None;
    let mut batch = Batch::of(BATCH_BLOCKS_MAX, block_bytes);
    // Tiers that this task has opened, or that were taken over, are not closed yet.
    let mut has_opened =
        shared.shards.iter().any(|entry| entry.counters.compressed_slots.get() > 0);
    loop {
        let seen = shared.compression.work.seen();
        if shared.tasks.are_stopping() {
            return;
        }
        let setting = shared.settings.compress();
        let mut worked = false;
        for entry in shared.shards.iter() {
            if setting == Compress::Off {
                worked |= has_opened && handle.shrink_tier(entry).await;
            } else if shared.compression.is_on(setting) {
                let encoder = encoder.get_or_insert_with(|| Encoder::new(block_bytes, bytes_max));
                worked |= handle.compress(entry, codec_of(setting), encoder, &mut batch).await;
            }
        }
        has_opened = setting != Compress::Off || has_opened && worked;
        if !worked {
            shared.compression.work.after(seen).await;
        }
    }
}

/// Returns the codec of a setting.
fn codec_of(setting: Compress) -> Codec {
    if setting == Compress::Zstd { Codec::Zstd } else { Codec::Lz4 }
}

impl Handle {
    /// Wakes a task to compress blocks, if a shard is short of free slots.
    #[inline]
    pub(crate) fn wake_compressor(&self, entry: &ShardEntry) {
        let shared = &self.shared;
        let is_due = entry.compression_due.load(Ordering::Relaxed);
        if is_due && shared.compression.is_on(shared.settings.compress()) {
            shared.compression.work.notify_one();
        }
    }

    /// Evicts and compresses some blocks of a shard. Returns whether there were any.
    async fn compress(
        &self,
        entry: &ShardEntry,
        codec: Codec,
        encoder: &mut Encoder,
        batch: &mut Batch,
    ) -> bool {
        self.lane.turn().await;
        batch.tickets.clear();
        batch.data.clear();
        let evicted = entry.shard.with(|shard| shard.begin_compression(BATCH_BLOCKS_MAX, batch));
        for (ticket, block) in batch.blocks() {
            // Requests go first.
            self.lane.rest().await;
            let begun = self.lane.stopwatch_ns();
            let encoded = encoder.encode(codec, block);
            let encoded = encoded.map(|(encoding, data)| Encoded::new(encoding, data));
            let took_ns = self.lane.stopwatch_ns().saturating_sub(begun);
            self.lane.charge(Cost::Fill, 1);
            entry.shard.with(|shard| shard.store_compressed(ticket, encoded, took_ns));
        }
        evicted > 0
    }

    /// Releases a page of the tier, which is off, and after the last one its tables. Returns
    /// whether there was a page.
    async fn shrink_tier(&self, entry: &ShardEntry) -> bool {
        self.lane.turn().await;
        let shrinks = entry.shard.with(|shard| shard.shrink_tier());
        if shrinks {
            self.lane.rest().await;
        }
        shrinks
    }
}
