//! Decompression of a block.

use super::zstd::Decompression;
use super::{Encoding, HALF_WORD_BYTES, WORD_BYTES};
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
            Encoding::Word => repeat(bytes, block),
            Encoding::Plain if bytes.len() == block.len() => {
                block.copy_from_slice(bytes);
                Some(block.len())
            }
            Encoding::Lz4 => lz4_flex::block::decompress_into(bytes, block).ok(),
            Encoding::Zstd => self.zstd.decompress(bytes, block),
            Encoding::Plain => None,
        };
        if length == Some(block.len()) { Ok(()) } else { Err(Damaged) }
    }
}

/// Fills a block with a word, of which only the part is given that is repeated in it. Returns the
/// length, or none if a word has no such part.
fn repeat(part: &[u8], block: &mut [u8]) -> Option<usize> {
    match part.len() {
        0 => block.fill(0),
        HALF_WORD_BYTES | WORD_BYTES => {
            for into in block.chunks_mut(part.len()) {
                into.copy_from_slice(&part[..into.len()]);
            }
        }
        _ => return None,
    }
    Some(block.len())
}
