//! The class of each block, as sorted extents.

use super::classes::{CLASSES_MAX, UNKNOWN};
use alloc::vec::Vec;
use core::fmt;
use core::ops::Range;

/// Maximum number of extents: 36 MiB of memory.
pub const EXTENTS_MAX: usize = 4 << 20;

/// Blocks from this number on are in no map: 4 PiB.
pub const BLOCKS_END: u64 = 1 << (64 - FIRST_SHIFT);

/// An extent in a word: `| first block 40 | class 4 | blocks - 1, 20 |`. Longer extents take
/// several words.
const FIRST_SHIFT: u32 = CLASS_SHIFT + CLASSES_MAX.ilog2();
const CLASS_SHIFT: u32 = 20;
const WORD_BLOCKS_MAX: u64 = 1 << CLASS_SHIFT;

/// Words per entry of the index, on average.
const WORDS_AN_ENTRY: usize = 4;

/// Neighbouring blocks of one class.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct ClassExtent {
    /// The first block, in units of 4 KiB.
    pub first: u64,
    /// The number of blocks.
    pub blocks: u32,
    /// The number of the class, below [`CLASSES_MAX`].
    pub class: u8,
}

/// Reason why extents are not a map, with the index of the first wrong one.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapError {
    /// An extent has no blocks.
    Empty(usize),
    /// An extent begins before the end of the one before it.
    Unsorted(usize),
    /// An extent ends behind the last block.
    Beyond(usize),
    /// There is no class of this number.
    Class(usize, u8),
    /// There are more than [`EXTENTS_MAX`] extents.
    TooMany,
}

impl fmt::Display for MapError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MapError::Empty(index) => write!(f, "extent {index} has no blocks"),
            MapError::Unsorted(index) => {
                write!(f, "extent {index} begins before the end of the extent before it")
            }
            MapError::Beyond(index) => write!(f, "extent {index} ends behind the last block"),
            MapError::Class(index, class) => {
                write!(f, "extent {index} has class {class}; the largest is {}", CLASSES_MAX - 1)
            }
            MapError::TooMany => write!(f, "there are more than {EXTENTS_MAX} extents"),
        }
    }
}

impl core::error::Error for MapError {}

/// The class of each block of a volume. Blocks in no extent are of class [`UNKNOWN`]. Takes nine
/// bytes per extent of up to 4 GiB.
#[derive(Default, Debug)]
pub struct ClassMap {
    /// The extents, sorted.
    words: Vec<u64>,
    /// The number of words that begin before each multiple of 2^`stride_log2` blocks: a search
    /// begins between two of these. The last entry is the number of all words.
    index: Vec<u32>,
    stride_log2: u32,
}

#[inline]
fn first_of(word: u64) -> u64 {
    word >> FIRST_SHIFT
}

#[inline]
fn blocks_of(word: u64) -> u64 {
    (word & (WORD_BLOCKS_MAX - 1)) + 1
}

#[inline]
fn class_of(word: u64) -> u8 {
    (word >> CLASS_SHIFT) as u8 & (CLASSES_MAX as u8 - 1)
}

impl ClassMap {
    /// Makes a map of these extents, which are sorted, do not overlap, and end at block `end` or
    /// before it. Neighbouring extents of one class become one extent.
    ///
    /// # Errors
    /// The first extent that is wrong.
    pub fn new(
        extents: impl IntoIterator<Item = ClassExtent>,
        end: u64,
    ) -> Result<ClassMap, MapError> {
        let mut map = ClassMap::default();
        let mut until = 0;
        for (index, extent) in extents.into_iter().enumerate() {
            let ClassExtent { first, blocks, class } = extent;
            let extent_end = first.saturating_add(blocks.into());
            if blocks == 0 {
                return Err(MapError::Empty(index));
            }
            if usize::from(class) >= CLASSES_MAX {
                return Err(MapError::Class(index, class));
            }
            if first < until {
                return Err(MapError::Unsorted(index));
            }
            if extent_end > end.min(BLOCKS_END) {
                return Err(MapError::Beyond(index));
            }
            map.append(&extent, until)?;
            until = extent_end;
        }
        map.words.shrink_to_fit();
        map.make_index(until);
        Ok(map)
    }

    /// Appends an extent. `until`: the end of the last one.
    fn append(&mut self, extent: &ClassExtent, until: u64) -> Result<(), MapError> {
        let (mut first, mut blocks) = (extent.first, u64::from(extent.blocks));
        if let Some(last) = self.words.last_mut()
            && first == until
            && class_of(*last) == extent.class
        {
            let more = blocks.min(WORD_BLOCKS_MAX - blocks_of(*last));
            *last += more;
            (first, blocks) = (first + more, blocks - more);
        }
        while blocks > 0 {
            if self.words.len() == EXTENTS_MAX {
                return Err(MapError::TooMany);
            }
            let part = blocks.min(WORD_BLOCKS_MAX);
            let class = u64::from(extent.class) << CLASS_SHIFT;
            self.words.push(first << FIRST_SHIFT | class | (part - 1));
            (first, blocks) = (first + part, blocks - part);
        }
        Ok(())
    }

    /// Makes the index of the words, which end at block `until`.
    fn make_index(&mut self, until: u64) {
        let entries_max = (self.words.len() / WORDS_AN_ENTRY).max(1) as u64;
        self.stride_log2 = until.div_ceil(entries_max).max(1).next_power_of_two().ilog2();
        let entries = (until >> self.stride_log2) as usize + 1;
        self.index = Vec::with_capacity(entries + 1);
        let mut word = 0;
        for entry in 0..entries as u64 {
            let from = entry << self.stride_log2;
            while self.words.get(word).is_some_and(|word| first_of(*word) < from) {
                word += 1;
            }
            self.index.push(word as u32);
        }
        self.index.push(self.words.len() as u32);
    }

    /// Returns the class of a block. Allocates nothing.
    #[inline]
    pub fn class_of(&self, block: u64) -> u8 {
        let Some(index) = self.words_until(block).checked_sub(1) else { return UNKNOWN };
        let word = self.words[index];
        match block - first_of(word) < blocks_of(word) {
            true => class_of(word),
            false => UNKNOWN,
        }
    }

    /// Returns the number of words that begin at this block or before it.
    #[inline]
    fn words_until(&self, block: u64) -> usize {
        let entry = (block >> self.stride_log2) as usize;
        // A block behind the last entry is behind the last extent.
        let Some(&[from, to]) = self.index.get(entry..).and_then(|rest| rest.first_chunk()) else {
            return self.words.len();
        };
        let words = &self.words[from as usize..to as usize];
        from as usize + words.partition_point(|word| first_of(*word) <= block)
    }

    /// Whether an extent of such a class has one of these blocks. Takes one step for each extent
    /// among them, and allocates nothing.
    pub fn has_class(&self, blocks: Range<u64>, is_such: impl Fn(u8) -> bool) -> bool {
        let from = self.words_until(blocks.start).saturating_sub(1);
        let words = self.words[from..].iter().take_while(|word| first_of(**word) < blocks.end);
        words
            .filter(|word| first_of(**word) + blocks_of(**word) > blocks.start)
            .any(|word| is_such(class_of(*word)))
    }

    /// The extents, in their order, each of up to 4 GiB.
    pub fn extents(&self) -> impl Iterator<Item = ClassExtent> {
        self.words.iter().map(|word| ClassExtent {
            first: first_of(*word),
            blocks: blocks_of(*word) as u32,
            class: class_of(*word),
        })
    }

    /// The number of extents of up to 4 GiB.
    pub fn count(&self) -> usize {
        self.words.len()
    }

    /// The memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.words.capacity() * size_of::<u64>() + self.index.capacity() * size_of::<u32>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;
    use std::vec;

    fn extent(first: u64, blocks: u32, class: u8) -> ClassExtent {
        ClassExtent { first, blocks, class }
    }

    #[test]
    fn each_wrong_extent_is_refused_by_its_number() {
        let refused = |extents: &[ClassExtent]| {
            ClassMap::new(extents.iter().copied(), 100).expect_err("it is wrong")
        };
        let good = extent(10, 5, 1);
        assert_eq!(refused(&[good, extent(15, 0, 1)]), MapError::Empty(1));
        assert_eq!(refused(&[good, extent(14, 1, 1)]), MapError::Unsorted(1));
        assert_eq!(refused(&[good, extent(10, 5, 1)]), MapError::Unsorted(1));
        assert_eq!(refused(&[good, extent(5, 1, 1)]), MapError::Unsorted(1));
        assert_eq!(refused(&[extent(96, 5, 1)]), MapError::Beyond(0));
        assert_eq!(refused(&[extent(u64::MAX, 5, 1)]), MapError::Beyond(0));
        assert_eq!(refused(&[extent(0, 1, 16)]), MapError::Class(0, 16));
        assert!(ClassMap::new([extent(BLOCKS_END - 1, 2, 0)], u64::MAX).is_err());
        assert_eq!(MapError::Class(0, 16).to_string(), "extent 0 has class 16; the largest is 15");
    }

    #[test]
    fn neighbours_of_one_class_are_one_extent_of_nine_bytes() {
        let map = ClassMap::new((0..1000).map(|at| extent(at * 3, 3, 7)), 3000).expect("sorted");
        assert_eq!(map.extents().collect::<Vec<_>>(), [extent(0, 3000, 7)]);
        let map =
            ClassMap::new((0..10_000).map(|at| extent(at * 3, 2, 7)), 30_000).expect("sorted");
        assert_eq!(map.count(), 10_000);
        assert!(map.bytes() <= 90_000, "{}", map.bytes());
        // Long extents take several words.
        let long = [extent(5, u32::MAX, 7), extent(5 + u64::from(u32::MAX), 9, 7)];
        let map = ClassMap::new(long, BLOCKS_END).expect("sorted");
        assert_eq!(map.count(), 4097);
        for at in [0, 1 << 20, (1 << 20) + 1, u64::from(u32::MAX) + 8] {
            assert_eq!(map.class_of(5 + at), 7, "{at}");
        }
        assert_eq!([4, 5 + u64::from(u32::MAX) + 9].map(|block| map.class_of(block)), [0; 2]);
    }

    /// All extents but one are in the same stride of the index.
    #[test]
    fn extents_that_are_close_together_are_found() {
        let close = (0..1000).map(|at| extent(7000 + at * 2, 1, (at % 3) as u8 + 1));
        let far = extent(1 << 39, 5, 4);
        let map = ClassMap::new(close.chain([far]), BLOCKS_END).expect("sorted");
        for at in 0..1000u64 {
            assert_eq!(map.class_of(7000 + at * 2), (at % 3) as u8 + 1);
            assert_eq!(map.class_of(7001 + at * 2), UNKNOWN);
        }
        assert_eq!([(1 << 39) - 1, 1 << 39, (1 << 39) + 5].map(|at| map.class_of(at)), [0, 4, 0]);
    }

    proptest! {
        #[test]
        fn each_block_has_the_class_of_its_extent(
            parts in prop::collection::vec((0..3u64, 1..5u32, 0..16u8), 0..60),
        ) {
            let (mut expected, mut extents) = (vec![], vec![]);
            for (gap, blocks, class) in parts {
                expected.resize(expected.len() + gap as usize, UNKNOWN);
                extents.push(extent(expected.len() as u64, blocks, class));
                expected.resize(expected.len() + blocks as usize, class);
            }
            let map = ClassMap::new(extents, expected.len() as u64).expect("sorted");
            expected.resize(expected.len() + 5, UNKNOWN);
            for (block, class) in expected.iter().enumerate() {
                prop_assert_eq!(map.class_of(block as u64), *class);
            }
            prop_assert_eq!(map.class_of(u64::MAX), UNKNOWN);
            for (from, to) in (0..expected.len()).flat_map(|to| [(to / 2, to), (to, to + 1)]) {
                let has = map.has_class(from as u64..to as u64, |class| class == 7);
                prop_assert_eq!(has, expected[from..to].contains(&7), "{}..{}", from, to);
            }
            prop_assert!(!map.has_class(u64::MAX - 9..u64::MAX, |_| true));
            let again = ClassMap::new(map.extents(), u64::MAX).expect("it was a map");
            prop_assert_eq!(again.words, map.words);
        }
    }
}
