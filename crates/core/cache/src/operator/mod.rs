//! Operations of an operator on a volume: changed settings, the discard of dirty data.

pub(crate) mod discard_dirty;
pub(crate) mod reconfigure;
