//! How a block is named to tables and sketches.

/// The hash of a block's number. Every step of it can be undone, so two blocks never share one: it names
/// its block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Hash(u64);

impl Hash {
    /// MurmurHash3's finalizer (A. Appleby, public domain). One multiplication alone leaves the
    /// strides of real workloads visible, and long runs of full cells with them.
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

    /// All 64 bits.
    #[inline]
    pub fn bits(self) -> u64 {
        self.0
    }

    /// A sixteenth of all blocks, always the same ones.
    #[inline]
    pub fn is_sampled(self) -> bool {
        self.0 >> 40 & 15 == 0
    }
}
