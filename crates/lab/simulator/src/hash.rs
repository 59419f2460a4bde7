//! Hashes of blocks, the same in every run.

use std::hash::{BuildHasher, Hasher};

/// Spreads a block's number over 64 bits (the finalizer of MurmurHash3, A. Appleby, public domain).
#[inline]
pub(crate) fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 33)).wrapping_mul(0xff51_afd7_ed55_8ccd);
    let number = (number ^ (number >> 33)).wrapping_mul(0xc4ce_b9fe_1a85_ec53);
    number ^ (number >> 33)
}

/// For maps whose keys are blocks.
#[derive(Clone, Copy, Default)]
pub(crate) struct OfBlocks;

/// See [`OfBlocks`].
#[derive(Default)]
pub(crate) struct BlockHasher(u64);

impl BuildHasher for OfBlocks {
    type Hasher = BlockHasher;

    fn build_hasher(&self) -> BlockHasher {
        BlockHasher(0)
    }
}

impl Hasher for BlockHasher {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = mixed(self.0 ^ u64::from(*byte));
        }
    }

    fn write_u64(&mut self, number: u64) {
        self.0 = mixed(number);
    }
}
