//! Recently evicted blocks, as fingerprints of 16 bits: two bytes each.
//!
//! A block's fingerprint is stored in a bucket of sixteen, in which a new one replaces the oldest.
//! So a fingerprint stays until sixteen others are added to its bucket: on average, that is as many
//! additions as the total capacity, plus or minus a quarter. One in 4,000 new blocks is mistaken
//! for an evicted one, and enters the main part unproven.

use crate::Hash;
use alloc::vec::Vec;

const WAYS: usize = 16;
/// An empty entry.
const NONE: u16 = 0;

pub(crate) struct Fingerprints(Vec<[u16; WAYS]>);

impl Fingerprints {
    /// Creates an empty set for about `length_max` blocks.
    pub(crate) fn new(length_max: u32) -> Fingerprints {
        let mut buckets = Vec::new();
        buckets.resize((length_max as usize).div_ceil(WAYS), [NONE; WAYS]);
        Fingerprints(buckets)
    }

    /// All fingerprints, bucket by bucket. Any numbers are valid.
    pub(crate) fn all(&self) -> &[u16] {
        self.0.as_flattened()
    }

    /// The same, to restore them.
    pub(crate) fn all_mut(&mut self) -> &mut [u16] {
        self.0.as_flattened_mut()
    }

    /// Returns a block's bucket, and its fingerprint there.
    #[inline]
    fn place(&self, hash: Hash) -> (usize, u16) {
        let bits = hash.bits();
        let bucket = ((u128::from(bits) * self.0.len() as u128) >> 64) as usize;
        // The low bits: the high ones have selected the bucket.
        (bucket, (bits as u16).max(1))
    }

    /// Removes a block. Returns whether it was there.
    #[inline]
    pub(crate) fn remove(&mut self, hash: Hash) -> bool {
        let (bucket, name) = self.place(hash);
        let Some(names) = self.0.get_mut(bucket) else { return false };
        let found = names.iter().position(|&other| other == name);
        if let Some(found) = found {
            names.copy_within(..found, 1);
            names[0] = NONE;
        }
        found.is_some()
    }

    /// Adds a block as the newest of its bucket, and removes the oldest one there.
    #[inline]
    pub(crate) fn push(&mut self, hash: Hash) {
        let (bucket, name) = self.place(hash);
        if let Some(names) = self.0.get_mut(bucket) {
            names.copy_within(1.., 0);
            names[WAYS - 1] = name;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_stays_for_about_as_many_as_are_kept() {
        let mut ghosts = Fingerprints::new(16_000);
        (0..40_000).for_each(|block| ghosts.push(Hash::of(block)));
        let mut kept = |blocks: core::ops::Range<u64>| {
            let all = blocks.end - blocks.start;
            blocks.filter(|&block| ghosts.remove(Hash::of(block))).count() as u64 * 100 / all
        };
        assert!(kept(32_000..40_000) >= 98);
        assert!((35..65).contains(&kept(23_500..24_500)));
        assert_eq!(kept(0..10_000), 0);
        assert_eq!(kept(32_000..40_000), 0, "each is taken out once");
    }

    #[test]
    fn one_in_4000_is_taken_for_another_and_none_is_kept_without_room() {
        let mut ghosts = Fingerprints::new(16_000);
        (0..40_000).for_each(|block| ghosts.push(Hash::of(block)));
        let taken =
            (1 << 40..(1 << 40) + 1_000_000).filter(|&block| ghosts.remove(Hash::of(block)));
        assert!((100..400).contains(&taken.count()));
        let mut none = Fingerprints::new(0);
        none.push(Hash::of(1));
        assert!(!none.remove(Hash::of(1)));
    }
}
