//! Approximate counts of recent requests per block.
//!
//! A count-min sketch with minimal increment (G. Cormode and S. Muthukrishnan, "An improved data
//! stream summary: the count-min sketch and its applications", Journal of Algorithms 55(1), 2005;
//! C. Estan and G. Varghese, "New Directions in Traffic Measurement and Accounting", SIGCOMM 2002)
//! whose counts decay by halving (G. Einziger, R. Friedman and B. Manes, "TinyLFU: A Highly
//! Efficient Cache Admission Policy", ACM Transactions on Storage 13(4), 2017). Four rows of
//! four-bit counters, each row with one counter per slot: 2 bytes per slot. All counters are halved
//! after ten requests per slot. There is no doorkeeper.
//!
//! A block's four counters are in the same 64 bytes, which contain 32 counters of each row, so that
//! a request accesses one cache line (F. Putze, P. Sanders and J. Singler, "Cache-, Hash- and
//! Space-Efficient Bloom Filters", WEA 2007).

use crate::Hash;
use crate::packed::Packed;

/// Rows; a block has one counter in each.
const ROWS: u32 = 4;
/// Counters of a row in the same cache line.
const TOGETHER: u32 = 32;
/// Maximum of a counter.
const COUNT_MAX: u64 = 15;
/// Requests per slot after which all counts are halved.
const SAMPLE: u64 = 10;
/// The upper bits of a hash's product with this odd number select a block's cache line.
const MULTIPLIER: u64 = 0x9e37_79b9_7f4a_7c15;

/// The sketch.
pub(crate) struct Sketch {
    counters: Packed<4>,
    /// Length of a row: the number of slots, rounded up to a multiple of `TOGETHER`.
    width: u32,
    /// Requests since the counts were last halved.
    requests: u64,
}

impl Sketch {
    /// A sketch of no slots. It must be replaced before use.
    pub(crate) const EMPTY: Sketch = Sketch { counters: Packed::EMPTY, width: 0, requests: 0 };

    /// A sketch for `slots` slots, with all counts 0.
    pub(crate) fn new(slots: u32) -> Sketch {
        let lines = slots.div_ceil(TOGETHER).clamp(1, u32::MAX / ROWS / TOGETHER);
        Sketch {
            counters: Packed::new(lines * TOGETHER * ROWS),
            width: lines * TOGETHER,
            requests: 0,
        }
    }

    /// The indexes of a block's counters.
    #[inline]
    pub(crate) fn places(&self, hash: Hash) -> [u32; ROWS as usize] {
        let spread = hash.bits().wrapping_mul(MULTIPLIER);
        let line = ((spread >> 32) * u64::from(self.width / TOGETHER)) >> 32;
        // Uses the hash's own bits: the product's lower half has too few well-mixed bits.
        let within = hash.bits() >> 32;
        [0, 1, 2, 3].map(|row| {
            let place = (within >> (5 * row)) as u32 % TOGETHER;
            (line as u32 * ROWS + row) * TOGETHER + place
        })
    }

    /// Approximate number of requests for a block; never too low, apart from the halvings.
    #[inline]
    pub(crate) fn count(&self, hash: Hash) -> u64 {
        self.places(hash).map(|place| self.counters.get(place)).into_iter().min().unwrap_or(0)
    }

    /// Counts a request for a block.
    #[inline]
    pub(crate) fn add(&mut self, hash: Hash) {
        let places = self.places(hash);
        let counts = places.map(|place| self.counters.get(place));
        let least = counts.into_iter().min().unwrap_or(0);
        if least < COUNT_MAX {
            for (place, count) in places.into_iter().zip(counts) {
                if count == least {
                    self.counters.set(place, least + 1);
                }
            }
        }
        self.requests += 1;
        if self.requests >= SAMPLE * u64::from(self.width) {
            self.counters.halve();
            self.requests = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_end_at_fifteen_are_never_too_low_and_fade() {
        let mut sketch = Sketch::new(100);
        for block in 0..20 {
            for _ in 0..block {
                sketch.add(Hash::of(block));
            }
        }
        let counts: u64 = (0..20).map(|block| sketch.count(Hash::of(block))).sum();
        for block in 0..20 {
            assert!(sketch.count(Hash::of(block)) >= block.min(15), "{block}");
        }
        assert!(counts <= 180 + 2, "{counts}: hardly too high either");
        assert_eq!(sketch.count(Hash::of(1000)), 0);
        (190..1280).for_each(|_| sketch.add(Hash::of(1000)));
        assert_eq!(sketch.count(Hash::of(1000)), 7, "halved after ten requests for each of 128");
        assert_eq!(sketch.count(Hash::of(12)), 6);
    }
}
