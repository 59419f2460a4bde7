//! Blocks whose first access was not admitted.
//!
//! A cell remembers the accesses to one piece of 16 neighbouring blocks, with a bit per block, and
//! the next piece that needs the cell replaces it. A cell takes four bytes, and there is one for 32
//! slots of the cache: an eighth of a byte per slot. So about half as many blocks are remembered
//! as the cache has slots where whole pieces are accessed, and 1/32 where single blocks are.

use crate::Hash;
use alloc::boxed::Box;
use alloc::vec;

/// Slots of a cache per cell.
const SLOTS_A_CELL: u32 = 32;
/// Blocks of a piece.
const PIECE_BLOCKS: u64 = 16;

/// A piece: its tag, and a bit for each block that was accessed. Without bits it is free.
#[derive(Clone, Copy, Default)]
struct Cell {
    tag: u16,
    accessed: u16,
}

pub(super) struct FirstAccesses {
    cells: Box<[Cell]>,
    /// Blocks of a piece.
    piece_blocks: u64,
}

impl FirstAccesses {
    /// A memory for a cache of `slots` slots.
    pub(super) fn new(slots: u32) -> FirstAccesses {
        FirstAccesses::with(slots.div_ceil(SLOTS_A_CELL), PIECE_BLOCKS)
    }

    /// A memory for a cache of `slots` slots of a sample of single blocks: as many blocks as the
    /// other one remembers of whole pieces.
    pub(super) fn of_sample(slots: u32) -> FirstAccesses {
        FirstAccesses::with(slots.div_ceil(SLOTS_A_CELL / PIECE_BLOCKS as u32), 1)
    }

    fn with(cells: u32, piece_blocks: u64) -> FirstAccesses {
        let cells = vec![Cell::default(); cells.max(1) as usize].into_boxed_slice();
        FirstAccesses { cells, piece_blocks }
    }

    /// Records an access. Returns true, and forgets the block, if it was accessed before.
    #[inline]
    pub(super) fn returns(&mut self, block: u64) -> bool {
        let hash = Hash::of(block / self.piece_blocks).bits();
        let index = (u128::from(hash) * self.cells.len() as u128) >> 64;
        let bit = 1 << (block % self.piece_blocks);
        // The low bits: the high ones have selected the cell.
        let (cell, tag) = (&mut self.cells[index as usize], hash as u16);
        if cell.tag != tag {
            *cell = Cell { tag, accessed: 0 };
        }
        cell.accessed ^= bit;
        cell.accessed & bit == 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn a_block_returns_once_while_its_piece_is_remembered() {
        let mut accesses = FirstAccesses::new(3200);
        let mut returning = |blocks: core::ops::Range<u64>| -> Vec<u64> {
            blocks.filter(|block| accesses.returns(*block)).collect()
        };
        assert!(returning(0..16).is_empty(), "the first access");
        assert_eq!(returning(4..20), (4..16).collect::<Vec<_>>());
        assert_eq!(returning(4..20), (16..20).collect::<Vec<_>>(), "each once");
        assert!(returning(1000..100_000).is_empty());
        let late = returning(99_200..100_000).len();
        assert!((400..=800).contains(&late), "{late} of 800");
        assert!(returning(1000..2000).len() < 100, "other pieces have their cells");
    }

    #[test]
    fn a_sample_remembers_as_many_blocks_one_by_one() {
        let mut accesses = FirstAccesses::of_sample(2000);
        let strided = |from: u64, to: u64| (from..to).map(|at| at * 64);
        assert_eq!(strided(0, 10_000).filter(|block| accesses.returns(*block)).count(), 0);
        let late = strided(9_700, 10_000).filter(|block| accesses.returns(*block)).count();
        assert!((200..=300).contains(&late), "{late} of 300");
    }
}
