//! A bit for each slot of a shard.

use alloc::boxed::Box;
use alloc::vec;

/// One bit per slot, initially clear.
pub(crate) struct Bits(Box<[u64]>);

impl Bits {
    pub(crate) fn new(slots: u32) -> Bits {
        Bits(vec![0; slots.div_ceil(64) as usize].into_boxed_slice())
    }

    pub(crate) fn get(&self, slot: u32) -> bool {
        self.0[slot as usize / 64] >> (slot % 64) & 1 != 0
    }

    pub(crate) fn set(&mut self, slot: u32, to: bool) {
        let (word, bit) = (&mut self.0[slot as usize / 64], 1 << (slot % 64));
        *word = if to { *word | bit } else { *word & !bit };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_slot_has_a_bit_of_its_own() {
        let mut bits = Bits::new(130);
        for slot in [0, 63, 64, 129] {
            bits.set(slot, true);
        }
        assert_eq!((0..130).filter(|&slot| bits.get(slot)).count(), 4);
        bits.set(64, false);
        bits.set(64, false);
        assert_eq!(
            (0..130).filter(|&slot| bits.get(slot)).collect::<alloc::vec::Vec<_>>(),
            [0, 63, 129]
        );
    }
}
