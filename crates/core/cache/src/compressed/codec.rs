//! The encodings of compressed blocks.

use alloc::vec;
use alloc::vec::Vec;
use lz4_flex::block::{
    CompressTable, compress_into_with_table, decompress_into, get_maximum_output_size,
};

/// The encoding of a compressed block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Encoding {
    /// Eight bytes that are repeated, such as zeros.
    Word,
    /// An LZ4 block (<https://github.com/lz4/lz4/blob/dev/doc/lz4_Block_format.md>).
    Lz4,
    /// The block itself.
    Plain,
}

const WORD_BYTES: usize = 8;

/// Compresses blocks of one size.
pub(crate) struct Encoder {
    table: CompressTable,
    output: Vec<u8>,
    bytes_max: usize,
}

impl Encoder {
    /// Makes an encoder for blocks of this many bytes. A result of more than `bytes_max` bytes is
    /// refused.
    pub(crate) fn new(block_bytes: usize, bytes_max: usize) -> Encoder {
        let output = vec![0; get_maximum_output_size(block_bytes)];
        Encoder { table: CompressTable::small(), output, bytes_max }
    }

    /// Compresses a block. None: it does not become small enough.
    pub(crate) fn encode<'a>(&'a mut self, block: &'a [u8]) -> Option<(Encoding, &'a [u8])> {
        let (word, rest) = block.split_at(WORD_BYTES);
        // A word is repeated if the block equals itself one word further on.
        if rest == &block[..rest.len()] {
            return Some((Encoding::Word, word));
        }
        let compressed = compress_into_with_table(block, &mut self.output, &mut self.table);
        if let Some(bytes) = compressed.ok().filter(|bytes| *bytes <= self.bytes_max) {
            return Some((Encoding::Lz4, &self.output[..bytes]));
        }
        (block.len() <= self.bytes_max).then_some((Encoding::Plain, block))
    }
}

/// Decodes a block. Returns false if the bytes are not one of this length.
pub(crate) fn decode(encoding: Encoding, bytes: &[u8], block: &mut [u8]) -> bool {
    match encoding {
        Encoding::Word if bytes.len() == WORD_BYTES => {
            block
                .chunks_mut(WORD_BYTES)
                .for_each(|part| part.copy_from_slice(&bytes[..part.len()]));
            true
        }
        Encoding::Plain if bytes.len() == block.len() => {
            block.copy_from_slice(bytes);
            true
        }
        Encoding::Lz4 => decompress_into(bytes, block).is_ok_and(|length| length == block.len()),
        _ => false,
    }
}
