//! Zipf ranks in constant memory, and blocks for them.

use lane::Random;

/// Ranks from 1 to `count` whose shares fall as `1 / rank^exponent`.
///
/// Source: W. Hörmann, G. Derflinger, "Rejection-inversion to generate variates from monotone
/// discrete distributions", ACM TOMACS 6 (1996).
#[derive(Clone, Debug)]
pub struct Zipf {
    count: f64,
    exponent: f64,
    /// The integral of the density's hat at its two ends.
    low: f64,
    high: f64,
    /// Ranks this close to the inverted point are accepted without a further test.
    near: f64,
}

impl Zipf {
    /// Returns a distribution over `count` ranks.
    ///
    /// # Panics
    /// If there are no ranks, or the exponent is not a number above zero.
    pub fn new(count: u64, exponent: f64) -> Zipf {
        assert!(count > 0 && exponent > 0.0 && exponent.is_finite());
        let mut zipf = Zipf { count: count as f64, exponent, low: 0.0, high: 0.0, near: 0.0 };
        zipf.low = zipf.integral(1.5) - 1.0;
        zipf.high = zipf.integral(zipf.count + 0.5);
        zipf.near = 2.0 - zipf.inverse(zipf.integral(2.5) - zipf.density(2.0));
        zipf
    }

    /// Draws a rank.
    pub fn draw(&self, random: &mut Random) -> u64 {
        loop {
            let point = (random.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
            let area = self.high + point * (self.low - self.high);
            let exact = self.inverse(area);
            let rank = exact.round().clamp(1.0, self.count);
            if rank - exact <= self.near || area >= self.integral(rank + 0.5) - self.density(rank) {
                return rank as u64;
            }
        }
    }

    fn density(&self, x: f64) -> f64 {
        (-self.exponent * x.ln()).exp()
    }

    fn integral(&self, x: f64) -> f64 {
        let logarithm = x.ln();
        over_own((1.0 - self.exponent) * logarithm, f64::exp_m1) * logarithm
    }

    fn inverse(&self, area: f64) -> f64 {
        // Rounding may leave the function's domain.
        let scaled = (area * (1.0 - self.exponent)).max(-1.0);
        (over_own(scaled, f64::ln_1p) * area).exp()
    }
}

/// Returns `function(x) / x`, which is 1 at 0 for the two functions used here.
fn over_own(x: f64, function: impl Fn(f64) -> f64) -> f64 {
    if x.abs() > 1e-8 { function(x) / x } else { 1.0 }
}

/// A permutation of the numbers below a bound, in constant memory: it spreads hot blocks over the
/// device.
///
/// Four Feistel rounds over the next power of four; results outside the bound are permuted again.
#[derive(Clone, Debug)]
pub struct Scramble {
    count: u64,
    half_bits: u32,
    keys: [u64; 4],
}

impl Scramble {
    /// Returns a permutation of `0..count`, drawn from the generator.
    ///
    /// # Panics
    /// If `count` is zero.
    pub fn new(count: u64, random: &mut Random) -> Scramble {
        assert!(count > 0);
        let bits = (u64::BITS - (count - 1).leading_zeros()).max(2);
        let keys = std::array::from_fn(|_| random.next_u64());
        Scramble { count, half_bits: bits.div_ceil(2), keys }
    }

    /// Returns the image of `number`.
    ///
    /// # Panics
    /// If it is not below the count.
    pub fn of(&self, number: u64) -> u64 {
        assert!(number < self.count);
        let mut place = self.round_trip(number);
        while place >= self.count {
            place = self.round_trip(place);
        }
        place
    }

    fn round_trip(&self, number: u64) -> u64 {
        let mask = (1 << self.half_bits) - 1;
        let (mut left, mut right) = (number >> self.half_bits, number & mask);
        for key in self.keys {
            let mixed = Random::new(right ^ key).next_u64() & mask;
            (left, right) = (right, left ^ mixed);
        }
        left << self.half_bits | right
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_come_as_often_as_they_should() {
        for exponent in [0.6, 1.0, 1.1, 2.0] {
            let zipf = Zipf::new(1000, exponent);
            let mut random = Random::new(3);
            let mut seen = [0u32; 1001];
            (0..200_000).for_each(|_| seen[zipf.draw(&mut random) as usize] += 1);
            let total: f64 = (1..=1000).map(|rank| f64::from(rank).powf(-exponent)).sum();
            for rank in [1usize, 2, 3, 10, 100] {
                let wanted = (rank as f64).powf(-exponent) / total * 200_000.0;
                let off = (f64::from(seen[rank]) - wanted).abs();
                assert!(off < 5.0 * wanted.sqrt() + 1.0, "{exponent}, {rank}: {}", seen[rank]);
            }
            assert_eq!(seen[0], 0);
        }
    }

    #[test]
    fn a_scramble_reaches_every_number_once() {
        for count in [1, 2, 3, 64, 1000, 4097] {
            let scramble = Scramble::new(count, &mut Random::new(count));
            let mut all: Vec<u64> = (0..count).map(|number| scramble.of(number)).collect();
            if count > 60 {
                assert_ne!(all, (0..count).collect::<Vec<_>>());
            }
            all.sort_unstable();
            assert_eq!(all, (0..count).collect::<Vec<_>>());
        }
    }
}
