//! The cache in front of a rig's device.

use crate::halt::Halt;
use block::{CacheSpec, Stack};
use cache::{Arena, Cache, Geometry, Settings};
use lane::Lane;
use std::sync::Arc;

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
    Ok(Cache::attach(&shared, lane, below))
}
