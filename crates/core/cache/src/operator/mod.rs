//! Operations of an operator on a volume: changed settings, the discard of dirty data, the ranking
//! of the cached blocks, their order after a takeover, the policy's state for the next process, and
//! hints about files.

pub(crate) mod discard_dirty;
mod file_hints;
mod hot_blocks;
mod policy_state;
pub(crate) mod reconfigure;
mod retained_order;
