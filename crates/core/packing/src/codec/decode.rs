//! Decompression of a block.

use super::zstd::Decompression;
use super::{Encoding, WORD_BYTES};
use core::fmt;

/// Bytes are no block of this encoding and length.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damaged;

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a compressed block is damaged")
    }
}

impl core::error::Error for Damaged {}

/// Decodes blocks. It allocates nothing after its creation.
pub struct Decoder {
    zstd: Decompression,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

impl Decoder {
    /// Makes a decoder.
    pub fn new() -> Decoder {
        Decoder { zstd: Decompression::new() }
    }

    /// Decodes a block.
    ///
    /// # Errors
    /// The bytes do not decode to a block of this length. Its contents are then undefined.
    pub fn decode(
        &mut self,
        encoding: Encoding,
        bytes: &[u8],
        block: &mut [u8],
    ) -> Result<(), Damaged> {
        let length = match encoding {
            Encoding::Word if bytes.len() == WORD_BYTES => {
                for part in block.chunks_mut(WORD_BYTES) {
                    part.copy_from_slice(&bytes[..part.len()]);
                }
                Some(block.len())
            }
            Encoding::Plain if bytes.len() == block.len() => {
                block.copy_from_slice(bytes);
                Some(block.len())
            }
            Encoding::Lz4 => lz4_flex::block::decompress_into(bytes, block).ok(),
            Encoding::Zstd => self.zstd.decompress(bytes, block),
            Encoding::Word | Encoding::Plain => None,
        };
        if length == Some(block.len()) { Ok(()) } else { Err(Damaged) }
    }
}
