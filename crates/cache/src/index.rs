//! From blocks to slots: an open-addressed table of 4-byte cells.
//!
//! A cell is `| tag 8 | slot + 1 24 |`, 0 if empty. Collisions go to the next cell; a removal shifts
//! the cells behind it back (Knuth, The Art of Computer Programming 6.4, algorithm R), so that there
//! are no tombstones and no rebuild. The table has a cell and a third for each slot: 5.3 bytes. A
//! block may stand in it twice, while an older version of it is still to be written out.

use alloc::boxed::Box;
use alloc::vec;

/// The most slots that an index can name.
pub(crate) const SLOTS_MAX: u32 = (1 << 24) - 2;

/// A block's place in the table.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) struct Hash(u64);

impl Hash {
    #[inline]
    pub(crate) fn of(block: u64) -> Hash {
        let mixed = (block ^ block >> 32).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Hash(mixed ^ mixed >> 29)
    }

    fn tag(self) -> u32 {
        (self.0 >> 56) as u32
    }

    /// A sixteenth of all blocks, always the same ones.
    pub(crate) fn is_sampled(self) -> bool {
        self.0 >> 40 & 15 == 0
    }
}

/// The table.
pub(crate) struct Index {
    cells: Box<[u32]>,
}

impl Index {
    pub(crate) fn new(slots: u32) -> Index {
        assert!(slots <= SLOTS_MAX);
        let cells = slots as usize + slots as usize / 3 + 2;
        Index {
            cells: vec![0; cells].into_boxed_slice(),
        }
    }

    pub(crate) fn clear(&mut self) {
        self.cells.fill(0);
    }

    #[inline]
    fn home(&self, hash: Hash) -> usize {
        (((hash.0 & 0xffff_ffff) * self.cells.len() as u64) >> 32) as usize
    }

    #[inline]
    fn next(&self, cell: usize) -> usize {
        if cell + 1 == self.cells.len() {
            0
        } else {
            cell + 1
        }
    }

    /// The first slot under this hash that `is_it`.
    #[inline]
    pub(crate) fn find(&self, hash: Hash, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        let mut cell = self.home(hash);
        loop {
            let value = self.cells[cell];
            if value == 0 {
                return None;
            }
            let slot = (value & 0xff_ffff) - 1;
            if value >> 24 == hash.tag() && is_it(slot) {
                return Some(slot);
            }
            cell = self.next(cell);
        }
    }

    /// Brings the place of a hash nearer.
    #[inline]
    pub(crate) fn prefetch(&self, hash: Hash) {
        block::prefetch(&self.cells[self.home(hash)]);
    }

    /// The first slot that may be under this hash, by its tag alone: for prefetching.
    #[inline]
    pub(crate) fn hint(&self, hash: Hash) -> Option<u32> {
        self.find(hash, |_| true)
    }

    pub(crate) fn insert(&mut self, hash: Hash, slot: u32) {
        let mut cell = self.home(hash);
        while self.cells[cell] != 0 {
            cell = self.next(cell);
        }
        self.cells[cell] = hash.tag() << 24 | (slot + 1);
    }

    fn cell_of(&self, hash: Hash, slot: u32) -> usize {
        let value = hash.tag() << 24 | (slot + 1);
        let mut cell = self.home(hash);
        while self.cells[cell] != value {
            assert!(self.cells[cell] != 0, "a slot that is not in the index");
            cell = self.next(cell);
        }
        cell
    }

    /// Removes a slot; `hash_of` tells the hash of any other slot in the table.
    pub(crate) fn remove(&mut self, hash: Hash, slot: u32, hash_of: impl Fn(u32) -> Hash) {
        let length = self.cells.len();
        let mut hole = self.cell_of(hash, slot);
        let mut cell = hole;
        loop {
            cell = self.next(cell);
            let value = self.cells[cell];
            if value == 0 {
                break;
            }
            let home = self.home(hash_of((value & 0xff_ffff) - 1));
            // It may move back into the hole unless its home lies behind the hole.
            let behind = (cell + length - home) % length;
            if behind >= (cell + length - hole) % length {
                self.cells[hole] = value;
                hole = cell;
            }
        }
        self.cells[hole] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn it_agrees_with_a_list_under_random_inserts_and_removals() {
        let mut random = lane::Random::new(1);
        for _ in 0..50 {
            let slots = 24u64;
            let mut index = Index::new(slots as u32);
            // slot -> block
            let mut model: Vec<Option<u64>> = alloc::vec![None; slots as usize];
            for _ in 0..400 {
                let slot = random.below(slots) as usize;
                if let Some(block) = model[slot] {
                    let blocks = model.clone();
                    index.remove(Hash::of(block), slot as u32, |other| {
                        Hash::of(blocks[other as usize].expect("is in the table"))
                    });
                    model[slot] = None;
                } else {
                    let block = random.below(40);
                    index.insert(Hash::of(block), slot as u32);
                    model[slot] = Some(block);
                }
                for block in 0..40 {
                    let is_it = |slot: u32| model[slot as usize] == Some(block);
                    let found = index.find(Hash::of(block), is_it);
                    let expected = model.contains(&Some(block));
                    assert_eq!(found.is_some(), expected, "block {block}");
                }
            }
        }
    }
}
