//! Hashes of blocks, the same in every run.

use policy::Hash;
use std::hash::{BuildHasher, Hasher};

/// Spreads a block's number over 64 bits.
#[inline]
pub(crate) fn mixed(number: u64) -> u64 {
    Hash::of(number).bits()
}

/// Hashes keys that are blocks, for maps of them.
#[derive(Clone, Copy, Default, Debug)]
pub struct OfBlocks;

/// See [`OfBlocks`].
#[derive(Default, Debug)]
pub struct BlockHasher(u64);

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
