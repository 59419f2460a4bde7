//! A set of numbers with a fast search for the next member, however empty the set is.

use alloc::vec;
use alloc::vec::Vec;

/// Bits in levels: a bit of level n + 1 shows whether a word of level n has any bit. A search reads
/// one or two words of each level, six levels for 2^32 numbers.
pub(crate) struct Bits {
    levels: Vec<Vec<u64>>,
    count: u32,
}

impl Bits {
    /// An empty set of numbers below `size`.
    pub(crate) fn new(size: u32) -> Bits {
        let mut levels = Vec::new();
        let mut words = (size as usize).div_ceil(64).max(1);
        loop {
            levels.push(vec![0; words]);
            if words == 1 {
                break;
            }
            words = words.div_ceil(64);
        }
        Bits { levels, count: 0 }
    }

    /// Number of members.
    pub(crate) fn count(&self) -> u32 {
        self.count
    }

    pub(crate) fn has(&self, number: u32) -> bool {
        self.levels[0][number as usize / 64] >> (number % 64) & 1 == 1
    }

    /// Adds a number. Returns false if it was already there.
    pub(crate) fn set(&mut self, number: u32) -> bool {
        if self.has(number) {
            return false;
        }
        self.count += 1;
        let mut at = number as usize;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            let was_empty = *word == 0;
            *word |= 1 << (at % 64);
            if !was_empty {
                break;
            }
            at /= 64;
        }
        true
    }

    /// Removes a number. Returns false if it was not there.
    pub(crate) fn clear(&mut self, number: u32) -> bool {
        if !self.has(number) {
            return false;
        }
        self.count -= 1;
        let mut at = number as usize;
        for level in &mut self.levels {
            let word = &mut level[at / 64];
            *word &= !(1 << (at % 64));
            if *word != 0 {
                break;
            }
            at /= 64;
        }
        true
    }

    /// Returns the smallest member that is not below `from`.
    pub(crate) fn next(&self, from: u32) -> Option<u32> {
        let mut index = from as usize;
        for level in 0..self.levels.len() {
            let word = index / 64;
            let masked = self.levels[level].get(word)? & (!0 << (index % 64));
            if masked != 0 {
                let mut at = word * 64 + masked.trailing_zeros() as usize;
                for below in self.levels[..level].iter().rev() {
                    at = at * 64 + below[at].trailing_zeros() as usize;
                }
                return Some(at as u32);
            }
            index = word + 1;
        }
        None
    }

    /// Returns how many consecutive numbers from `first` on are in the set, at most `most`.
    pub(crate) fn run(&self, first: u32, most: u32) -> u32 {
        let size = self.levels[0].len() as u64 * 64;
        let most = u64::from(most).min(size - u64::from(first)) as u32;
        (0..most).find(|ahead| !self.has(first + ahead)).unwrap_or(most)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::collections::BTreeSet;
    use lane::Random;

    #[test]
    fn it_agrees_with_a_tree() {
        let mut random = Random::new(3);
        for size in [1u32, 63, 64, 65, 4096, 4097, 300_000] {
            let (mut bits, mut tree) = (Bits::new(size), BTreeSet::new());
            for _ in 0..3000 {
                let number = random.below(u64::from(size)) as u32;
                if random.one_in(2) {
                    assert_eq!(bits.set(number), tree.insert(number));
                } else {
                    assert_eq!(bits.clear(number), tree.remove(&number));
                }
                let from = random.below(u64::from(size)) as u32;
                assert_eq!(bits.next(from), tree.range(from..).next().copied());
                assert_eq!(bits.count() as usize, tree.len());
            }
        }
    }

    #[test]
    fn a_run_ends_at_a_gap_or_at_the_end() {
        let mut bits = Bits::new(64);
        (60..64).chain(3..7).for_each(|number| assert!(bits.set(number)));
        assert_eq!((bits.run(3, 9), bits.run(3, 2), bits.run(60, 9), bits.run(0, 9)), (4, 2, 4, 0));
    }
}
