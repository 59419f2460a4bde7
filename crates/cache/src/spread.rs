//! Which shard a region of the volume belongs to.
//!
//! Regions are taken in rows of as many as there are shards. Each row visits every shard once, so that a
//! working set that lies together fills all shards alike; each in an order of its own, so that regions
//! at a fixed distance do not meet in one shard.

use crate::geometry::{Format, Geometry};

/// 2^64 divided by the golden ratio: multiplying by it spreads neighbouring numbers (Knuth, "The Art of
/// Computer Programming", volume 3, 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// The mapping. Part of the arena's format: the next process must find a block in the shard it is in.
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

    /// The number of the shard that a block belongs to.
    #[inline]
    pub(crate) fn shard_of(&self, block: u64) -> usize {
        let region = block >> self.region_shift;
        let mixed = |number: u64| number.wrapping_mul(GOLDEN) >> 32;
        let shard = match self.format {
            Format::Two => (mixed(region) * self.shards) >> 32,
            Format::Three => (region ^ mixed(region >> self.row_shift)) & (self.shards - 1),
        };
        shard as usize
    }

    /// Sectors of a region.
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
            let spread = spread(Format::Three, shards);
            for first in [0, 3, 1 << 20] {
                let found = regions_in(&spread, first * 64..first * 64 + 640);
                assert!(found.iter().all(|count| *count == 640 / shards), "{found:?}");
            }
        }
    }

    #[test]
    fn regions_at_a_fixed_distance_do_not_meet_in_one_shard() {
        let spread = spread(Format::Three, 8);
        for distance in [2, 8, 16, 64, 256, 1000, 1 << 18] {
            let found = regions_in(&spread, (0..800).map(|number| number * distance));
            assert!(found.iter().all(|count| (50..=200).contains(count)), "{distance}: {found:?}");
        }
    }

    #[test]
    fn a_region_is_in_one_shard_and_the_former_format_keeps_its_own() {
        for format in [Format::Two, Format::Three] {
            let spread = spread(format, 16);
            for block in [0, 77 * REGION_BLOCKS, (1 << 40) - REGION_BLOCKS] {
                let shard = spread.shard_of(block);
                assert_eq!(shard, spread.shard_of(block + REGION_BLOCKS - 1));
            }
        }
        // As the program before computed it, by hand.
        let before = |region: u64, shards: u64| {
            (((region.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 32) * shards) >> 32) as usize
        };
        let spread = spread(Format::Two, 3);
        (0..1000).for_each(|region| {
            assert_eq!(spread.shard_of(region * REGION_BLOCKS), before(region, 3));
        });
    }
}
