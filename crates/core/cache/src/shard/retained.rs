//! Clean blocks that were taken over from an earlier process, until they are used or evicted.

use crate::slots::bits::Bits;

/// The slots of a shard with blocks that were taken over and not used since.
pub(super) struct RetainedBlocks {
    /// None: no block was taken over.
    slots: Option<Bits>,
    /// The number of them.
    left: u32,
}

impl RetainedBlocks {
    pub(super) const NONE: RetainedBlocks = RetainedBlocks { slots: None, left: 0 };

    /// Adds a slot of a shard with this number of slots.
    pub(super) fn insert(&mut self, slot: u32, slots: u32) {
        self.slots.get_or_insert_with(|| Bits::new(slots)).set(slot, true);
        self.left += 1;
    }

    /// Removes a slot. Returns whether it was contained. It costs every hit one comparison.
    #[inline]
    pub(super) fn remove(&mut self, slot: u32) -> bool {
        self.left > 0 && self.remove_one(slot)
    }

    #[inline(never)]
    fn remove_one(&mut self, slot: u32) -> bool {
        let Some(slots) = self.slots.as_mut().filter(|slots| slots.get(slot)) else {
            return false;
        };
        slots.set(slot, false);
        self.left -= 1;
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_slot_is_used_once() {
        let mut retained = RetainedBlocks::NONE;
        assert!(!retained.remove(3));
        retained.insert(3, 8);
        retained.insert(5, 8);
        assert!(!retained.remove(4) && retained.remove(3) && !retained.remove(3));
        assert!(retained.remove(5) && retained.left == 0);
    }
}
