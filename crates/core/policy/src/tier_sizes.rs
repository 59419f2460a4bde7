//! The measured sizes of compressed blocks: the mean of those that became small enough, and the
//! share of the others.

use crate::Hash;

/// Bytes of a block.
const BLOCK_BYTES: f64 = 4096.0;
/// Until blocks were measured, all are assumed to become half as large. The assumption weighs as
/// much as this number of measured blocks.
const ASSUMED: f64 = 16.0;
/// 2^64 divided by the golden ratio: which blocks do not become small enough is independent of the
/// samples, which have other bits of the hash.
const MIX: u64 = 0x9e37_79b9_7f4a_7c15;

/// The sizes of the blocks that were compressed lately.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct MeanSizes {
    stored: f64,
    refused: f64,
    bytes: f64,
}

impl MeanSizes {
    /// No block was measured.
    pub(crate) const NONE: MeanSizes = MeanSizes { stored: 0.0, refused: 0.0, bytes: 0.0 };

    /// Counts a block, with its compressed size. None: it did not become small enough.
    pub(crate) fn add(&mut self, bytes: Option<u32>) {
        match bytes {
            Some(bytes) => {
                self.stored += 1.0;
                self.bytes += f64::from(bytes);
            }
            None => self.refused += 1.0,
        }
    }

    /// Reduces the weight of the blocks until now to this part.
    pub(crate) fn fade(&mut self, keeps: f64) {
        self.stored *= keeps;
        self.refused *= keeps;
        self.bytes *= keeps;
    }

    /// Returns the size that a block is assumed to have. None: it is assumed not to become small
    /// enough. The same block has the same answer while the share of such blocks is the same.
    pub(crate) fn of(&self, hash: Hash) -> Option<u32> {
        let stored = self.stored + ASSUMED;
        let share = stored / (stored + self.refused);
        let part = (hash.bits().wrapping_mul(MIX) >> 40) as f64 / (1u64 << 24) as f64;
        let mean = (self.bytes + ASSUMED * BLOCK_BYTES / 2.0) / stored;
        (part < share).then_some(((mean + 0.5) as u32).clamp(1, BLOCK_BYTES as u32))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns the share of blocks that are small enough, in percent, and their size.
    fn answer(sizes: &MeanSizes) -> (usize, u32) {
        let found = (0..10_000).filter_map(|block| sizes.of(Hash::of(block)));
        (found.clone().count() / 100, found.max().unwrap_or(0))
    }

    #[test]
    fn blocks_have_the_measured_sizes_and_without_measurements_half_of_their_own() {
        let mut sizes = MeanSizes::NONE;
        assert_eq!(answer(&sizes), (100, 2048));
        for _ in 0..100_000 {
            sizes.add(Some(1000));
            (0..3).for_each(|_| sizes.add(None));
        }
        let (percent, bytes) = answer(&sizes);
        assert!((24..=26).contains(&percent), "{percent}");
        assert!((1000..1002).contains(&bytes), "{bytes}");
        (0..2000).for_each(|_| sizes.fade(0.98));
        assert_eq!(answer(&sizes), (100, 2048), "measurements fade");
    }
}
