//! The codec of single blocks.
//!
//! An encoder and a decoder have all memory that they need from their creation on. Each belongs to
//! one lane.

mod decode;
mod encode;
mod probe;
#[cfg_attr(not(feature = "zstd"), path = "without_zstd.rs")]
mod zstd;

pub use decode::{Damaged, Decoder};
pub use encode::Encoder;

/// Whether this build has Zstandard.
pub const HAS_ZSTD: bool = cfg!(feature = "zstd");

/// Bytes of a word that a block may repeat.
const WORD_BYTES: usize = 8;
const HALF_WORD_BYTES: usize = WORD_BYTES / 2;

/// The codec of blocks that repeat no word.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Codec {
    /// LZ4: decoded in the time of a few copies.
    Lz4,
    /// Zstandard: smaller, and several times slower. Without the feature `zstd`, its blocks are
    /// compressed by LZ4.
    Zstd,
}

/// How a block is encoded. The numbers are stored beside compressed blocks: they never change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Encoding {
    /// Eight bytes that are repeated, or four; without any byte, zeros.
    Word = 0,
    /// An LZ4 block (<https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>).
    Lz4 = 1,
    /// A Zstandard frame (RFC 8878) without magic number, content size and checksum.
    Zstd = 2,
    /// The block itself.
    Plain = 3,
}

impl Encoding {
    /// Returns the encoding with this number.
    pub fn from_number(number: u8) -> Option<Encoding> {
        let all = [Encoding::Word, Encoding::Lz4, Encoding::Zstd, Encoding::Plain];
        all.into_iter().find(|encoding| *encoding as u8 == number)
    }
}
