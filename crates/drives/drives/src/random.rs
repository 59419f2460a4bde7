//! Pseudo-random numbers, by seed: xoshiro256** of Blackman and Vigna (2018), seeded by the
//! generator of `lane`, SplitMix64, as its authors recommend.

/// A stream of pseudo-random numbers; the same seed gives the same stream everywhere.
#[derive(Clone, Debug)]
pub struct Random {
    state: [u64; 4],
}

impl Random {
    /// Returns the stream of this seed.
    pub fn new(seed: u64) -> Random {
        let mut words = lane::Random::new(seed);
        Random { state: core::array::from_fn(|_| words.next_u64()) }
    }

    /// Returns the next 64 bits.
    #[inline]
    pub fn bits(&mut self) -> u64 {
        let [first, second, third, fourth] = &mut self.state;
        let drawn = second.wrapping_mul(5).rotate_left(7).wrapping_mul(9);
        let shifted = *second << 17;
        *third ^= *first;
        *fourth ^= *second;
        *second ^= *third;
        *first ^= *fourth;
        *third ^= shifted;
        *fourth = fourth.rotate_left(45);
        drawn
    }

    /// Returns a number from 0 to `end`, exclusive; 0 for an `end` of 0. The bias, at most `end` /
    /// 2^32, is far below the resolution of any model here.
    #[inline]
    pub fn below(&mut self, end: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(end)) >> 32) as u32
    }

    /// Returns a number from 0 to 1, exclusive.
    #[inline]
    pub fn share(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

#[cfg(test)]
mod tests {
    use super::Random;

    #[test]
    fn the_same_seed_gives_the_same_numbers_and_another_seed_others() {
        let mut streams = [Random::new(7), Random::new(7), Random::new(8)];
        let drawn = streams.each_mut().map(Random::bits);
        assert_eq!(drawn[0], drawn[1]);
        assert_ne!(drawn[0], drawn[2]);
    }

    #[test]
    fn numbers_are_spread_evenly() {
        let mut random = Random::new(1);
        let mut seen = [0; 10];
        for _ in 0..100_000 {
            seen[random.below(10) as usize] += 1;
        }
        assert!(seen.iter().all(|count| (9_500..10_500).contains(count)), "{seen:?}");
        assert!((0..1000).all(|_| (0.0..1.0).contains(&random.share())));
    }
}
