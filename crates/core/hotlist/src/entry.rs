//! A block with its heat.

/// The number of heat classes.
pub const CLASSES: u32 = 8;

const CLASS_SHIFT: u32 = 56;

/// A block and its heat class: 0 is the hottest. Entries are ordered by class, then by block.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
pub struct Entry(u64);

impl Entry {
    /// Makes an entry. A class beyond the last one counts as the last.
    ///
    /// # Panics
    /// If the block has more than 56 bits; the cache's blocks have 40.
    pub fn new(block: u64, class: u32) -> Entry {
        assert!(block >> CLASS_SHIFT == 0, "the number of a block");
        Entry(u64::from(class.min(CLASSES - 1)) << CLASS_SHIFT | block)
    }

    /// Its block.
    pub fn block(self) -> u64 {
        self.0 & ((1 << CLASS_SHIFT) - 1)
    }

    /// Its class.
    pub fn class(self) -> u32 {
        (self.0 >> CLASS_SHIFT) as u32
    }

    /// Returns the entry with `2^shift` neighbouring classes made one.
    pub(crate) fn merged(self, shift: u32) -> Entry {
        Entry::new(self.block(), self.class() >> shift)
    }
}
