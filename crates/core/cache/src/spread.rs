//! The mapping of the volume's regions to shards.
//!
//! Regions form rows of one region per shard. Each row visits every shard once, so that a
//! contiguous working set fills all shards equally; each row has its own order, so that regions at
//! a fixed distance are not all in one shard.
//!
//! So a shard has one region of each row, and numbers its blocks row by row, without gaps: these
//! are the blocks' *positions*. A range of the volume that spans many rows is one range of
//! positions in every shard.
//!
//! ```text
//!   region      0  1  2  3 | 4  5  6  7 | 8  9 10 11        rows of four
//!   shard       0  1  2  3 | 2  3  0  1 | 3  2  1  0
//!   positions of shard 2:  [ region 2 ][ region 4 ][ region 9 ]
//! ```

use crate::geometry::{Format, Geometry};
use crate::planted::{Bug, planted};
use core::ops::Range;

/// 2^64 divided by the golden ratio: multiplying by it spreads neighbouring numbers (Knuth, "The
/// Art of Computer Programming", volume 3, 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

#[inline]
fn mixed(number: u64) -> u64 {
    number.wrapping_mul(GOLDEN) >> 32
}

/// The mapping. Part of the arena's format: the next process must find a block in its shard.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Spread {
    region_shift: u32,
    row_shift: u32,
    shards: u64,
    format: Format,
}

impl Spread {
    pub(crate) fn of(geometry: &Geometry) -> Spread {
        assert!(geometry.region_blocks.is_power_of_two(), "{geometry:?}");
        assert!(
            geometry.format == Format::Two || geometry.shards.is_power_of_two(),
            "{geometry:?}"
        );
        Spread {
            region_shift: geometry.region_blocks.trailing_zeros(),
            row_shift: geometry.shards.trailing_zeros(),
            shards: geometry.shards.into(),
            format: geometry.format,
        }
    }

    /// Returns the number of the shard that a block belongs to.
    #[inline]
    pub(crate) fn shard_of(&self, block: u64) -> usize {
        let region = block >> self.region_shift;
        let shard = match self.format {
            Format::Two => (mixed(region) * self.shards) >> 32,
            Format::Three | Format::Four => {
                (region ^ mixed(region >> self.row_shift)) & (self.shards - 1)
            }
        };
        shard as usize
    }

    /// Returns the position of a block in its shard. Neighbours in one region have adjacent
    /// positions. In former formats it is the block's own number.
    #[inline]
    pub(crate) fn position_of(&self, block: u64) -> u64 {
        match self.format {
            Format::Two | Format::Three => block,
            Format::Four => {
                let row = block >> self.region_shift >> self.row_shift;
                row << self.region_shift | block & self.last_of_region()
            }
        }
    }

    /// Returns the blocks at these positions of a shard, ascending: one range per region, or in
    /// former formats a single one.
    pub(crate) fn blocks_at(
        self,
        shard: u32,
        positions: Range<u64>,
    ) -> impl Iterator<Item = Range<u64>> {
        let mut next = positions.start;
        core::iter::from_fn(move || {
            if next >= positions.end {
                return None;
            }
            let first = next;
            next = match self.format {
                Format::Two | Format::Three => positions.end,
                Format::Four => {
                    (first | self.last_of_region()).saturating_add(1).min(positions.end)
                }
            };
            let block = self.block_at(shard, first);
            Some(block..block.saturating_add(next - first))
        })
    }

    /// Returns the block at this position of a shard.
    fn block_at(&self, shard: u32, position: u64) -> u64 {
        match self.format {
            Format::Two | Format::Three => position,
            _ if planted(Bug::ZerosOfOthers) => position,
            Format::Four => {
                let row = position >> self.region_shift;
                let in_row = (u64::from(shard) ^ mixed(row)) & (self.shards - 1);
                let region = row << self.row_shift | in_row;
                region << self.region_shift | position & self.last_of_region()
            }
        }
    }

    /// Extends these positions to the borders of their regions, where ranges of other shards may be
    /// adjacent to them.
    pub(crate) fn whole_regions(&self, positions: &Range<u64>) -> Range<u64> {
        let region = self.last_of_region() + 1;
        positions.start / region * region..positions.end.next_multiple_of(region)
    }

    /// Returns the number of the last block of a region within the region.
    fn last_of_region(&self) -> u64 {
        (1 << self.region_shift) - 1
    }

    /// Returns the sectors of a region.
    #[inline]
    pub(crate) fn region_sectors(&self) -> u64 {
        u64::from(crate::BLOCK_SECTORS) << self.region_shift
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;
    use alloc::vec::Vec;

    const REGION_BLOCKS: u64 = 1024;

    fn spread(format: Format, shards: u32) -> Spread {
        Spread::of(&Geometry { format, shards, slots: 64 * shards, ..Geometry::default() })
    }

    fn regions_in(spread: &Spread, regions: impl Iterator<Item = u64>) -> Vec<u32> {
        let mut found = vec![0; spread.shards as usize];
        regions.for_each(|region| found[spread.shard_of(region * REGION_BLOCKS)] += 1);
        found
    }

    #[test]
    fn a_working_set_that_lies_together_fills_all_shards_alike() {
        for shards in [1, 2, 8, 64] {
            let spread = spread(Format::Four, shards);
            for first in [0, 3, 1 << 20] {
                let found = regions_in(&spread, first * 64..first * 64 + 640);
                assert!(found.iter().all(|count| *count == 640 / shards), "{found:?}");
            }
        }
    }

    #[test]
    fn regions_at_a_fixed_distance_do_not_meet_in_one_shard() {
        let spread = spread(Format::Four, 8);
        for distance in [2, 8, 16, 64, 256, 1000, 1 << 18] {
            let found = regions_in(&spread, (0..800).map(|number| number * distance));
            assert!(found.iter().all(|count| (50..=200).contains(count)), "{distance}: {found:?}");
        }
    }

    #[test]
    fn simulations_spread_blocks_in_the_same_way() {
        assert_eq!(policy::REGION_BLOCKS, u64::from(Geometry::default().region_blocks));
        for shards in [1, 2, 8, 64] {
            let spread = spread(Format::Four, shards);
            for region in (0..3000).chain((1 << 38) - 3000..1 << 38) {
                let block = region * REGION_BLOCKS + region % REGION_BLOCKS;
                assert_eq!(policy::shard_of(block, shards) as usize, spread.shard_of(block));
            }
        }
    }

    #[test]
    fn a_region_is_in_one_shard_and_former_formats_keep_their_own() {
        for format in [Format::Two, Format::Three, Format::Four] {
            let spread = spread(format, 16);
            for block in [0, 77 * REGION_BLOCKS, (1 << 40) - REGION_BLOCKS] {
                let shard = spread.shard_of(block);
                assert_eq!(shard, spread.shard_of(block + REGION_BLOCKS - 1));
            }
        }
        // As computed by the previous program, by hand.
        let before = |region: u64, shards: u64| {
            (((region.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) * shards) >> 32) as usize
        };
        let spread = spread(Format::Two, 3);
        (0..1000).for_each(|region| {
            assert_eq!(spread.shard_of(region * REGION_BLOCKS), before(region, 3));
        });
    }

    #[test]
    fn each_shard_numbers_its_blocks_without_gaps_and_in_their_order() {
        const REGION: u64 = 4;
        let geometry =
            Geometry { shards: 4, slots: 64, region_blocks: REGION as u32, ..Geometry::default() };
        let spread = Spread::of(&geometry);
        for shard in 0..4 {
            let blocks: Vec<u64> =
                (0..64 * REGION).filter(|block| spread.shard_of(*block) == shard).collect();
            let positions: Vec<u64> =
                blocks.iter().map(|block| spread.position_of(*block)).collect();
            assert_eq!(positions, (0..16 * REGION).collect::<Vec<u64>>());
            let found: Vec<u64> =
                spread.blocks_at(shard as u32, 0..16 * REGION).flatten().collect();
            assert_eq!(found, blocks);
            // Also with borders inside regions: one range per region.
            let cut: Vec<Range<u64>> = spread.blocks_at(shard as u32, 3..9).collect();
            assert_eq!(cut.len(), 3);
            assert_eq!(cut.into_iter().flatten().collect::<Vec<u64>>(), blocks[3..9]);
            assert_eq!(spread.blocks_at(shard as u32, 5..5).count(), 0);
        }
        assert_eq!(spread.whole_regions(&(5..9)), 4..12);
        assert_eq!(spread.whole_regions(&(4..8)), 4..8);
    }

    #[test]
    fn in_former_formats_and_in_a_single_shard_positions_are_the_blocks_themselves() {
        for (format, shards) in [(Format::Two, 3), (Format::Three, 4), (Format::Four, 1)] {
            let spread = spread(format, shards);
            for block in [0, 5, 77 * REGION_BLOCKS + 3] {
                assert_eq!(spread.position_of(block), block);
                assert!(spread.blocks_at(0, block..block + 3000).flatten().eq(block..block + 3000));
            }
        }
    }
}
