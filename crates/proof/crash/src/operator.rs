//! The operator's settings in a history, by which the engine is judged.

use crate::setup::EngineSetup;
use block::{Durability, WriteMode};
use cache::Changes;

/// The settings that the book needs: those in force, and those of a change in progress.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Operator {
    dirty_blocks_max: u32,
    dirty_age_ns: u64,
    /// The maximum for this engine.
    possible_blocks: u32,
    under_way: Option<UnderWay>,
}

#[derive(Clone, Copy, Debug)]
struct UnderWay {
    changes: Changes,
    mode: WriteMode,
    durability: Durability,
}

impl Operator {
    /// Returns the settings at the start of a process.
    pub(crate) fn new(engine: &EngineSetup) -> Operator {
        Operator {
            dirty_blocks_max: engine.dirty_blocks_max,
            dirty_age_ns: engine.dirty_age_ns,
            possible_blocks: engine.slots * 3 / 4,
            under_way: None,
        }
    }

    /// Raises the limit: a process may have recovered more than it would admit itself.
    pub(crate) fn holds(&mut self, dirty_blocks: u32) {
        self.dirty_blocks_max = self.dirty_blocks_max.max(dirty_blocks);
    }

    /// Begins a change.
    pub(crate) fn begin_change(
        &mut self,
        changes: &Changes,
        mode: WriteMode,
        durability: Durability,
    ) {
        self.under_way = Some(UnderWay { changes: *changes, mode, durability });
    }

    /// Ends a change; returns the settings in force from now on.
    pub(crate) fn end_change(&mut self, done: bool) -> (WriteMode, Durability) {
        let UnderWay { changes, mode, durability } =
            self.under_way.take().expect("what ends has begun");
        // The longest age until now: blocks that are quiet may have become dirty under that one.
        self.dirty_age_ns = self.dirty_age_ns.max(changes.dirty_age_ns.unwrap_or(0));
        if !done {
            return (mode, durability);
        }
        self.dirty_blocks_max = self.blocks(&changes).unwrap_or(self.dirty_blocks_max);
        (changes.write.unwrap_or(mode), changes.durability.unwrap_or(durability))
    }

    fn blocks(&self, changes: &Changes) -> Option<u32> {
        Some(changes.dirty_blocks_max?.clamp(2, self.possible_blocks.max(2)))
    }

    /// Returns the maximum number of blocks that may be dirty now.
    pub(crate) fn dirty_blocks_max(&self) -> u32 {
        let coming = self.under_way.and_then(|under_way| self.blocks(&under_way.changes));
        self.dirty_blocks_max.max(coming.unwrap_or(0))
    }

    /// Returns the longest time that dirty data may wait.
    pub(crate) fn dirty_age_ns_max(&self) -> u64 {
        let coming = self.under_way.and_then(|under_way| under_way.changes.dirty_age_ns);
        self.dirty_age_ns.max(coming.unwrap_or(0))
    }
}
