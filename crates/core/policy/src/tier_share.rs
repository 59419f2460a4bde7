//! The share of a cache that its compressed tier may use, and the blocks that enter it.

/// Slots are freed ahead of need while fewer than one in this number are free ...
const FREE_ONE_IN: u32 = 128;
/// ... but no more than this number.
const FREE_MAX: u32 = 256;
/// Set in the bits of a share whose tier stores rejected blocks.
const REJECTED: u32 = 1 << 8;

/// The share of a compressed tier.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct TierShare {
    /// Maximum share of the slots that are not dirty, in percent. 0: nothing is compressed.
    pub percent: u32,
    /// Whether blocks are stored that the policy has rejected: see
    /// [`Policy::has_rejected`](crate::Policy::has_rejected).
    pub stores_rejected: bool,
}

impl TierShare {
    /// No tier: blocks are evicted when their slots are needed, uncompressed.
    pub const NONE: TierShare = TierShare { percent: 0, stores_rejected: false };

    /// Returns the maximum number of pages in a shard with this number of slots that are not dirty.
    #[inline]
    pub fn pages_max(self, available: u32) -> u32 {
        (u64::from(available) * u64::from(self.percent) / 100) as u32
    }

    /// Returns the number of slots that are kept free, in a shard of this number: so that misses
    /// need not wait until a block is compressed. A page that an object needs is one of them.
    #[inline]
    pub fn free_wanted(self, slots: u32) -> u32 {
        if self.percent == 0 { 0 } else { (slots / FREE_ONE_IN).clamp(2, FREE_MAX) }
    }

    /// The share as a number, for [`TierShare::from_bits`].
    #[inline]
    pub fn bits(self) -> u32 {
        self.percent | if self.stores_rejected { REJECTED } else { 0 }
    }

    /// The share of these bits.
    #[inline]
    pub fn from_bits(bits: u32) -> TierShare {
        TierShare { percent: bits & (REJECTED - 1), stores_rejected: bits & REJECTED != 0 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TierArbiter;

    #[test]
    fn a_share_is_the_same_after_its_bits() {
        for share in TierArbiter::shares() {
            assert_eq!(TierShare::from_bits(share.bits()), *share);
        }
    }

    #[test]
    fn without_a_tier_nothing_is_freed_ahead() {
        let half = TierShare { percent: 50, stores_rejected: false };
        assert_eq!((TierShare::NONE.pages_max(1000), half.pages_max(1001)), (0, 500));
        assert_eq!(TierShare::NONE.free_wanted(1 << 20), 0);
        assert_eq!([1, 1024, 1 << 20].map(|slots| half.free_wanted(slots)), [2, 8, 256]);
    }
}
