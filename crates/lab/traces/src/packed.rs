//! A file that is compressed by zstd in parts, so that one that was cut off can be read.

use ruzstd::encoding::{CompressionLevel, compress_to_vec};
use std::io::{Result, Write};

/// Bytes that are compressed together.
const PART_BYTES: usize = 1 << 20;

/// A writer that compresses: every part is a whole frame of zstd (RFC 8878), which follows the one
/// before.
pub struct Packed<W: Write> {
    into: W,
    part: Vec<u8>,
}

impl<W: Write> Packed<W> {
    /// Returns a writer of compressed data to `into`.
    pub fn new(into: W) -> Packed<W> {
        Packed { into, part: Vec::with_capacity(PART_BYTES) }
    }

    /// Writes the rest, and returns the writer below.
    ///
    /// # Errors
    /// Those of the writer below.
    pub fn finish(mut self) -> Result<W> {
        self.end_part()?;
        Ok(self.into)
    }

    fn end_part(&mut self) -> Result<()> {
        if !self.part.is_empty() {
            let frame = compress_to_vec(&self.part[..], CompressionLevel::Fastest);
            self.into.write_all(&frame)?;
            self.part.clear();
        }
        Ok(())
    }
}

impl<W: Write> Write for Packed<W> {
    fn write(&mut self, bytes: &[u8]) -> Result<usize> {
        let taken = bytes.len().min(PART_BYTES - self.part.len());
        self.part.extend_from_slice(&bytes[..taken]);
        if self.part.len() == PART_BYTES {
            self.end_part()?;
        }
        Ok(taken)
    }

    /// Ends the current part.
    fn flush(&mut self) -> Result<()> {
        self.end_part()
    }
}
