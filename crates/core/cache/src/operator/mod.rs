//! What an operator may ask of a volume: other settings, giving up what is dirty.

pub(crate) mod discard_dirty;
pub(crate) mod reconfigure;
