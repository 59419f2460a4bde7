//! Maps blocks to small numbers: an open-addressed table that never grows.
//!
//! A cell is `| tag 32 | number + 1, 32 |`, 0 if empty. The tag gives the cell's home, so
//! collisions go to the next cell, and a removal shifts the following cells back (Knuth, The Art of
//! Computer Programming 6.4, algorithm R) without reading any name. There are five cells for three
//! numbers. A block's name is its hash, which is unique, see [`Hash`].

use crate::Hash;
use alloc::vec;
use alloc::vec::Vec;

/// The table, with the name of each number.
pub(crate) struct Table {
    cells: Vec<u64>,
    names: Vec<u64>,
    /// Numbers that were returned; the last one is reused next.
    free: Vec<u32>,
    /// Numbers from here on were never used.
    fresh: u32,
}

const EMPTY: u64 = 0;

fn tag(name: u64) -> u64 {
    name & 0xffff_ffff
}

impl Table {
    /// A table for `capacity` blocks. Nothing else here allocates.
    pub(crate) fn new(capacity: u32) -> Table {
        let cells = capacity as usize + capacity as usize * 2 / 3 + 2;
        let free = Vec::with_capacity(capacity as usize);
        Table { cells: vec![EMPTY; cells], names: vec![0; capacity as usize], free, fresh: 0 }
    }

    #[inline]
    fn home(&self, tag: u64) -> usize {
        ((tag * self.cells.len() as u64) >> 32) as usize
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        if at + 1 == self.cells.len() { 0 } else { at + 1 }
    }

    /// Number of cells from `from` to `at`.
    #[inline]
    fn distance(&self, from: usize, at: usize) -> usize {
        if at >= from { at - from } else { at + self.cells.len() - from }
    }

    /// Returns the number of a block.
    #[inline]
    pub(crate) fn find(&self, hash: Hash) -> Option<u32> {
        let tag = tag(hash.bits());
        let mut at = self.home(tag);
        loop {
            let cell = self.cells[at];
            if cell == EMPTY {
                return None;
            }
            let number = (cell as u32).wrapping_sub(1);
            if cell >> 32 == tag && self.names[number as usize] == hash.bits() {
                return Some(number);
            }
            at = self.next(at);
        }
    }

    /// Returns the hash of the block that has this number, or had it last.
    #[inline]
    pub(crate) fn hash(&self, number: u32) -> Hash {
        Hash::from_bits(self.names[number as usize])
    }

    /// Total room, in blocks.
    #[cfg(test)]
    pub(crate) fn capacity(&self) -> u32 {
        self.names.len() as u32
    }

    /// Free room, in blocks.
    #[inline]
    pub(crate) fn room(&self) -> u32 {
        self.names.len() as u32 - self.fresh + self.free.len() as u32
    }

    /// Assigns a number to a block that has none. There must be room.
    pub(crate) fn insert(&mut self, hash: Hash) -> u32 {
        let number = self.free.pop().unwrap_or_else(|| {
            self.fresh += 1;
            self.fresh - 1
        });
        self.names[number as usize] = hash.bits();
        let tag = tag(hash.bits());
        let mut at = self.home(tag);
        while self.cells[at] != EMPTY {
            at = self.next(at);
        }
        self.cells[at] = tag << 32 | (u64::from(number) + 1);
        number
    }

    /// Removes a block by its number.
    pub(crate) fn remove(&mut self, number: u32) {
        let tag = tag(self.names[number as usize]);
        let cell = tag << 32 | (u64::from(number) + 1);
        let mut hole = self.home(tag);
        while self.cells[hole] != cell {
            assert!(self.cells[hole] != EMPTY, "a number that is not in the table");
            hole = self.next(hole);
        }
        let mut at = hole;
        loop {
            at = self.next(at);
            let cell = self.cells[at];
            if cell == EMPTY {
                break;
            }
            // It may move back into the hole unless its home is after the hole.
            if self.distance(self.home(cell >> 32), at) >= self.distance(hole, at) {
                self.cells[hole] = cell;
                hole = at;
            }
        }
        self.cells[hole] = EMPTY;
        self.free.push(number);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeMap;

    proptest! {
        #[test]
        fn it_agrees_with_a_map_under_any_inserts_and_removals(
            steps in proptest::collection::vec((0..40u64, any::<bool>()), 0..400),
        ) {
            let mut table = Table::new(24);
            let mut map: BTreeMap<u64, u32> = BTreeMap::new();
            for (block, insert) in steps {
                let number = map.get(&block).copied();
                prop_assert_eq!(table.find(Hash::of(block)), number);
                match number {
                    Some(number) if !insert => {
                        table.remove(number);
                        map.remove(&block);
                    }
                    None if insert && table.room() > 0 => {
                        let number = table.insert(Hash::of(block));
                        prop_assert!(number < 24 && map.values().all(|&other| other != number));
                        prop_assert_eq!(table.hash(number), Hash::of(block));
                        map.insert(block, number);
                    }
                    _ => {}
                }
                prop_assert_eq!(table.room() as usize, 24 - map.len());
            }
            for block in 0..40 {
                prop_assert_eq!(table.find(Hash::of(block)), map.get(&block).copied());
            }
        }
    }

    #[test]
    fn names_with_the_same_tag_are_distinguished() {
        let (one, other) = (Hash::from_bits(7), Hash::from_bits(7 | 1 << 40));
        let mut table = Table::new(3);
        let first = table.insert(one);
        assert_eq!((table.find(one), table.find(other)), (Some(first), None));
        let second = table.insert(other);
        table.remove(first);
        assert_eq!((table.find(one), table.find(other)), (None, Some(second)));
    }
}
