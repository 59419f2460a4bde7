//! Room in the write buffer that changes have claimed before they take it.
//!
//! Sections of one shard follow one another, so that what a change finds free stays so until it has
//! taken it. Changes of several shards may look at the same moment, each from its own thread. So
//! each says first what it may take, and counts as taken what others have said before it: of two
//! that find room for one, one is let in (C6).

use lane::atomic::{AtomicU32, Ordering};
use lane::planted::{Race, planted};

/// What the changes that are being decided may take, in blocks.
#[derive(Debug)]
pub(crate) struct Claims {
    blocks: AtomicU32,
    /// Nothing need be said where there is one shard.
    are_needed: bool,
}

/// What one change may take, until it has, or has not.
pub(crate) struct Claim<'a> {
    claims: &'a Claims,
    own: u32,
    /// What others may take. What they have taken meanwhile is in the gauges, which are to be read
    /// after this.
    pub(crate) others: u32,
}

impl Claims {
    /// Of a cache with so many shards.
    pub(crate) fn new(shards: u32) -> Claims {
        Claims {
            blocks: AtomicU32::new(0),
            are_needed: shards > 1 && !planted(Race::TakeUnclaimed),
        }
    }

    /// Whether no change has claimed anything.
    #[cfg(feature = "laboratory")]
    pub(crate) fn are_none(&self) -> bool {
        self.blocks.load(Ordering::SeqCst) == 0
    }

    /// Says that a change may take so many blocks.
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
