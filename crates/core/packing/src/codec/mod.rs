//! The codec of single blocks.
//!
//! A compressor and a decoder have all memory that they need from their creation on. Each belongs
//! to one lane.

mod check;
mod decode;
mod encode;
mod probe;

pub(crate) use check::CHECK_BITS;
pub use decode::{Damaged, Decoder};
pub use encode::{Compressor, Outcome};

use crate::BLOCK_BYTES;

/// Maximum length of an object, in bytes. A longer one would save less than a fifth of a block,
/// which does not pay for its decoding.
pub const LENGTH_MAX: usize = BLOCK_BYTES / 16 * 13;

/// How an object is compressed.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codec {
    /// An LZ4 block: decoded in the time of a few copies.
    Lz4 = 1,
    /// A Zstandard frame without its magic number: smaller, and several times slower.
    Zstd = 2,
}

/// A compressed block, without its bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Object {
    /// Its codec.
    pub codec: Codec,
    /// The checksum of the block's number, the codec and the bytes: a number below 2^22.
    pub check: u32,
    /// Its length in bytes.
    pub length: u16,
}

impl Object {
    /// Returns the object with these bytes, of which there are at most [`LENGTH_MAX`].
    pub fn of(block: u64, codec: Codec, bytes: &[u8]) -> Object {
        Object { codec, check: check::check(block, codec, bytes), length: bytes.len() as u16 }
    }
}

/// The first bytes of every Zstandard frame. Objects lack them.
#[cfg(feature = "zstd")]
const ZSTD_MAGIC: [u8; 4] = 0xfd2f_b528_u32.to_le_bytes();
