//! Stamps: 16 bytes that represent a sector's 512 bytes in the laboratory.
//!
//! ```text
//! | operation u32 | sector u32 | checksum u64 |      16 bytes, little endian; zeros are zeros
//! ```
//! A stamp names the operation that wrote it and the sector it was written for, so that any data
//! found names its origin. No log is needed to distinguish torn, foreign or stale data.

use lane::mix_bits;
use std::fmt;

/// Bytes in a stamp: the grain of every buffer in the laboratory.
pub const GRAIN: usize = 16;

/// The name of an operation within its history.
pub type Operation = u32;

/// The contents of a disk before the first operation.
pub const INITIAL: Operation = 0;

/// Zeros, which do not name their operation.
pub const ZERO: Operation = 1;

/// The name of the first operation of a history.
pub const FIRST: Operation = 2;

/// Bytes that are no stamp of the sector they were found in.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Wrong {
    /// A good stamp of another sector.
    Foreign {
        /// The operation that wrote it.
        operation: Operation,
        /// Its sector.
        sector: u32,
    },
    /// Not a stamp at all.
    Garbage,
}

/// Mixes two words into one.
pub(crate) fn mix(one: u64, two: u64) -> u64 {
    mix_bits(one.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ two.rotate_left(32))
}

fn checksum(operation: Operation, sector: u32) -> u64 {
    // Never zero, so that no stamp looks like zeros.
    mix(u64::from(operation) << 32 | u64::from(sector), 0x0dd5) | 1 << 63
}

/// Returns the stamp that `operation` leaves in `sector`.
pub fn encode(operation: Operation, sector: u32) -> [u8; GRAIN] {
    let mut bytes = [0; GRAIN];
    bytes[..4].copy_from_slice(&operation.to_le_bytes());
    bytes[4..8].copy_from_slice(&sector.to_le_bytes());
    bytes[8..].copy_from_slice(&checksum(operation, sector).to_le_bytes());
    bytes
}

/// Reads the stamp found in `sector`.
///
/// # Errors
/// If it is not a stamp of this sector.
#[inline]
pub fn decode(bytes: &[u8], sector: u32) -> Result<Operation, Wrong> {
    let bytes: &[u8; GRAIN] = bytes.try_into().expect("a stamp has 16 bytes");
    let both = u128::from_le_bytes(*bytes);
    if both == 0 {
        return Ok(ZERO);
    }
    let (operation, written, sum) = (both as u32, (both >> 32) as u32, (both >> 64) as u64);
    if sum != checksum(operation, written) {
        return Err(Wrong::Garbage);
    }
    if written != sector {
        return Err(Wrong::Foreign { operation, sector: written });
    }
    Ok(operation)
}

/// Fills `bytes` with the stamps of `operation` for consecutive sectors from `first` on.
pub fn fill(bytes: &mut [u8], operation: Operation, first: u32) {
    for (index, stamp) in bytes.chunks_exact_mut(GRAIN).enumerate() {
        stamp.copy_from_slice(&encode(operation, first + index as u32));
    }
}

/// Returns a 64-bit digest of some stamps, to distinguish contents.
pub(crate) fn digest(bytes: &[u8]) -> u64 {
    let words = bytes.chunks_exact(8);
    words.fold(0x0dd5, |hash, word| {
        let word = u64::from_le_bytes(word.try_into().expect("eight bytes"));
        (hash ^ word).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29)
    })
}

/// Folds a word into a fingerprint: both halves of the product, so that every bit of the word
/// affects the result.
fn fold(hash: u64, word: u64) -> u64 {
    let product = u128::from(hash ^ word) * 0x9e37_79b9_7f4a_7c15;
    (product as u64 ^ (product >> 64) as u64).rotate_left(29)
}

/// Returns 128 bits that distinguish contents over a long time: a digest of the first halves of all
/// stamps, and one of the second halves.
pub(crate) fn fingerprint(bytes: &[u8]) -> u128 {
    let (mut one, mut two) = (0x0dd5, 0xd15c);
    for stamp in bytes.chunks_exact(GRAIN) {
        let both = u128::from_le_bytes(stamp.try_into().expect("a stamp has 16 bytes"));
        (one, two) = (fold(one, both as u64), fold(two, (both >> 64) as u64));
    }
    u128::from(one) << 64 | u128::from(two)
}

/// Stamps as text: the operations from sector `.0` on, each with its number of sectors.
pub(crate) struct Shown<'a>(pub(crate) u32, pub(crate) &'a [u8]);

impl fmt::Display for Shown<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut runs: Vec<(String, u32)> = Vec::new();
        for (sector, bytes) in (self.0..).zip(self.1.chunks_exact(GRAIN)) {
            let name = match decode(bytes, sector) {
                Ok(ZERO) => "zeros".to_string(),
                Ok(operation) => operation.to_string(),
                Err(wrong) => format!("{wrong:?}"),
            };
            match runs.last_mut() {
                Some((last, count)) if *last == name => *count += 1,
                _ => runs.push((name, 1)),
            }
        }
        runs.iter().try_for_each(|(name, count)| write!(f, " {name}x{count}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_stamp_shows_where_it_belongs() {
        let stamp = encode(7, 30);
        assert_eq!(decode(&stamp, 30), Ok(7));
        let foreign = Wrong::Foreign { operation: 7, sector: 30 };
        assert_eq!(decode(&stamp, 31), Err(foreign));
        assert_eq!(decode(&[0; GRAIN], 31), Ok(ZERO));
        assert_eq!(decode(&encode(INITIAL, 0), 0), Ok(INITIAL));
    }

    #[test]
    fn every_flipped_bit_is_seen() {
        for bit in 0..GRAIN * 8 {
            let mut stamp = encode(9, 12);
            stamp[bit / 8] ^= 1 << (bit % 8);
            assert!(decode(&stamp, 12).is_err(), "bit {bit}");
        }
    }
}
