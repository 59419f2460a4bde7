//! Names of blocks in tables and sketches.

/// The hash of a block's number. Each of its steps is reversible, so no two blocks have the same
/// hash: it identifies its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hash(u64);

impl Hash {
    /// MurmurHash3's finalizer (A. Appleby, public domain). A single multiplication would leave the
    /// strides of real workloads visible, which cause long runs of full cells.
    #[inline]
    pub fn of(block: u64) -> Hash {
        let mut mixed = block;
        mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
        mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
        Hash(mixed ^ (mixed >> 33))
    }

    /// The hash with these bits.
    pub(crate) fn from_bits(bits: u64) -> Hash {
        Hash(bits)
    }

    /// The 64 bits.
    #[inline]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// Whether the block is in a fixed sample of a sixteenth of all blocks.
    #[inline]
    pub fn is_sampled(self) -> bool {
        self.0 >> 40 & 15 == 0
    }
}
