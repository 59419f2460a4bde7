//! Hints about the files of a volume, and the blocks that are held of them.

use crate::request::Cache;
use crate::shard::HeldBlock;
use alloc::sync::Arc;
use alloc::vec::Vec;
use policy::Hints;

/// Slots that are visited in one section.
const SLICE: u32 = 256;

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

    /// Calls `visit` with the blocks that memory holds, some at a time, each once; without those
    /// that are held compressed only. Takes short sections, and lets other tasks of the lane run
    /// after each, so a block that moves during the walk may be missed or found twice.
    pub async fn visit_held_blocks(&self, mut visit: impl FnMut(&[HeldBlock])) {
        let (lane, shared) = (&self.0.lane, &self.0.shared);
        let slots = shared.geometry.slots_per_shard();
        let mut held = Vec::with_capacity(SLICE as usize);
        for entry in shared.shards.iter() {
            for from in (0..slots).step_by(SLICE as usize) {
                lane.turn().await;
                held.clear();
                let to = slots.min(from + SLICE);
                entry.shard.with(|shard| shard.list_held(from..to, &mut held));
                visit(&held);
                lane.rest().await;
            }
        }
    }
}
