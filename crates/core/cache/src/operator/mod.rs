//! Operations of an operator on a volume: changed settings, the discard of dirty data, the ranking
//! of the cached blocks.

pub(crate) mod discard_dirty;
mod hot_blocks;
pub(crate) mod reconfigure;
