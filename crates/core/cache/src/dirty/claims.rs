//! Room in the write buffer that changes claim before they take it.
//!
//! Sections of one shard follow one another, so room that a change finds free stays free until the
//! change has taken it. Changes of several shards may check at the same moment, each from its own
//! thread. So each change first claims the blocks that it may take, and counts the earlier claims
//! of others as taken: of two changes that find room for one, only one is admitted (C6).

use lane::atomic::{AtomicU32, Ordering};
use lane::planted::{Race, planted};

/// The blocks that may be taken by the changes that are being decided.
#[derive(Debug)]
pub(crate) struct Claims {
    blocks: AtomicU32,
    /// False with one shard, where no claims are needed.
    are_needed: bool,
}

/// The blocks that one change may take, until its decision is carried out.
pub(crate) struct Claim<'a> {
    claims: &'a Claims,
    own: u32,
    /// The blocks that others may take. Blocks that they have taken since are in the gauges, which
    /// must be read after this.
    pub(crate) others: u32,
}

impl Claims {
    /// Makes the claims of a cache with this number of shards.
    pub(crate) fn new(shards: u32) -> Claims {
        Claims {
            blocks: AtomicU32::new(0),
            are_needed: shards > 1 && !planted(Race::TakeUnclaimed),
        }
    }

    /// Whether no change has claimed any block.
    #[cfg(feature = "laboratory")]
    pub(crate) fn are_none(&self) -> bool {
        self.blocks.load(Ordering::SeqCst) == 0
    }

    /// Claims this number of blocks for a change.
    #[inline]
    pub(crate) fn claim(&self, blocks: u32) -> Claim<'_> {
        if !self.are_needed || blocks == 0 {
            return Claim { claims: self, own: 0, others: 0 };
        }
        let others = self.blocks.fetch_add(blocks, Ordering::SeqCst);
        Claim { claims: self, own: blocks, others }
    }
}

impl Drop for Claim<'_> {
    #[inline]
    fn drop(&mut self) {
        if self.own > 0 {
            self.claims.blocks.fetch_sub(self.own, Ordering::SeqCst);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_several_sees_what_the_others_may_take() {
        let claims = Claims::new(2);
        let one = claims.claim(3);
        let two = claims.claim(2);
        assert_eq!((one.others, two.others), (0, 3));
        drop(one);
        assert_eq!(claims.claim(1).others, 2);
        drop(two);
        assert_eq!(claims.claim(1).others, 0);
    }

    #[test]
    fn with_one_shard_nothing_is_claimed() {
        let claims = Claims::new(1);
        let _one = claims.claim(3);
        assert_eq!(claims.claim(1).others, 0);
    }
}
