//! The cache in front of a rig's device.

use crate::halt::Halt;
use block::{CacheSpec, Stack};
use cache::{Arena, Cache, Geometry, Pressure, Settings};
use lane::Lane;
use std::sync::Arc;

/// Time between two decisions of the guard, in nanoseconds.
const GUARD_WINDOW_NS: u64 = 50_000_000;

/// Creates the product's cache. Its memory has as many bytes per sector as the device stores: in
/// virtual time none.
pub(crate) fn cache(spec: &CacheSpec, lane: &Lane, below: Stack) -> Result<Cache, Halt> {
    let bytes = below.limits().bytes();
    // A block may have two versions while an epoch closes; memory beyond that would stay empty.
    let geometry = Geometry::for_memory(spec.memory.0.min(bytes + bytes / 4));
    let settings = Settings::from_spec(spec, &geometry);
    let memory = Arc::new(block::Memory::heap(Arena::bytes(&geometry, below.limits().grain)));
    let shared = cache::Shared::new(below.limits(), geometry, settings, 0, memory);
    let shared = shared.map_err(|error| Halt::Plan(error.to_string()))?;
    shared.set_guard(spec.guard, lane.now());
    if spec.guard {
        lane.spawn(guard(shared.clone(), lane.clone())).expect("a rig's lane has room");
    }
    Ok(Cache::attach(&shared, lane, below))
}

/// Runs the guard until it is switched off, as often as a daemon does, but without any pressure on
/// processors.
async fn guard(shared: Arc<cache::Shared>, lane: Lane) {
    while shared.guard_state(lane.now()).on {
        lane.sleep_until(lane.now() + GUARD_WINDOW_NS).await;
        shared.guard(lane.now(), Pressure::default());
    }
}
