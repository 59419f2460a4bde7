//! The state of the policy's samplers and ghosts, saved for the next process.

use crate::request::Cache;
use crate::sampling::PolicyState;
use alloc::vec::Vec;
use policy::saved::{put_ghosts, put_u32s};

/// Caches of more slots than this save no ghosts: 256 GiB, with 120 MB of ghosts.
const GHOSTS_SLOTS_MAX: u32 = hotlist::BLOCKS_MAX as u32;

impl Cache {
    /// Returns the state of the policy, for [`PolicyState::parse`]. Takes short sections, and lets
    /// other tasks of the lane run after each.
    pub async fn policy_state(&self) -> Vec<u8> {
        let (lane, shared) = (&self.0.lane, &self.0.shared);
        let (kind, slots) = (shared.settings().policy, shared.geometry.slots);
        let mut bytes = Vec::new();
        shared.sampling.tick(lane.now());
        for part in shared.sampling.parts() {
            lane.rest().await;
            shared.sampling.save(part, kind, slots, &mut bytes);
        }
        let shards = if slots > GHOSTS_SLOTS_MAX { 0 } else { shared.geometry.shards };
        put_u32s(&mut bytes, [shards]);
        // Reserved at once: a vector that grows would copy megabytes.
        bytes.reserve(2 * slots as usize);
        for entry in &shared.shards[..shards as usize] {
            lane.rest().await;
            entry.shard.with(|shard| put_ghosts(&mut bytes, shard.ghosts()));
        }
        bytes
    }

    /// Goes on from the state of the policy that an earlier process has saved. Lets other tasks of
    /// the lane run in between.
    pub async fn restore_policy(&self, mut state: PolicyState) {
        let (lane, shared) = (&self.0.lane, &self.0.shared);
        for (entry, ghosts) in shared.shards.iter().zip(core::mem::take(&mut state.ghosts)) {
            lane.rest().await;
            entry.shard.with(|shard| shard.restore_ghosts(&ghosts));
        }
        lane.rest().await;
        shared.sampling.restore(state, lane.now());
    }
}
