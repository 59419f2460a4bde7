//! State that the lanes of a volume share. Each lane attaches its own handles to it, on any thread.

use crate::failure::{Exit, Failure};
use crate::node::{Attached, CacheNode, OpenNode};
use crate::setup_lane::ring_failure;
use block::Stack;
use cache::Shared;
use lane::TASKS_MAX;
use layers::{Counts, RecorderSwitch, Sampler, Top, TopShared, ValveShared};
use ring::Ring;
use rustix::time::{ClockId, clock_gettime};
use std::sync::Arc;

/// The shared halves of a volume: those of its stack, and that of the layer that every volume has
/// on top.
pub struct SharedHalves {
    node: Box<dyn OpenNode>,
    top: Arc<TopShared>,
}

impl SharedHalves {
    pub(crate) fn new(node: Box<dyn OpenNode>) -> SharedHalves {
        SharedHalves { top: TopShared::new(&node.limits()), node }
    }

    pub(crate) fn node(&self) -> &dyn OpenNode {
        &*self.node
    }

    pub(crate) fn valve(&self) -> &Arc<ValveShared> {
        self.top.valve()
    }

    pub(crate) fn counts(&self) -> &Counts {
        self.top.counts()
    }

    /// Returns the switch for a recorder of clients' requests, above the cache.
    pub fn recorder_above(&self) -> &Arc<RecorderSwitch> {
        self.top.recorder()
    }

    /// Returns the switch for a recorder of the cache's requests to its backing. None: there is no
    /// cache.
    pub fn recorder_below(&self) -> Option<&Arc<RecorderSwitch>> {
        self.node.find().map(|cache: &CacheNode| &cache.recorder)
    }

    /// Returns the shared half of the cache, if there is one.
    pub fn cache(&self) -> Option<&Arc<Shared>> {
        self.node.find().map(|cache: &CacheNode| &cache.shared)
    }

    /// Attaches the volume to the ring's lane, and makes the ring hold the fence. Call this on the
    /// ring's thread, before it does any I/O for the volume.
    ///
    /// # Errors
    /// The ring cannot hold the fence of the volume's memory, or its lane already serves
    /// too many volumes.
    pub fn attach(&self, ring: &Ring) -> Result<Attached, Failure> {
        let tasks = self.cache().map_or(0, |shared| shared.tasks_a_lane());
        if ring.lane().tasks() + tasks + TASKS_FREE > TASKS_MAX {
            return Err(Failure::new(Exit::Usage, TOO_MANY));
        }
        let cache: Option<&CacheNode> = self.node.find();
        if let Some(fence) = cache.and_then(|cache| cache.fence.as_ref()) {
            ring.hold(fence).map_err(ring_failure)?;
        }
        let Attached { stack, cache } = self.node.attach(ring);
        let sampler = self.cache().map(sampler);
        let stack = Stack::new(ring.lane(), Top::attach(&self.top, sampler, stack));
        Ok(Attached { stack, cache })
    }
}

/// Maximum number of volumes with a cache in one process: each has at least six writeback workers
/// and six readahead tasks on each lane.
pub const CACHES_MAX: usize = 128;

/// Tasks of a volume on a lane besides its workers and readers: those of its cache and of the
/// daemon.
const TASKS_BESIDE: usize = 16;

/// Returns the maximum number of writeback workers, and of readahead tasks, of each of these caches
/// on a lane, whose tasks they share.
pub(crate) fn members_max(caches: usize) -> u32 {
    let share = (TASKS_MAX - TASKS_FREE) / caches.max(1);
    (share.saturating_sub(TASKS_BESIDE) / 2).max(1) as u32
}

/// Tasks of a lane that are reserved for connections and requests, of any volume.
const TASKS_FREE: usize = 512;

const TOO_MANY: &str =
    "serve: these are too many volumes for one daemon; serve some of them with another one";

/// Returns the time of the monotonic clock.
pub(crate) fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn sampler(shared: &Arc<Shared>) -> Sampler {
    let shared = shared.clone();
    Sampler::new(now_ns, move |ns| shared.hit_sampled(ns))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_caches_of_a_process_have_room_on_a_lane() {
        assert!(members_max(0) == members_max(1) && members_max(1) > 1000);
        for caches in 1..=CACHES_MAX {
            let each = 2 * members_max(caches) as usize + TASKS_BESIDE;
            assert!(each * caches + TASKS_FREE <= TASKS_MAX, "{caches}");
        }
        assert_eq!([40, 72, CACHES_MAX].map(members_max), [36, 16, 6]);
    }
}
