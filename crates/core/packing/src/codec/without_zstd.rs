//! Zstandard without the feature `zstd`: no block is compressed by it, and none is decoded.

/// Compresses no blocks.
pub(super) struct Compression;

impl Compression {
    pub(super) fn new(_block_bytes: usize) -> Compression {
        Compression
    }

    pub(super) fn compress(&mut self, _block: &[u8], _output: &mut [u8]) -> Option<usize> {
        None
    }
}

/// Decodes no blocks.
pub(super) struct Decompression;

impl Decompression {
    pub(super) fn new() -> Decompression {
        Decompression
    }

    pub(super) fn decompress(&mut self, _bytes: &[u8], _block: &mut [u8]) -> Option<usize> {
        None
    }
}
