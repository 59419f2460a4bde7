//! Blocks that the engine holds in the same memory, with and without compression.

use super::files::Set;
use crate::cached_pool::{BLOCK, Side};
use crate::metadata::allocated_bytes;
use anyhow::{Context, Result};
use block::{Compress, Memory};
use std::sync::Arc;

/// The set is this much larger than the memory of the cache.
const SET_TIMES: usize = 4;

/// A cache that has read all blocks of a set.
pub(super) struct Held {
    /// Blocks for each slot.
    pub(super) blocks: f64,
    /// Compressed blocks for each slot of the tier.
    pub(super) compressed: f64,
    /// Part of the slots that the tier has.
    pub(super) tier: f64,
    /// Blocks for each byte of memory, metadata included: of allocated memory, and of memory that
    /// the process has by the kernel's count.
    density: f64,
    resident_density: f64,
}

/// Returns the bytes of memory that this process has (its RSS).
fn resident_bytes() -> Result<u64> {
    let text = std::fs::read_to_string("/proc/self/smaps_rollup")?;
    let line = text.lines().find_map(|line| line.strip_prefix("Rss:")).context("Rss")?;
    let kib: u64 = line.trim().trim_end_matches(" kB").parse()?;
    Ok(kib << 10)
}

impl Held {
    pub(super) fn of(set: &Set, compress: Compress) -> Result<Held> {
        let bytes = set.blocks.as_flattened();
        let pool = Memory::heap(bytes.len());
        pool.write(0, bytes);
        let (pool, blocks) = (Arc::new(pool), set.blocks.len() as u64);
        let (before, resident_before) = (allocated_bytes(), resident_bytes()?);
        let mut side = Side::new(&pool, blocks, (bytes.len() / SET_TIMES) as u64, compress)?;
        side.read_shuffled(0..blocks);
        let memory = allocated_bytes() - before;
        let resident = resident_bytes()?.saturating_sub(resident_before).max(1);
        let counters = side.counters();
        let held = (counters.blocks_held + counters.compressed_blocks) as f64;
        Ok(Held {
            blocks: held / side.slots as f64,
            compressed: counters.compressed_blocks as f64 / counters.compressed_slots as f64,
            tier: counters.compressed_slots as f64 / side.slots as f64,
            density: held / memory as f64,
            resident_density: held / resident as f64,
        })
    }

    /// Returns how many times as many blocks the same memory holds as in another cache.
    pub(super) fn gain(&self, other: &Held) -> f64 {
        self.density / other.density
    }

    /// Returns the same by the memory that the process has.
    pub(super) fn resident_gain(&self, other: &Held) -> f64 {
        self.resident_density / other.resident_density
    }

    /// Returns the bytes of memory for each block, beside those of a slot's share.
    pub(super) fn metadata_bytes(&self) -> f64 {
        1.0 / self.density - BLOCK as f64 / self.blocks
    }
}
