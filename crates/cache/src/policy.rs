//! Which clean block goes when room is needed.
//!
//! The interface is narrow so that better policies can stand behind it: a policy owns the order of
//! the clean slots (their links) and hears of every admission, hit, and departure. Ghosts and
//! sketches will hear of blocks that are not held by their hash.

use crate::slots::lists::{Links, List};

/// The policy of a shard. An enum, not a trait object: it is asked on every hit.
pub(crate) enum Policy {
    /// Least recently used.
    Lru(List),
}

impl Policy {
    pub(crate) fn lru() -> Policy {
        Policy::Lru(List::EMPTY)
    }

    /// Clean slots held.
    pub(crate) fn held(&self) -> u32 {
        match self {
            Policy::Lru(list) => list.length,
        }
    }

    /// A slot has become clean: it may be chosen from now on.
    pub(crate) fn admit(&mut self, links: &mut Links, slot: u32) {
        match self {
            Policy::Lru(list) => links.push_back(list, slot),
        }
    }

    /// A clean slot was read.
    #[inline]
    pub(crate) fn touch(&mut self, links: &mut Links, slot: u32) {
        match self {
            Policy::Lru(list) => {
                if list.tail != slot {
                    links.remove(list, slot);
                    links.push_back(list, slot);
                }
            }
        }
    }

    /// A clean slot is clean no longer, or gone.
    pub(crate) fn remove(&mut self, links: &mut Links, slot: u32) {
        match self {
            Policy::Lru(list) => links.remove(list, slot),
        }
    }

    /// The slot to give up next.
    pub(crate) fn victim(&self) -> Option<u32> {
        match self {
            Policy::Lru(list) => (list.length > 0).then_some(list.head),
        }
    }
}
