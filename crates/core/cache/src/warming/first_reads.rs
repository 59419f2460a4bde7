//! The blocks that clients have read since the start, in the order of their first read.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use policy::Hash;

/// Blocks in order, each once.
#[derive(Debug)]
pub(super) struct FirstReads {
    order: Vec<u64>,
    most: usize,
    /// A hash table with open addressing, of blocks plus one; 0: empty. It has twice as many cells
    /// as there may be blocks, and takes memory only as far as it is used.
    cells: Box<[u64]>,
}

impl FirstReads {
    /// Makes an empty sequence of at most `most` blocks.
    pub(super) fn new(most: usize) -> FirstReads {
        let cells = vec![0; (2 * most.max(1)).next_power_of_two()].into_boxed_slice();
        FirstReads { order: Vec::with_capacity(most), most, cells }
    }

    /// Adds a block. Returns whether it is new, and there was room for it.
    pub(super) fn insert(&mut self, block: u64) -> bool {
        let last = self.cells.len() - 1;
        let mut at = Hash::of(block).bits() as usize & last;
        while self.cells[at] != 0 {
            if self.cells[at] == block + 1 {
                return false;
            }
            at = (at + 1) & last;
        }
        if self.order.len() == self.most {
            return false;
        }
        self.cells[at] = block + 1;
        self.order.push(block);
        true
    }

    /// The blocks.
    pub(super) fn blocks(&self) -> &[u64] {
        &self.order
    }

    /// Returns the blocks.
    pub(super) fn into_blocks(self) -> Vec<u64> {
        self.order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_block_is_named_once_and_in_order() {
        let mut reads = FirstReads::new(1000);
        let blocks: Vec<u64> = (0..1500).map(|at| at * 7919 % 4093).collect();
        let added: Vec<bool> =
            blocks.iter().chain(&blocks).map(|block| reads.insert(*block)).collect();
        assert!(added[..1000].iter().all(|is_new| *is_new));
        assert!(added[1000..].iter().all(|is_new| !is_new), "it is full, or the block is known");
        assert_eq!(reads.blocks(), &blocks[..1000]);
        assert!(!FirstReads::new(0).insert(1));
    }
}
