//! Whether reading the list back pays: the decision that misses are subject to, with the use that
//! clients have made of its blocks until now.

use super::Warming;
use crate::bypass::balance::{Pressure, Reads, admitting, is_slow};
use crate::stats::counters::Counters;
use core::sync::atomic::Ordering;

/// Minimum number of blocks, both cached by the list and admitted for clients, for a judgement.
const ENOUGH: u64 = 4096;

/// The measurements of a volume for the judgement.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Evidence {
    /// The CPU pressure.
    pub(crate) pressure: Pressure,
    /// Cost of admitting a block, in nanoseconds.
    pub(crate) copy_ns: u64,
    /// The cache's slots.
    pub(crate) slots: u32,
}

/// Returns the expected number of first reads of a listed block before it is evicted. A block
/// stays until clients have had about as many blocks admitted as there are slots.
fn expected_uses(used: u64, cached: u64, filled: u64, slots: u32) -> f64 {
    let so_far = used as f64 / cached.max(1) as f64;
    (so_far * f64::from(slots) / filled.max(1) as f64).min(1.0)
}

impl Warming {
    /// Ends reading if it does not pay.
    pub(crate) fn judge(&self, counted: &Counters, evidence: &Evidence, now_ns: u64) {
        if self.is_reading() && !self.pays(counted, evidence) {
            self.stop(now_ns);
        }
    }

    pub(super) fn pays(&self, counted: &Counters, evidence: &Evidence) -> bool {
        let Counters { backing_read_ns: backing_ns, hit_ns, warm_used, warm_cached, .. } = *counted;
        let copy_ns = evidence.copy_ns;
        if backing_ns == 0 || copy_ns == 0 {
            return true;
        }
        if !is_slow(backing_ns, copy_ns) {
            return false;
        }
        let filled = counted.blocks_filled - self.filled_before.load(Ordering::Relaxed);
        if filled < ENOUGH || warm_cached < ENOUGH {
            return true;
        }
        let uses = expected_uses(warm_used, warm_cached, filled, evidence.slots);
        admitting(&Reads { backing_ns, hit_ns, copy_ns }, uses, evidence.pressure).pays(false)
    }
}
