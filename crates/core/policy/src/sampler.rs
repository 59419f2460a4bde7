//! Samples of blocks, chosen by their hashes.

use crate::Hash;

/// 2^64 divided by the square root of 2. The product with a hash differs from the hashes of shards
/// and tables.
const MIX: u64 = 0xb504_f333_f9de_6485;
/// Bits per sampler: a sample contains at least one block in 2^20.
const BITS: u32 = 20;

/// The owner of a sample. Each has its own bits, so that the samples are independent.
#[derive(Clone, Copy)]
pub(crate) enum Owner {
    Expectation = 2,
    Arbiter = 22,
    Curve = 42,
}

/// A sample of all blocks: either all accesses to a block are in it, or none.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Sampler {
    /// A block is in the sample if none of these bits is set in its mixed hash.
    mask: u64,
}

impl Sampler {
    /// The empty sample.
    pub const NONE: Sampler = Sampler { mask: 0 };

    /// One block in 2^`one_in_log2`.
    pub(crate) fn new(owner: Owner, one_in_log2: u32) -> Sampler {
        assert!(one_in_log2 <= BITS, "one block in 2^{BITS} at least");
        // With the lowest bit, which is never set in a mixed hash: so only the mask of the empty
        // sample is 0.
        Sampler { mask: (((1 << one_in_log2) - 1) << owner as u32) | 1 }
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
