//! The checksum of an object.
//!
//! Its seed is the block's number, the codec and the length, so an object that belongs to another
//! block has another checksum as well. It has [`CHECK_BITS`] bits, as many as a header has left:
//! damaged bytes pass with a probability of 2^-22 (one in 4 million).
//!
//! A cyclic redundancy check without the processor's own instructions, which need `unsafe`, takes
//! about as long as decoding LZ4. This one multiplies 8 bytes at a time, as wyhash does (Wang Yi,
//! "wyhash", 2019): a product of 128 bits is folded to its halves' difference. Four independent
//! lanes keep the multiplier busy.

use super::Codec;

/// Bits of a checksum.
pub(crate) const CHECK_BITS: u32 = 22;

const LANES: usize = 4;
const WORD: usize = 8;
/// Odd constants with as many ones as zeros: digits of the golden ratio and of square roots.
const KEYS: [u64; LANES] =
    [0x9e37_79b9_7f4a_7c15, 0xbb67_ae85_84ca_a73b, 0x3c6e_f372_fe94_f82b, 0xa54f_f53a_5f1d_36f1];

fn fold(one: u64, two: u64) -> u64 {
    let product = u128::from(one) * u128::from(two);
    product as u64 ^ (product >> 64) as u64
}

fn words(bytes: &[u8]) -> [u64; LANES] {
    let mut words = [0; LANES];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks(WORD)) {
        let mut padded = [0; WORD];
        padded[..bytes.len()].copy_from_slice(bytes);
        *word = u64::from_le_bytes(padded);
    }
    words
}

/// Returns the checksum of a block's object.
pub(super) fn check(block: u64, codec: Codec, object: &[u8]) -> u32 {
    let seed = fold(block ^ KEYS[0], (object.len() as u64) << 8 | codec as u64 | KEYS[1] << 32);
    let mut lanes = KEYS.map(|key| key ^ seed);
    let mut mix = |stripe: [u64; LANES]| {
        for ((lane, word), key) in lanes.iter_mut().zip(stripe).zip(KEYS) {
            *lane = fold(*lane ^ word, key) ^ word.rotate_left(29);
        }
    };
    let stripes = object.chunks_exact(LANES * WORD);
    let rest = stripes.remainder();
    stripes.for_each(|stripe| mix(words(stripe)));
    mix(words(rest));
    let sum = lanes.into_iter().zip(KEYS).fold(seed, |sum, (lane, key)| fold(sum ^ lane, key));
    (sum >> (u64::BITS - CHECK_BITS)) as u32
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn changes_of_an_object_are_detected() {
        let object: Vec<u8> = (0..500_u32).map(|at| ((at * at) >> 3) as u8).collect();
        let sound = check(7, Codec::Lz4, &object);
        let mut passed = 0;
        for bit in 0..object.len() * 8 {
            let mut damaged = object.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            passed += u32::from(check(7, Codec::Lz4, &damaged) == sound);
        }
        for end in 0..object.len() {
            let mut torn = object.clone();
            torn[end..].fill(0);
            passed += u32::from(torn != object && check(7, Codec::Lz4, &torn) == sound);
            passed += u32::from(check(7, Codec::Lz4, &object[..end]) == sound);
        }
        for block in 8..10_000 {
            passed += u32::from(check(block, Codec::Lz4, &object) == sound);
        }
        passed += u32::from(check(7, Codec::Zstd, &object) == sound);
        // 15,000 trials, each of which passes once in 4 million.
        assert_eq!(passed, 0);
        assert_eq!(sound >> CHECK_BITS, 0);
    }

    #[test]
    fn checksums_use_all_their_values_alike() {
        let mut counts = [0u32; 64];
        let blocks = 64_000;
        for block in 0..blocks {
            counts[check(block, Codec::Lz4, b"the same object") as usize >> (CHECK_BITS - 6)] += 1;
        }
        // 1000 each, with a standard deviation of 32.
        assert!(counts.iter().all(|count| (800..1200).contains(count)), "{counts:?}");
    }
}
