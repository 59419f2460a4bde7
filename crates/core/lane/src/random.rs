//! A small seeded generator, the source of all choices of a simulated world; and the mixer of bits
//! that it consists of. No other crate has a copy of either.

/// Distance of the generator's states: 2^64 divided by the golden ratio, and odd, so that a counter
/// with this step visits every number.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// Scrambles a number: each bit of the result depends on all bits of the number. No two numbers
/// have the same result; that of zero is zero.
///
/// The finalizer of SplitMix64 (see [`Random`]). Its constants are variant 13 of D. Stafford,
/// "Better bit mixing: improving on MurmurHash3's 64-bit finalizer" (2011).
#[inline]
pub fn mix_bits(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

/// SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number generators", OOPSLA 2014).
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// Creates a generator whose whole sequence follows from `seed`.
    pub fn new(seed: u64) -> Random {
        Random(seed)
    }

    /// Returns the next 64 bits.
    #[inline]
    pub fn next_u64(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(STEP);
        mix_bits(self.0)
    }

    /// Returns the 64 bits of the `number`th call of [`Random::next_u64`] on a new generator of
    /// this seed, counted from 1.
    #[inline]
    pub fn nth(seed: u64, number: u64) -> u64 {
        mix_bits(seed.wrapping_add(number.wrapping_mul(STEP)))
    }

    /// Returns a number below `bound` (which is not zero); the bias is below 2^-32 for bounds below
    /// 2^32.
    #[inline]
    pub fn below(&mut self, bound: u64) -> u64 {
        ((u128::from(self.next_u64()) * u128::from(bound)) >> 64) as u64
    }

    /// Returns true once in `times` calls, on average.
    #[inline]
    pub fn one_in(&mut self, times: u64) -> bool {
        self.below(times) == 0
    }

    /// Returns a separate generator for a part of the work.
    pub fn fork(&mut self) -> Random {
        Random(self.next_u64())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_those_of_the_published_generator() {
        // The first two of seed 1234567, as in the reference implementation in C by S. Vigna.
        let wanted = [6_457_827_717_110_365_317, 3_203_168_211_198_807_973];
        let mut random = Random::new(1_234_567);
        assert_eq!([(); 2].map(|()| random.next_u64()), wanted);
        assert_eq!([1, 2].map(|number| Random::nth(1_234_567, number)), wanted);
        assert_eq!((mix_bits(0), Random::nth(7, 0)), (0, mix_bits(7)));
    }
}
