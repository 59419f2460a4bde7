//! Hints about the files of a volume, and the blocks that are held of them.

use crate::request::Cache;
use crate::shard::{HELD_POSITIONS_A_SLOT, HeldBlock};
use alloc::sync::Arc;
use alloc::vec::Vec;
use policy::Hints;

/// Positions of held blocks that are visited in one section.
const SLICE: u64 = 256;

impl Cache {
    /// Sets the hints about the volume's files, or removes them. Clients are not delayed: each
    /// shard follows the new hints from its own section on. Hints decide about clean blocks only:
    /// no data depends on them. If several callers set hints in parallel, all shards have those of
    /// one of them in the end.
    pub async fn set_hints(&self, hints: Option<Arc<Hints>>) {
        let (lane, shared) = (&self.0.lane, &self.0.shared);
        let (kind, slots) = (shared.settings().policy, shared.geometry.slots);
        lane.turn().await;
        drop(shared.sampling.set_hints(hints, kind, slots, lane.now()));
        for entry in shared.shards.iter() {
            lane.turn().await;
            let slots = shared.geometry.slots_per_shard();
            // Those that are present now: another caller may have set others meanwhile.
            let hints = shared.sampling.hints_of_shard(slots);
            drop(entry.shard.with(|shard| shard.set_hints(hints)));
        }
    }

    /// Appends blocks that memory holds, also those that it holds compressed: the next ones from a
    /// position on, which is 0 at first. Returns the position from which to continue; None: these
    /// were the last ones. Takes one short section and lets other tasks of the lane run after it,
    /// so a block that moves between two calls may be missed or found twice.
    pub async fn list_held_blocks(&self, from: u64, held: &mut Vec<HeldBlock>) -> Option<u64> {
        let (lane, shared) = (&self.0.lane, &self.0.shared);
        let of_shard = u64::from(shared.geometry.slots_per_shard()) * HELD_POSITIONS_A_SLOT;
        let number = usize::try_from(from / of_shard).ok()?;
        let entry = shared.shards.get(number)?;
        lane.turn().await;
        let next = entry.shard.with(|shard| shard.list_held(from % of_shard, SLICE, held));
        lane.rest().await;
        let shard = number as u64 * of_shard;
        let next = next.map_or(shard + of_shard, |next| shard + next);
        (next < of_shard * shared.shards.len() as u64).then_some(next)
    }
}
