//! Zstandard by libzstd. Frames lack their magic number, content size and checksum: the tier knows
//! the encoding and the length of each block.

use alloc::vec;
use zstd_safe::{CCtx, CParameter, DCtx, DParameter, FrameFormat};

/// 3 % denser than the fastest level, and decoded in the same time.
const LEVEL: i32 = 3;

/// Compresses blocks.
pub(super) struct Compression(CCtx<'static>);

impl Compression {
    /// Makes a context that has its memory for blocks of this many bytes.
    pub(super) fn new(block_bytes: usize) -> Compression {
        let mut context = CCtx::create();
        let parameters = [
            CParameter::Format(FrameFormat::Magicless),
            CParameter::CompressionLevel(LEVEL),
            CParameter::ContentSizeFlag(false),
            CParameter::ChecksumFlag(false),
        ];
        for parameter in parameters {
            context.set_parameter(parameter).expect("a parameter of every version");
        }
        let mut compression = Compression(context);
        // The first block allocates, the others do not.
        compression.compress(&vec![0; block_bytes], &mut [0; 64]);
        compression
    }

    /// Compresses a block. Returns its length, or none if the output is too short.
    pub(super) fn compress(&mut self, block: &[u8], output: &mut [u8]) -> Option<usize> {
        self.0.compress2(output, block).ok()
    }
}

/// Decodes blocks.
pub(super) struct Decompression(DCtx<'static>);

impl Decompression {
    /// Makes a context.
    pub(super) fn new() -> Decompression {
        let mut context = DCtx::create();
        let format = DParameter::Format(FrameFormat::Magicless);
        context.set_parameter(format).expect("a parameter of every version");
        Decompression(context)
    }

    /// Decodes a block. Returns its length, or none if the bytes are no frame that fits into it.
    pub(super) fn decompress(&mut self, bytes: &[u8], block: &mut [u8]) -> Option<usize> {
        self.0.decompress(block, bytes).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// libzstd allocates in C, so no allocator of Rust counts it.
    #[test]
    fn contexts_have_their_memory_from_the_start() {
        for block_bytes in [128, 4096, 32768] {
            let (mut compression, mut decompression) =
                (Compression::new(block_bytes), Decompression::new());
            let before = (compression.0.sizeof(), decompression.0.sizeof());
            let mut random = lane::Random::new(1);
            let (mut block, mut back) = (vec![0; block_bytes], vec![0; block_bytes]);
            let mut output = vec![0; block_bytes * 2];
            for round in 1..200_u64 {
                block.fill_with(|| random.below(round) as u8 & 0x1f);
                let bytes = compression.compress(&block, &mut output).expect("room");
                let length = decompression.decompress(&output[..bytes], &mut back);
                assert_eq!(length, Some(block_bytes));
                assert_eq!(block, back);
            }
            assert_eq!((compression.0.sizeof(), decompression.0.sizeof()), before);
        }
    }
}
