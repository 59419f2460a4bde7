//! The compressed sizes of a trace's blocks, whose contents are not known: a distribution, from
//! which each block has a size by its hash.

use crate::blocks::BLOCK_BYTES;
use policy::Hash;

/// Maximum bytes of a compressed block: the engine does not store larger ones (83 % of a block).
pub const STORED_BYTES_MAX: u32 = BLOCK_BYTES as u32 * 83 / 100;
/// The smallest object of the engine: a repeated word.
const BYTES_MIN: u32 = 8;
/// Number of sizes that represent a ratio.
const RATIO_SIZES: u32 = 1024;
/// Maximum ratio: that of blocks of a repeated word.
const RATIO_MAX: f64 = BLOCK_BYTES as f64 / BYTES_MIN as f64;
/// 2^64 divided by the golden ratio: sizes are independent of the shards and samples, which have
/// other bits of the hash.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// A distribution of compressed sizes.
#[derive(Clone, PartialEq, Debug)]
pub struct BlockSizes {
    name: String,
    sizes: Vec<u32>,
    /// Maximum bytes of a block that is stored.
    stored_bytes_max: u32,
}

impl BlockSizes {
    /// Returns sizes whose mean is this part of a block: evenly spread from half of the mean to one
    /// and a half times it, or less far, so that none exceeds a block. Blocks of real data differ,
    /// and some of them are too large to be stored. None: the ratio is below 1 or above 512.
    pub fn of_ratio(ratio: f64) -> Option<BlockSizes> {
        if !(1.0..=RATIO_MAX).contains(&ratio) {
            return None;
        }
        let mean = BLOCK_BYTES as f64 / ratio;
        let spread = (ratio - 1.0).min(0.5);
        let size = |number: u32| {
            let step = (f64::from(number) + 0.5) / f64::from(RATIO_SIZES) * 2.0 - 1.0;
            mean * (1.0 + spread * step)
        };
        let sizes = (0..RATIO_SIZES).map(|number| size(number).round() as u32);
        Some(BlockSizes::new(ratio.to_string(), sizes))
    }

    /// Returns the distribution of these sizes of sampled blocks, at least one, in bytes; a block
    /// that is not smaller compressed has its own.
    pub fn new(name: String, sizes: impl IntoIterator<Item = u32>) -> BlockSizes {
        let sizes = sizes.into_iter().map(|size| size.clamp(BYTES_MIN, BLOCK_BYTES as u32));
        BlockSizes { name, sizes: sizes.collect(), stored_bytes_max: STORED_BYTES_MAX }
    }

    /// Returns the same sizes with another limit of stored blocks, in bytes.
    pub fn with_stored_bytes_max(self, stored_bytes_max: u32) -> BlockSizes {
        BlockSizes { stored_bytes_max, ..self }
    }

    /// Returns the name: the ratio, or the origin of the sample.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Returns the mean ratio of all blocks.
    pub fn ratio(&self) -> f64 {
        let sum: u64 = self.sizes.iter().map(|size| u64::from(*size)).sum();
        BLOCK_BYTES as f64 * self.sizes.len() as f64 / sum.max(1) as f64
    }

    /// Returns the share of blocks that are small enough to be stored.
    pub fn stored_share(&self) -> f64 {
        let stored = self.sizes.iter().filter(|size| **size <= self.stored_bytes_max).count();
        stored as f64 / self.sizes.len().max(1) as f64
    }

    /// Returns the size of a block. None: it is not small enough to be stored.
    pub fn of(&self, hash: Hash) -> Option<u32> {
        let mixed = u128::from(hash.bits().wrapping_mul(MIX));
        let size = self.sizes[((mixed * self.sizes.len() as u128) >> 64) as usize];
        (size <= self.stored_bytes_max).then_some(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_ratio_is_the_mean_of_blocks_and_large_ones_are_not_stored() {
        // Sizes are even between both ends, and up to 83 % of a block is stored.
        for (ratio, stored) in [(1.0, 0.0), (1.2, 0.49), (1.5, 0.745), (2.5, 1.0), (512.0, 1.0)] {
            let sizes = BlockSizes::of_ratio(ratio).expect("a ratio");
            // The smallest object bounds the ratio of half of its blocks.
            let off = (sizes.ratio() / ratio - 1.0).abs();
            assert!(off < 0.01 || ratio > 500.0 && off < 0.2, "{ratio}: {}", sizes.ratio());
            assert!((sizes.stored_share() - stored).abs() < 0.02, "{}", sizes.stored_share());
            let of_blocks = (0..10_000).filter_map(|block| sizes.of(Hash::of(block)));
            let (count, sum) = of_blocks.fold((0, 0), |all, size| (all.0 + 1, all.1 + size));
            assert!((f64::from(count) / 10_000.0 - stored).abs() < 0.02, "{ratio}: {count}");
            if stored == 1.0 {
                let mean = f64::from(sum) / f64::from(count);
                assert!((BLOCK_BYTES as f64 / mean / sizes.ratio() - 1.0).abs() < 0.02, "{mean}");
            }
        }
        for bad in [0.99, 513.0, f64::NAN, -1.0] {
            assert_eq!(BlockSizes::of_ratio(bad), None, "{bad}");
        }
    }

    #[test]
    fn sampled_sizes_keep_their_shares() {
        let sizes = BlockSizes::new("disk".to_owned(), [0, 1000, 4096, 5000]);
        assert_eq!((sizes.name(), sizes.stored_share()), ("disk", 0.5));
        let mut counts = std::collections::BTreeMap::new();
        (0..40_000u64).for_each(|block| *counts.entry(sizes.of(Hash::of(block))).or_insert(0) += 1);
        let near = |size, count: i32| (counts[&size] - count).abs() < 600;
        assert!(near(Some(8), 10_000) && near(Some(1000), 10_000) && near(None, 20_000));
        assert_eq!(counts.len(), 3, "{counts:?}");
    }
}
