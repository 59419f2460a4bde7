//! The discard of dirty data: for an operator who no longer needs a failed volume's unwritten data
//! (C8).
//!
//! The volume has failed, so nothing new begins. First every shard is shut, unless a request of it
//! is in flight: then the discard is refused. No writeback can begin in a shard that is shut. Then
//! the arena records that all dirty data is discarded: after a later kill, recovery finds the
//! record and completes the discard.

use crate::arena::superblock::Condition;
use crate::epochs::{Epochs, IN_FLIGHT};
use crate::handle::Handle;
use crate::planted::{Bug, planted};
use crate::request::Cache;
use crate::shard::shards::ShardEntry;
use block::Result;

impl Cache {
    /// C8: discards everything dirty, so that reads show the backing as it is, and clears the
    /// error. Data that a flush had made durable is on the backing and stays; a request that still
    /// waits for a flush fails. Returns the number of dirty versions of blocks, including those of
    /// zeros.
    ///
    /// # Errors
    /// `Invalid`, and nothing is done: the volume has not failed, or the backing has not answered
    /// all requests yet.
    pub async fn discard_dirty(&self) -> Result<u64> {
        let handle = &*self.0;
        let shared = &handle.shared;
        handle.lane.turn().await;
        shared.epochs.with(Epochs::begin_discard)?;
        handle.shut().await?;
        handle.lane.turn().await;
        let open = shared.epochs.with(|epochs| {
            let open = epochs.after_discard();
            shared.arena.note_condition(Condition::Discarding);
            shared.arena.note_epoch(open);
            open
        });
        let mut blocks = 0;
        for entry in shared.shards.iter() {
            blocks += handle.discard_in_shard(entry, open).await;
        }
        // Nothing is dirty any more, and write-throughs were abandoned with the dirty data.
        shared.gauges.begin_empty_epoch();
        shared.backing.health.give_up();
        handle.lane.turn().await;
        shared.epochs.with(|epochs| {
            epochs.end_discard();
            shared.publish_closed(epochs);
            shared.backing.health.note_well();
        });
        shared.wake_all();
        Ok(blocks)
    }
}

impl Handle {
    /// Shuts every shard, or none.
    async fn shut(&self) -> Result {
        let shared = &self.shared;
        for (number, entry) in shared.shards.iter().enumerate() {
            self.lane.turn().await;
            if entry.shard.with(|shard| shard.shut()) {
                continue;
            }
            for entry in &shared.shards[..number] {
                self.lane.turn().await;
                entry.shard.with(|shard| shard.reopen());
                entry.changed.notify();
            }
            self.lane.turn().await;
            shared.epochs.with(Epochs::cancel_discard);
            return Err(IN_FLIGHT);
        }
        Ok(())
    }

    async fn discard_in_shard(&self, entry: &ShardEntry, open: u64) -> u64 {
        let (gauges, most) = (&self.shared.gauges, self.shared.geometry.slice_blocks);
        self.lane.turn().await;
        let mut blocks = entry.shard.with(|shard| shard.discard_ranges(gauges));
        if planted(Bug::DiscardKeepsVersions) {
            self.lane.turn().await;
            entry.shard.with(|shard| shard.keep_one(gauges, open));
            self.end_discard(entry, open).await;
            return blocks;
        }
        loop {
            self.lane.turn().await;
            let done = entry.shard.with(|shard| shard.discard_blocks(gauges, most));
            blocks += u64::from(done);
            if done < most {
                break;
            }
            self.lane.rest().await;
        }
        if self.shared.arena.has_lost_flush() {
            self.shared.drop_held(entry, self.shared.arena.has_unheld());
        }
        self.end_discard(entry, open).await;
        blocks
    }

    async fn end_discard(&self, entry: &ShardEntry, open: u64) {
        self.lane.turn().await;
        entry.shard.with(|shard| shard.end_discard(open));
        entry.changed.notify();
    }
}
