//! A sample of all blocks, on which proportionally smaller caches are simulated (C. Waldspurger et
//! al., "Efficient MRC Construction with SHARDS", FAST 2015, for LRU; "Cache Modeling and
//! Optimization using Miniature Simulations", ATC 2017, for every policy, the optimum among them).
//!
//! Only the hash of a block decides whether it is in the sample, so that all accesses to it are, or
//! none. No other part uses this hash: shards are chosen by regions, policies and their samplers
//! use MurmurHash3's finalizer, and a sample that correlates with these would not be
//! representative. The device is part of a block's number.

use lane::Random;
use std::fmt;
use std::str::FromStr;

/// A share of all blocks, above 0 and at most 1.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Rate {
    share: f64,
    /// Blocks whose hash is below this are in the sample.
    threshold: u64,
}

/// The blocks that are simulated.
#[derive(Clone, Copy, PartialEq, Debug)]
pub enum Sample {
    /// This share of them; with [`Rate::ALL`] nothing is estimated.
    Fixed(Rate),
    /// The largest of 1, 1/2, 1/4, ... at which all caches take at most [`AUTO_BYTES`].
    Auto,
}

impl FromStr for Sample {
    type Err = String;

    /// Parses a share of the blocks like `0.1`, or `auto`.
    fn from_str(text: &str) -> Result<Sample, String> {
        if text == "auto" {
            return Ok(Sample::Auto);
        }
        let rate = text.parse().ok().and_then(Rate::new).map(Sample::Fixed);
        let message = "it is not a share of the blocks; write a number above 0 and up to 1, like \
                       0.1, or auto";
        rate.ok_or_else(|| message.to_owned())
    }
}

/// Maximum memory of the caches of an automatic sample, in bytes.
pub const AUTO_BYTES: u64 = 256 << 20;
/// Minimum number of sampled slots for a reliable estimate: below it, the misses depend on which
/// blocks are in the sample.
pub const TRUSTED_SLOTS: u64 = 1000;

/// Returns the first random number of the seed `block`. The mixer alone would leave zero unchanged.
#[inline]
fn hash_of(block: u64) -> u64 {
    Random::nth(block, 1)
}

impl Rate {
    /// All blocks.
    pub const ALL: Rate = Rate { share: 1.0, threshold: u64::MAX };

    /// Returns the rate of this share. None: it is not above 0, or above 1.
    pub fn new(share: f64) -> Option<Rate> {
        // 2^64; the cast saturates.
        let threshold = (share * 18_446_744_073_709_551_616.0) as u64;
        (share > 0.0 && share <= 1.0).then_some(Rate { share, threshold })
    }

    /// Returns the share.
    pub fn share(self) -> f64 {
        self.share
    }

    /// Whether the sample contains all blocks.
    pub fn is_all(self) -> bool {
        self.share == 1.0
    }

    /// Whether a block is in the sample.
    #[inline]
    pub fn takes(self, block: u64) -> bool {
        self.is_all() || hash_of(block) < self.threshold
    }

    /// Returns the number in all blocks that this number in the sample represents.
    pub fn extrapolated(self, number: u64) -> u64 {
        (number as f64 / self.share).round() as u64
    }

    /// Returns the proportionally smaller number of slots.
    pub(crate) fn scaled(self, slots: u32) -> u32 {
        (f64::from(slots) * self.share).round() as u32
    }
}

/// Counts of the whole trace, for the extrapolation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Known {
    pub(crate) rate: Rate,
    /// All accesses.
    pub(crate) accesses: u64,
    /// Number of different blocks, in all and in the sample. None: one of them is not exact.
    pub(crate) blocks: Option<(u64, u64)>,
}

impl Known {
    /// Extrapolates misses in the sample to the whole trace.
    ///
    /// This is SHARDS-adj: the sample should contain its share of the accesses, and most of the
    /// difference comes from a few frequent blocks that are in it or not. Every cache holds these
    /// blocks. So the difference counts as hits, the misses stay, and the ratio is that of the
    /// misses to the expected number of accesses.
    ///
    /// The first access to each block misses under any policy, and the number of first accesses is
    /// known. So only the other misses are estimated: the number of blocks that the sample happens
    /// to contain then makes no difference.
    pub(crate) fn misses_in_all(&self, sampled_misses: u64) -> u64 {
        let stand_for = |misses| self.rate.extrapolated(misses);
        let misses = match self.blocks {
            Some((all, sampled)) => all + stand_for(sampled_misses.saturating_sub(sampled)),
            None => stand_for(sampled_misses),
        };
        misses.min(self.accesses)
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.share)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::{Arbiter, Hash, shard_of};

    const BLOCKS: u64 = 1 << 20;

    fn sampled(rate: f64) -> Vec<u64> {
        let rate = Rate::new(rate).expect("a rate");
        (0..BLOCKS).filter(|block| rate.takes(*block)).collect()
    }

    /// Whether a count is consistent with draws of probability `1 / one_in`: within five standard
    /// deviations.
    fn is_chance(count: usize, draws: usize, one_in: f64) -> bool {
        let expected = draws as f64 / one_in;
        (count as f64 - expected).abs() < 5.0 * expected.sqrt()
    }

    #[test]
    fn rates_are_shares() {
        for bad in [0.0, -0.1, 1.000_001, f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
            assert_eq!(Rate::new(bad), None, "{bad}");
        }
        assert_eq!(Rate::new(1.0), Some(Rate::ALL));
        assert!((0..1000).all(|block| Rate::ALL.takes(block)));
        let tiny = Rate::new(f64::MIN_POSITIVE).expect("above 0");
        assert!(!(0..1000).any(|block| tiny.takes(block)));
    }

    #[test]
    fn a_sample_has_its_share_whatever_the_device_and_the_stride() {
        for one_in in [2.0, 10.0, 100.0] {
            let rate = Rate::new(1.0 / one_in).expect("a rate");
            for (stride, device) in [(1, 0u64), (8, 3), (1024, 77), (1 << 20, 65_535)] {
                let blocks = (0..100_000u64).map(|number| (device << 48) | (number * stride));
                let count = blocks.filter(|block| rate.takes(*block)).count();
                assert!(is_chance(count, 100_000, one_in), "{count}: {one_in}, {stride}, {device}");
            }
        }
    }

    #[test]
    fn it_has_nothing_to_do_with_shards_and_other_samples() {
        let (arbiter, sample) = (Arbiter::new(16 * 1024), sampled(0.1));
        for shard in 0..8 {
            let mine = sample.iter().filter(|block| shard_of(**block, 8) == shard).count();
            assert!(is_chance(mine, sample.len(), 8.0), "{mine} in shard {shard}");
        }
        let both = sample.iter().filter(|block| Hash::of(**block).is_sampled()).count();
        assert!(is_chance(both, sample.len(), 16.0), "{both} of the engine's sample");
        let both = sample.iter().filter(|block| arbiter.sampler().takes(Hash::of(**block))).count();
        assert!(is_chance(both, sample.len(), 16.0), "{both} of the shadows' sample");
        // Tables use the top bits of the hash, sketches use others: each byte must be spread
        // evenly.
        for shift in (0..64).step_by(8) {
            let low = sample.iter().filter(|block| Hash::of(**block).bits() >> shift & 15 == 0);
            let low = low.count();
            assert!(is_chance(low, sample.len(), 16.0), "{low} at {shift}");
        }
    }

    #[test]
    fn misses_are_divided_by_the_accesses_that_should_have_been() {
        let tenth = Rate::new(0.1).expect("a rate");
        let of =
            |rate, blocks, misses| Known { rate, accesses: 1000, blocks }.misses_in_all(misses);
        // Of 1,000 accesses 100 should be in the sample. Its 20 misses stand for 200, whether 60 or
        // 160 accesses are in it because a frequent block is left out or included.
        assert_eq!(of(tenth, None, 20), 200);
        // There are never more misses than accesses.
        assert_eq!(of(tenth, None, 104), 1000);
        // Of 100 blocks 10 should be in the sample; having 12 of them does not add misses.
        assert_eq!(of(tenth, Some((100, 12)), 22), 200);
        assert_eq!((of(tenth, Some((100, 12)), 12), of(tenth, Some((100, 8)), 99)), (100, 1000));
        assert_eq!((of(Rate::ALL, None, 123), of(Rate::ALL, Some((100, 100)), 123)), (123, 123));
        assert_eq!(Rate::ALL.scaled(77), 77);
        assert_eq!((tenth.scaled(1004), tenth.scaled(1005), tenth.scaled(4)), (100, 101, 0));
    }
}
