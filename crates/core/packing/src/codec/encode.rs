//! Compression of a block.

use super::probe::looks_random;
use super::{Codec, LENGTH_MAX, Object};
use crate::BLOCK_BYTES;
use alloc::boxed::Box;
use alloc::vec;
use lz4_flex::block::{CompressTable, compress_into_with_table, get_maximum_output_size};

/// Bytes of a pattern.
const WORD: usize = 8;

/// How a block can be held.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Outcome {
    /// One word of 8 bytes, repeated; 0 for a block of zeros. It needs no memory.
    Pattern(u64),
    /// As this object, whose bytes are [`Compressor::bytes`].
    Packed(Object),
    /// As it is: no object is short enough.
    Incompressible,
}

/// Compresses blocks.
pub struct Compressor {
    table: CompressTable,
    #[cfg(feature = "zstd")]
    zstd: zstd_safe::CCtx<'static>,
    /// Long enough for every output of a codec.
    output: Box<[u8]>,
    start: usize,
    length: usize,
}

impl Default for Compressor {
    fn default() -> Compressor {
        Compressor::new()
    }
}

impl Compressor {
    /// Makes a compressor.
    pub fn new() -> Compressor {
        Compressor {
            table: CompressTable::small(),
            #[cfg(feature = "zstd")]
            zstd: zstd::context(),
            output: vec![0; get_maximum_output_size(BLOCK_BYTES)].into_boxed_slice(),
            start: 0,
            length: 0,
        }
    }

    /// Compresses a block for fast reads, by LZ4.
    pub fn compress(&mut self, number: u64, block: &[u8; BLOCK_BYTES]) -> Outcome {
        self.compress_by(number, block, Self::lz4)
    }

    /// Compresses a block to less memory, by Zstandard.
    #[cfg(feature = "zstd")]
    pub fn compress_densely(&mut self, number: u64, block: &[u8; BLOCK_BYTES]) -> Outcome {
        self.compress_by(number, block, Self::zstd)
    }

    fn compress_by(
        &mut self,
        number: u64,
        block: &[u8; BLOCK_BYTES],
        encode: impl FnOnce(&mut Self, &[u8; BLOCK_BYTES]) -> Option<Codec>,
    ) -> Outcome {
        (self.start, self.length) = (0, 0);
        if let Some(word) = pattern(block) {
            return Outcome::Pattern(word);
        }
        if looks_random(block) {
            return Outcome::Incompressible;
        }
        match encode(self, block) {
            Some(codec) if self.length <= LENGTH_MAX => {
                Outcome::Packed(Object::of(number, codec, self.bytes()))
            }
            _ => Outcome::Incompressible,
        }
    }

    fn lz4(&mut self, block: &[u8; BLOCK_BYTES]) -> Option<Codec> {
        self.length = compress_into_with_table(block, &mut self.output, &mut self.table).ok()?;
        Some(Codec::Lz4)
    }

    #[cfg(feature = "zstd")]
    fn zstd(&mut self, block: &[u8; BLOCK_BYTES]) -> Option<Codec> {
        let start = super::ZSTD_MAGIC.len();
        // The library stops at the end of the output, so it gives up early.
        let output = &mut self.output[..start + LENGTH_MAX];
        let bytes = self.zstd.compress2(output, block).ok()?;
        (self.start, self.length) = (start, bytes.checked_sub(start)?);
        Some(Codec::Zstd)
    }

    /// The bytes of the object of the last outcome, if it was [`Outcome::Packed`].
    pub fn bytes(&self) -> &[u8] {
        &self.output[self.start..self.start + self.length]
    }
}

/// Returns the word that a block repeats.
fn pattern(block: &[u8; BLOCK_BYTES]) -> Option<u64> {
    let (words, _) = block.as_chunks::<WORD>();
    let first = words[0];
    words.iter().all(|word| *word == first).then(|| u64::from_le_bytes(first))
}

#[cfg(feature = "zstd")]
mod zstd {
    use super::BLOCK_BYTES;
    use zstd_safe::{CCtx, CParameter};

    /// 3 % denser than the fastest level, and decoded in the same time.
    const LEVEL: i32 = 3;

    /// Makes a context that has its memory. The record has a block's size and checksum, so frames
    /// have neither.
    pub(super) fn context() -> CCtx<'static> {
        let mut context = CCtx::create();
        let parameters = [
            CParameter::CompressionLevel(LEVEL),
            CParameter::ContentSizeFlag(false),
            CParameter::ChecksumFlag(false),
        ];
        for parameter in parameters {
            context.set_parameter(parameter).expect("a parameter of every version");
        }
        // The first block allocates, the others do not.
        let mut output = [0u8; 64];
        let zeros = [0u8; BLOCK_BYTES];
        context.compress2(&mut output[..], &zeros).expect("zeros are short");
        context
    }
}
