//! Hints about the files of a volume: the part of one shard. The policy follows them.

use super::Shard;
use crate::arena::{Header, State};
use alloc::boxed::Box;
use alloc::vec::Vec;
use core::ops::Range;
use policy::{CLASSES_MAX, ClassCounts, PolicyHints};

/// A block that memory holds.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct HeldBlock {
    /// Its number.
    pub block: u64,
    /// Whether its newest version is not durable yet.
    pub is_dirty: bool,
}

impl Shard {
    /// Sets the hints, or removes them. Returns the earlier ones, to be dropped outside of the
    /// section.
    pub(crate) fn set_hints(
        &mut self,
        hints: Option<Box<PolicyHints>>,
    ) -> Option<Box<PolicyHints>> {
        self.samplers = self.sampling.samplers();
        self.policy.replace_hints(hints)
    }

    /// The counts of each class, if there are hints.
    pub(crate) fn class_counts(&self) -> Option<&[ClassCounts; CLASSES_MAX]> {
        self.policy.class_counts()
    }

    /// Appends the blocks that these slots hold, each in its newest version.
    pub(crate) fn list_held(&self, slots: Range<u32>, held: &mut Vec<HeldBlock>) {
        let headers = slots.map(|slot| self.header(slot));
        let is_current = |header: &Header| header.state != State::Free && !header.shadowed;
        held.extend(headers.filter(is_current).map(|header| {
            let is_dirty = header.state.is_dirty();
            HeldBlock { block: header.block, is_dirty }
        }));
    }
}
