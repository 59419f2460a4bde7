//! Operations of an operator on a volume: changed settings, the discard of dirty data, the ranking
//! of the cached blocks, and their order after a takeover.

pub(crate) mod discard_dirty;
mod hot_blocks;
pub(crate) mod reconfigure;
mod retained_order;
