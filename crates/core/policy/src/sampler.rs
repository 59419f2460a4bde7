//! Which blocks are in a sample: a part of all of them, chosen by their hashes.

use crate::Hash;

/// 2^64 divided by the square root of 2. What it makes of a hash differs from what shards and tables use.
const MIX: u64 = 0xb504_f333_f9de_6485;
/// Bits for each sampler: it takes one block in 2^20 at least.
const BITS: u32 = 20;

/// What samples. Each has bits of its own, so that no sample tells of another.
#[derive(Clone, Copy)]
pub(crate) enum Whose {
    Expectation = 2,
    Arbiter = 22,
    Curve = 42,
}

/// A sample of all blocks: all accesses of a block are in it, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sampler {
    /// None of these bits may be set.
    mask: u64,
}

impl Sampler {
    /// No block at all.
    pub const NONE: Sampler = Sampler { mask: 0 };

    /// One block in so many, as a power of two.
    pub(crate) fn new(whose: Whose, one_in_log2: u32) -> Sampler {
        assert!(one_in_log2 <= BITS, "one block in 2^{BITS} at least");
        // And the lowest bit, which is never set in a mixed hash: so only a mask for no block is 0.
        Sampler { mask: (((1 << one_in_log2) - 1) << whose as u32) | 1 }
    }

    /// Whether a block is in the sample.
    #[inline]
    pub fn takes(self, hash: Hash) -> bool {
        self.mask != 0 && mixed(hash) & self.mask == 0
    }
}

#[inline]
fn mixed(hash: Hash) -> u64 {
    hash.bits().wrapping_mul(MIX) & !1
}
