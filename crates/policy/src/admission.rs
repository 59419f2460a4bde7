//! Whether keeping a miss would pay.
//!
//! Keeping costs a copy into cold memory and an eviction; it pays by later hits, if there are any.
//! While slots are free, a miss over a slow backing is always kept. Once the cache is full, keeping
//! must be earned by the hit ratio; over a backing so fast that keeping costs a good part of a miss,
//! always. What has not earned it is not shut out: one miss in sixteen is kept all the same
//! (bimodal insertion: M. Qureshi et al., "Adaptive Insertion Policies for High Performance
//! Caching", ISCA 2007), so a working set that fits finds its way in, shows hits, and opens the door.

/// The estimate of a shard.
#[derive(Clone, Copy, Default)]
pub struct Admission {
    reads: u32,
    hits: u32,
    declined: u32,
}

/// What a miss meets.
#[derive(Clone, Copy)]
pub struct Prospect {
    /// Latency of the backing's reads, if it was measured.
    pub backing_ns: Option<u64>,
    /// What keeping costs.
    pub cost_ns: u64,
    /// Nothing would have to go for it.
    pub has_room: bool,
}

/// Reads after which the older half of the memory fades.
const WINDOW: u32 = 4096;
/// Below this many the cache gives itself the benefit of the doubt.
const ENOUGH: u32 = 256;
/// Of so many misses that have not earned it, one is kept.
const DOOR: u32 = 16;
/// The share of hits that a full cache must show, as one in so many.
const HITS_ONE_IN: u32 = 32;
/// A backing that is slower than so many times the cost of keeping is slow.
const SLOW: u64 = 20;

/// Whether a backing that takes so long for a request is slow beside what keeping a block costs.
#[inline]
pub fn is_slow(backing_ns: u64, cost_ns: u64) -> bool {
    backing_ns > cost_ns.saturating_mul(SLOW)
}

impl Admission {
    /// A read was answered from memory, or was not.
    #[inline]
    pub fn saw(&mut self, hit: bool) {
        self.reads += 1;
        self.hits += u32::from(hit);
        if self.reads >= WINDOW {
            self.reads /= 2;
            self.hits /= 2;
        }
    }

    /// Whether misses pay to be kept.
    #[inline]
    pub fn pays(&self, prospect: &Prospect) -> bool {
        if self.reads < ENOUGH || prospect.cost_ns == 0 {
            return true;
        }
        match prospect.backing_ns {
            Some(backing_ns) if !is_slow(backing_ns, prospect.cost_ns) => {
                u64::from(self.hits) * backing_ns > u64::from(self.reads) * prospect.cost_ns
            }
            _ => prospect.has_room || self.hits * HITS_ONE_IN >= self.reads,
        }
    }

    /// Whether this miss, which does not pay, is kept all the same.
    #[inline]
    pub fn opens(&mut self) -> bool {
        self.declined += 1;
        self.declined.is_multiple_of(DOOR)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn after(reads: u32, hits: u32) -> Admission {
        let mut admission = Admission::default();
        (0..reads).for_each(|read| admission.saw(read < hits));
        admission
    }

    #[test]
    fn a_fast_backing_must_be_earned_and_a_slow_one_fills_what_is_free() {
        let prospect = |backing_ns, has_room| Prospect {
            backing_ns: Some(backing_ns),
            cost_ns: 400,
            has_room,
        };
        let cold = after(1000, 0);
        assert!(!cold.pays(&prospect(0, true)));
        assert!(!cold.pays(&prospect(5_000, true)));
        assert!(cold.pays(&prospect(50_000, true)));
        assert!(!cold.pays(&prospect(50_000, false)), "full, and nothing is ever read again");
        let warm = after(1000, 500);
        assert!(warm.pays(&prospect(5_000, false)));
        assert!(warm.pays(&prospect(50_000, false)));
        assert!(!warm.pays(&prospect(100, false)), "even a hit saves less than it costs");
        assert!(after(10, 0).pays(&prospect(0, false)), "too early to say");
    }

    #[test]
    fn the_door_stays_open_a_little() {
        let mut admission = after(1000, 0);
        assert_eq!((0..160).filter(|_| admission.opens()).count(), 10);
    }
}
