//! What an operator may ask of a volume: other settings, a rescue, giving up what is dirty.

pub(crate) mod discard_dirty;
pub(crate) mod reconfigure;
pub(crate) mod rescue;
