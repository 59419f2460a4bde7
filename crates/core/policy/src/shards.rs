//! The shard of a block, as the engine spreads blocks in its present format: regions of 4 MiB form
//! rows of as many regions as there are shards, and each row visits every shard once, in its own
//! order. `cache/src/spread.rs` gives the reasons, and a test there checks that both agree.

/// Blocks per region, of 4 KiB each: 4 MiB.
pub const REGION_BLOCKS: u64 = 1024;

/// 2^64 divided by the golden ratio: multiplying by it spreads neighbouring numbers (Knuth, "The
/// Art of Computer Programming", volume 3, 6.4).
const GOLDEN: u64 = 0x9e37_79b9_7f4a_7c15;

/// Returns the number of the block's shard.
///
/// # Panics
/// If the number of shards is not a power of two.
#[inline]
pub fn shard_of(block: u64, shards: u32) -> u32 {
    assert!(shards.is_power_of_two(), "{shards} shards");
    let region = block / REGION_BLOCKS;
    let row = region >> shards.trailing_zeros();
    let turned = row.wrapping_mul(GOLDEN) >> 32;
    ((region ^ turned) & (u64::from(shards) - 1)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn each_row_visits_every_shard_once_and_a_region_stays_together() {
        for shards in [1u32, 2, 8, 64] {
            for row in [0, 1, 77, 1 << 30] {
                let regions = (0..u64::from(shards)).map(|at| row * u64::from(shards) + at);
                let mut found: Vec<u32> =
                    regions.map(|region| shard_of(region * REGION_BLOCKS, shards)).collect();
                found.sort_unstable();
                assert!(found.into_iter().eq(0..shards));
            }
        }
        assert!((0..REGION_BLOCKS).all(|block| shard_of(block, 8) == shard_of(0, 8)));
    }

    #[test]
    fn rows_are_turned_as_the_engine_turns_them() {
        // Computed by hand: row 1 of two shards; 0x9e3779b9 is odd, so that its first region is in
        // the second shard.
        assert_eq!([0, 1, 2, 3].map(|region| shard_of(region * REGION_BLOCKS, 2)), [0, 1, 1, 0]);
        // Row 1 of eight: 0x9e3779b9 & 7 = 1; row 2: 0x13c6ef372 & 7 = 2.
        assert_eq!(shard_of(8 * REGION_BLOCKS, 8), 1);
        assert_eq!(shard_of(16 * REGION_BLOCKS, 8), 2);
    }
}
