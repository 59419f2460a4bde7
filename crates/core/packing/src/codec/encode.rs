//! Compression of a block.

use super::probe::looks_random;
use super::zstd::Compression;
use super::{Codec, Encoding, HALF_WORD_BYTES, HAS_ZSTD, WORD_BYTES};
use alloc::boxed::Box;
use alloc::vec;
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

/// Compresses blocks of one size.
pub struct Encoder {
    table: CompressTable,
    zstd: Compression,
    output: Box<[u8]>,
    bytes_max: usize,
}

impl Encoder {
    /// Makes an encoder for blocks of this many bytes. A result of more than `bytes_max` bytes is
    /// refused.
    pub fn new(block_bytes: usize, bytes_max: usize) -> Encoder {
        Encoder {
            table: CompressTable::small(),
            zstd: Compression::new(block_bytes),
            output: vec![0; get_maximum_output_size(block_bytes)].into_boxed_slice(),
            bytes_max,
        }
    }

    /// Compresses a block. None: it does not become small enough.
    pub fn encode<'a>(&'a mut self, codec: Codec, block: &'a [u8]) -> Option<(Encoding, &'a [u8])> {
        let (word, rest) = block.split_at_checked(WORD_BYTES)?;
        // A word is repeated if the block equals itself one word further on.
        if rest == &block[..rest.len()] {
            return Some((Encoding::Word, repeated_part(word)));
        }
        if !looks_random(block)
            && let Some((encoding, bytes)) = self.compress(codec, block)
        {
            return Some((encoding, &self.output[..bytes]));
        }
        (block.len() <= self.bytes_max).then_some((Encoding::Plain, block))
    }

    /// Compresses a block into the output. Returns its length, unless it is too long.
    fn compress(&mut self, codec: Codec, block: &[u8]) -> Option<(Encoding, usize)> {
        if codec == Codec::Zstd && HAS_ZSTD {
            // The library stops at the end of the output, so it gives up early.
            let output_max = self.output.len().min(self.bytes_max);
            let bytes = self.zstd.compress(block, &mut self.output[..output_max])?;
            return Some((Encoding::Zstd, bytes));
        }
        let bytes = compress_into_with_table(block, &mut self.output, &mut self.table).ok()?;
        (bytes <= self.bytes_max).then_some((Encoding::Lz4, bytes))
    }
}

/// Returns the part of a word that is repeated in it: nothing of zeros.
fn repeated_part(word: &[u8]) -> &[u8] {
    let (half, other) = word.split_at(HALF_WORD_BYTES);
    match half == other {
        true if half.iter().all(|byte| *byte == 0) => &[],
        true => half,
        false => word,
    }
}
