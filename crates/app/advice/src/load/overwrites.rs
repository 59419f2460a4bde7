//! Writes that a later write replaces before the next flush.

use simulator::{NUMBER_BITS, OfBlocks, Rate};
use std::collections::HashMap;
use trace::Access;

/// Time after which a write is written back without a flush: half of the default of `dirty_age`.
const WRITEBACK_NS: u64 = 2_500_000_000;
/// Maximum number of blocks that are remembered between flushes.
const WRITTEN_MAX: usize = 1 << 20;
const BLOCK_BYTES: u64 = simulator::BLOCK_BYTES;

/// Blocks of a sample that were written since the last flush.
pub(super) struct Overwrites {
    rate: Rate,
    /// By the number of the block, with the device above it.
    written: HashMap<u64, Written, OfBlocks>,
    /// Replaced blocks of all writes that count.
    blocks: u64,
    /// The same of those writes for which a program waited.
    waited_blocks: u64,
}

/// The last write of a block.
#[derive(Clone, Copy)]
struct Written {
    time_ns: u64,
    /// Whether it belongs to the load that is judged.
    counts: bool,
    is_waited: bool,
}

impl Overwrites {
    pub(super) fn new(rate: Rate) -> Overwrites {
        Overwrites { rate, written: HashMap::default(), blocks: 0, waited_blocks: 0 }
    }

    /// Returns the number of replaced blocks of all writes that count.
    pub(super) fn blocks(&self) -> u64 {
        self.rate.extrapolated(self.blocks)
    }

    /// Returns the same of those writes for which a program waited.
    pub(super) fn waited_blocks(&self) -> u64 {
        self.rate.extrapolated(self.waited_blocks)
    }

    pub(super) fn write(&mut self, access: &Access, counts: bool, is_waited: bool) {
        if access.bytes == 0 {
            return;
        }
        if self.written.len() >= WRITTEN_MAX {
            self.written.clear();
        }
        let written = Written { time_ns: access.time_ns, counts, is_waited };
        let device = u64::from(access.device) << NUMBER_BITS;
        let last = (access.first_byte + access.bytes - 1) / BLOCK_BYTES;
        let blocks = (access.first_byte / BLOCK_BYTES..=last).map(|block| device | block);
        for block in blocks.filter(|block| self.rate.takes(*block)) {
            let before = self.written.insert(block, written);
            let is_soon = |it: &Written| {
                access.time_ns.saturating_sub(it.time_ns) < WRITEBACK_NS && it.counts
            };
            if let Some(before) = before.filter(is_soon) {
                self.blocks += 1;
                self.waited_blocks += u64::from(before.is_waited);
            }
        }
    }

    pub(super) fn flush(&mut self) {
        self.written.clear();
    }
}
