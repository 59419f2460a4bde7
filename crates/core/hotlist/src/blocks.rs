//! The blocks of a list, decoded one by one.

use crate::header::read_number;
use alloc::vec::Vec;

/// The blocks of a list: the hottest class first, each in ascending order. It decodes them when
/// they are taken, so that a list takes no more memory than its file.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Blocks {
    counts: Vec<u32>,
    class: usize,
    /// Blocks of the class that were taken.
    taken: u32,
    coded: Vec<u8>,
    at: usize,
    /// The smallest number that the next block of the class may have.
    least: u64,
}

impl Blocks {
    pub(crate) fn new(counts: Vec<u32>, coded: Vec<u8>) -> Blocks {
        Blocks { counts, class: 0, taken: 0, coded, at: 0, least: 0 }
    }

    /// The number of blocks that the classes announce.
    pub(crate) fn announced(&self) -> u64 {
        self.counts.iter().map(|&count| u64::from(count)).sum()
    }

    /// Goes back to the first block.
    pub(crate) fn rewind(&mut self) {
        (self.class, self.taken, self.at, self.least) = (0, 0, 0, 0);
    }

    /// Whether all bytes were read.
    pub(crate) fn is_at_end(&self) -> bool {
        self.at == self.coded.len()
    }

    /// Reads a number. None: the bytes end, or it has more than 64 bits.
    fn number(&mut self) -> Option<u64> {
        read_number(&self.coded, &mut self.at)
    }
}

impl Iterator for Blocks {
    type Item = u64;

    #[inline]
    fn next(&mut self) -> Option<u64> {
        while self.taken == *self.counts.get(self.class)? {
            (self.class, self.taken, self.least) = (self.class + 1, 0, 0);
        }
        let block = self.number().and_then(|number| number.checked_add(self.least));
        let after = block.and_then(|block| block.checked_add(1));
        let (Some(block), Some(after)) = (block, after) else {
            // Damaged: the blocks end here.
            self.class = self.counts.len();
            return None;
        };
        self.taken += 1;
        self.least = after;
        Some(block)
    }
}
