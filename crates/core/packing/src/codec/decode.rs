//! Decompression of an object.

use super::{Codec, LENGTH_MAX, Object};
use crate::BLOCK_BYTES;
use core::fmt;

/// Room before an object, for the bytes that its codec expects there.
const PREFIX: usize = 4;

/// The bytes of an object are not those that were stored.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Damaged;

impl fmt::Display for Damaged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a compressed block is damaged")
    }
}

impl core::error::Error for Damaged {}

/// Decodes objects.
pub struct Decoder {
    #[cfg(feature = "zstd")]
    zstd: zstd_safe::DCtx<'static>,
    /// The object, behind its prefix. A private copy: no other process can change it between its
    /// check and its decoding.
    input: alloc::boxed::Box<[u8; PREFIX + LENGTH_MAX]>,
}

impl Default for Decoder {
    fn default() -> Decoder {
        Decoder::new()
    }
}

impl Decoder {
    /// Makes a decoder.
    pub fn new() -> Decoder {
        Decoder {
            #[cfg(feature = "zstd")]
            zstd: zstd_safe::DCtx::create(),
            input: alloc::boxed::Box::new([0; PREFIX + LENGTH_MAX]),
        }
    }

    /// Decodes a block. `fetch` copies its object from memory.
    ///
    /// # Errors
    /// The object has another checksum, or does not contain a whole block. The contents of `into`
    /// are then undefined.
    pub fn decode(
        &mut self,
        block: u64,
        object: &Object,
        fetch: impl FnOnce(&mut [u8]),
        into: &mut [u8; BLOCK_BYTES],
    ) -> Result<(), Damaged> {
        let length = usize::from(object.length);
        let input = self.input.get_mut(PREFIX..PREFIX + length).ok_or(Damaged)?;
        fetch(input);
        if Object::of(block, object.codec, input) != *object {
            return Err(Damaged);
        }
        let decoded = match object.codec {
            Codec::Lz4 => lz4_flex::block::decompress_into(input, into).ok(),
            Codec::Zstd => self.zstd(length, into),
        };
        if decoded == Some(BLOCK_BYTES) { Ok(()) } else { Err(Damaged) }
    }

    #[cfg(feature = "zstd")]
    fn zstd(&mut self, length: usize, into: &mut [u8; BLOCK_BYTES]) -> Option<usize> {
        self.input[..PREFIX].copy_from_slice(&super::ZSTD_MAGIC);
        self.zstd.decompress(&mut into[..], &self.input[..PREFIX + length]).ok()
    }

    /// Objects of another program's Zstandard are not readable here.
    #[cfg(not(feature = "zstd"))]
    fn zstd(&mut self, _length: usize, _into: &mut [u8; BLOCK_BYTES]) -> Option<usize> {
        None
    }
}
