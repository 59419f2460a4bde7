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

    /// Returns the number of the block: the steps of [`Hash::of`], reversed.
    #[inline]
    pub(crate) fn block(self) -> u64 {
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0x9cb4_b2f8_1293_37db);
        mixed = (mixed ^ (mixed >> 33)).wrapping_mul(0x4f74_430c_22a5_4005);
        mixed ^ (mixed >> 33)
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

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_hash_has_the_number_of_its_block(block: u64) {
            prop_assert_eq!(Hash::of(block).block(), block);
        }
    }
}
