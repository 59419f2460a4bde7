//! The class of each block, as sorted extents.

use super::classes::{CLASSES_MAX, UNKNOWN};
use alloc::vec::Vec;
use core::fmt;

/// Maximum number of extents: 48 MiB of memory.
pub const EXTENTS_MAX: usize = 4 << 20;

/// Blocks from this number on are in no map: it leaves a byte of a word for the class.
pub const BLOCKS_END: u64 = 1 << 56;

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

/// The class of each block of a volume. Blocks in no extent are of class [`UNKNOWN`]. Takes 12
/// bytes per extent.
#[derive(Default, Debug)]
pub struct ClassMap {
    /// `| first block 56 | class 8 |` of each extent, sorted.
    starts: Vec<u64>,
    /// The number of blocks of each extent.
    lengths: Vec<u32>,
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
        map.starts.shrink_to_fit();
        map.lengths.shrink_to_fit();
        Ok(map)
    }

    /// Appends an extent. `until`: the end of the last one.
    fn append(&mut self, extent: &ClassExtent, until: u64) -> Result<(), MapError> {
        let continues = extent.first == until
            && self.starts.last().is_some_and(|start| *start as u8 == extent.class);
        if continues
            && let Some(length) = self.lengths.last_mut()
            && let Some(sum) = length.checked_add(extent.blocks)
        {
            *length = sum;
            return Ok(());
        }
        if self.starts.len() == EXTENTS_MAX {
            return Err(MapError::TooMany);
        }
        self.starts.push(extent.first << 8 | u64::from(extent.class));
        self.lengths.push(extent.blocks);
        Ok(())
    }

    /// Returns the class of a block. Allocates nothing.
    #[inline]
    pub fn class_of(&self, block: u64) -> u8 {
        let behind = self.starts.partition_point(|start| start >> 8 <= block);
        let Some(index) = behind.checked_sub(1) else { return UNKNOWN };
        let start = self.starts[index];
        match block - (start >> 8) < u64::from(self.lengths[index]) {
            true => start as u8,
            false => UNKNOWN,
        }
    }

    /// The extents, in their order.
    pub fn extents(&self) -> impl Iterator<Item = ClassExtent> {
        let extent = |(start, blocks): (&u64, &u32)| ClassExtent {
            first: start >> 8,
            blocks: *blocks,
            class: *start as u8,
        };
        self.starts.iter().zip(&self.lengths).map(extent)
    }

    /// The number of extents.
    pub fn count(&self) -> usize {
        self.starts.len()
    }

    /// The memory that it takes, in bytes.
    pub fn bytes(&self) -> usize {
        self.starts.capacity() * size_of::<u64>() + self.lengths.capacity() * size_of::<u32>()
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
    fn neighbours_of_one_class_are_one_extent_of_twelve_bytes() {
        let map = ClassMap::new((0..1000).map(|at| extent(at * 3, 3, 7)), 3000).expect("sorted");
        assert_eq!(map.extents().collect::<Vec<_>>(), [extent(0, 3000, 7)]);
        let map = ClassMap::new((0..1000).map(|at| extent(at * 3, 2, 7)), 3000).expect("sorted");
        assert_eq!((map.count(), map.bytes()), (1000, 12_000));
        // Neighbours whose sum does not fit stay two.
        let long = [extent(0, u32::MAX, 7), extent(u64::from(u32::MAX), 9, 7)];
        let map = ClassMap::new(long, BLOCKS_END).expect("sorted");
        assert_eq!((map.count(), map.class_of(u64::from(u32::MAX) + 8)), (2, 7));
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
            let again = ClassMap::new(map.extents(), u64::MAX).expect("it was a map");
            prop_assert_eq!(again.starts, map.starts);
        }
    }
}
