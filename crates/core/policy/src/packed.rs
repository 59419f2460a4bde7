//! Small numbers, one per slot, packed into words.

use alloc::vec::Vec;

/// A number of `BITS` bits (a power of two) per slot; initially 0.
pub(crate) struct Packed<const BITS: u32>(Vec<u64>);

impl<const BITS: u32> Packed<BITS> {
    /// For no slots.
    pub(crate) const EMPTY: Packed<BITS> = Packed(Vec::new());
    const A_WORD: u32 = u64::BITS / BITS;
    const MASK: u64 = (1 << BITS) - 1;

    /// For `slots` slots.
    pub(crate) fn new(slots: u32) -> Packed<BITS> {
        let mut packed = Packed::EMPTY;
        packed.resize(slots);
        packed
    }

    fn place(slot: u32) -> (usize, u32) {
        ((slot / Self::A_WORD) as usize, slot % Self::A_WORD * BITS)
    }

    #[inline]
    pub(crate) fn get(&self, slot: u32) -> u64 {
        let (word, shift) = Self::place(slot);
        self.0[word] >> shift & Self::MASK
    }

    #[inline]
    pub(crate) fn set(&mut self, slot: u32, value: u64) {
        let (word, shift) = Self::place(slot);
        let word = &mut self.0[word];
        *word = *word & !(Self::MASK << shift) | (value & Self::MASK) << shift;
    }

    /// Sets a number. Returns its old value.
    #[inline]
    pub(crate) fn replace(&mut self, slot: u32, value: u64) -> u64 {
        let old = self.get(slot);
        self.set(slot, value);
        old
    }

    /// Changes the number of slots.
    pub(crate) fn resize(&mut self, slots: u32) {
        self.0.resize(slots.div_ceil(Self::A_WORD) as usize, 0);
    }
}

impl Packed<4> {
    /// Halves all numbers.
    pub(crate) fn halve(&mut self) {
        for word in &mut self.0 {
            *word = *word >> 1 & 0x7777_7777_7777_7777;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_number_changes_no_other_and_halves_are_rounded_down() {
        let mut packed = Packed::<4>::new(40);
        for slot in 0..40 {
            packed.set(slot, u64::from(slot) % 16);
        }
        assert_eq!(packed.replace(17, 15), 1);
        assert_eq!((packed.get(16), packed.get(17), packed.get(18)), (0, 15, 2));
        packed.halve();
        assert_eq!((packed.get(15), packed.get(17), packed.get(18)), (7, 7, 1));
    }
}
