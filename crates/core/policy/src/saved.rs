//! The bytes in which the state of samplers is saved for the next process: numbers, little-endian.
//!
//! Any bytes can be read. The readers check what the simulations rely on, and nothing else: a state
//! of another time changes estimates only.

use alloc::vec::Vec;

/// Maximum of a count that was saved: such counts can be added without an overflow.
pub const COUNT_MAX: u64 = 1 << 56;

/// Saved bytes that were not read yet.
#[derive(Debug)]
pub struct Saved<'a>(pub &'a [u8]);

impl<'a> Saved<'a> {
    /// Takes this number of bytes.
    pub fn take(&mut self, length: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(length)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const LENGTH: usize>(&mut self) -> Option<[u8; LENGTH]> {
        self.take(LENGTH)?.try_into().ok()
    }

    /// Takes a number of one byte.
    pub fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_le_bytes)
    }

    /// Takes a number of four bytes.
    pub fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_le_bytes)
    }

    /// Takes a number of eight bytes.
    pub fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_le_bytes)
    }

    /// Takes a count of at most `max`.
    pub fn count(&mut self, max: u64) -> Option<u64> {
        self.u64().filter(|count| *count <= max)
    }

    /// Takes a count of at most `max`, of four bytes.
    pub(crate) fn small_count(&mut self, max: u32) -> Option<u32> {
        self.u32().filter(|count| *count <= max)
    }

    /// Takes a decaying count.
    pub(crate) fn decaying_count(&mut self) -> Option<f64> {
        self.u64().map(f64::from_bits).filter(|count| (0.0..=COUNT_MAX as f64).contains(count))
    }

    /// Takes fingerprints of evicted blocks, as [`put_ghosts`] wrote them.
    pub fn ghosts(&mut self) -> Option<Vec<u16>> {
        let length = self.u32()? as usize;
        let bytes = self.take(length.checked_mul(2)?)?;
        Some(bytes.chunks_exact(2).map(|pair| u16::from_le_bytes([pair[0], pair[1]])).collect())
    }
}

/// Appends numbers of four bytes.
pub fn put_u32s(bytes: &mut Vec<u8>, numbers: impl IntoIterator<Item = u32>) {
    numbers.into_iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
}

/// Appends numbers of eight bytes.
pub fn put_u64s(bytes: &mut Vec<u8>, numbers: impl IntoIterator<Item = u64>) {
    numbers.into_iter().for_each(|number| bytes.extend_from_slice(&number.to_le_bytes()));
}

/// Appends fingerprints of evicted blocks.
pub fn put_ghosts(bytes: &mut Vec<u8>, ghosts: &[u16]) {
    put_u32s(bytes, [ghosts.len() as u32]);
    // Not one by one: a shard is locked for this time.
    let start = bytes.len();
    bytes.resize(start + 2 * ghosts.len(), 0);
    for (pair, ghost) in bytes[start..].chunks_exact_mut(2).zip(ghosts) {
        pair.copy_from_slice(&ghost.to_le_bytes());
    }
}
