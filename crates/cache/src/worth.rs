//! Whether keeping a miss would pay.
//!
//! Over a slow backing it always does: keeping costs at most a twentieth of the miss. Over a fast
//! one (another cache, RAM, a null device) it must earn its cost, `hit ratio x latency > cost`,
//! where the hit ratio is that of a fixed sixteenth of all blocks, which is kept in any case: so
//! the cache notices when the workload turns.

/// The estimate of a shard.
#[derive(Clone, Copy, Default)]
pub(crate) struct Worth {
    accesses: u32,
    hits: u32,
}

/// Accesses to sampled blocks after which the older half of the memory fades.
const WINDOW: u32 = 4096;
/// Below this many the cache gives itself the benefit of the doubt.
const ENOUGH: u32 = 64;

impl Worth {
    /// A sampled block was read.
    #[inline]
    pub(crate) fn saw(&mut self, hit: bool) {
        self.accesses += 1;
        self.hits += u32::from(hit);
        if self.accesses >= WINDOW {
            self.accesses /= 2;
            self.hits /= 2;
        }
    }

    /// Whether a miss on a block that is not sampled should be kept.
    pub(crate) fn pays(&self, backing_ns: Option<u64>, cost_ns: u64) -> bool {
        let Some(backing_ns) = backing_ns else {
            return true;
        };
        if backing_ns > 20 * cost_ns || self.accesses < ENOUGH {
            return true;
        }
        u64::from(self.hits) * backing_ns > u64::from(self.accesses) * cost_ns
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fast_backing_must_be_earned_and_a_slow_one_always_pays() {
        let mut worth = Worth::default();
        (0..100).for_each(|_| worth.saw(false));
        assert!(!worth.pays(Some(0), 400));
        assert!(!worth.pays(Some(5_000), 400));
        assert!(worth.pays(Some(50_000), 400));
        assert!(worth.pays(None, 400));
        (0..100).for_each(|_| worth.saw(true));
        assert!(worth.pays(Some(5_000), 400));
        assert!(!worth.pays(Some(100), 400), "even a hit saves less than it costs");
    }
}
