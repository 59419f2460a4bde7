//! Whether reading a list back pays: the decision that misses are subject to, with the use that
//! clients have made of its blocks until now.

use super::Warming;
use crate::bypass::balance::{Pressure, Reads, admitting, is_slow};
use crate::stats::counters::Counters;
use core::sync::atomic::Ordering;

/// Minimum number of blocks, both cached by the list and admitted for clients, for a judgement.
const ENOUGH: u64 = 4096;

/// Minimum number of blocks that were cached by the start-up list and lie behind the guest, for a
/// judgement.
const ENOUGH_BEHIND: u64 = 1024;

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
    /// Ends reading where it does not pay.
    pub(crate) fn judge(&self, counted: &Counters, evidence: &Evidence, now_ns: u64) {
        if self.is_ranking_read() && !self.pays(counted, evidence) {
            self.stop_ranking(now_ns);
        }
        if let Some(beyond) = self.starting.beyond_guest()
            && !start_up_pays(counted, evidence, beyond)
        {
            self.starting.stop();
        }
    }

    pub(super) fn pays(&self, counted: &Counters, evidence: &Evidence) -> bool {
        // The counters may be older than a list that has begun since.
        let before = self.filled_before.load(Ordering::Relaxed);
        let filled = counted.blocks_filled.saturating_sub(before);
        let Counters { warm_used, warm_cached, .. } = *counted;
        let is_judged = filled >= ENOUGH && warm_cached >= ENOUGH;
        let uses = || expected_uses(warm_used, warm_cached, filled, evidence.slots);
        fetching_pays(counted, evidence, is_judged.then(uses))
    }
}

/// Whether the start-up list pays, of which `beyond` blocks were taken that the guest has not
/// reached.
pub(super) fn start_up_pays(counted: &Counters, evidence: &Evidence, beyond: u64) -> bool {
    let behind = counted.start_cached.saturating_sub(beyond);
    let uses = || (counted.start_used as f64 / behind as f64).min(1.0);
    fetching_pays(counted, evidence, (behind >= ENOUGH_BEHIND).then(uses))
}

/// Whether it pays to fetch blocks of which each has this number of uses (None: not known yet).
fn fetching_pays(counted: &Counters, evidence: &Evidence, uses: Option<f64>) -> bool {
    let Counters { backing_read_ns: backing_ns, hit_ns, .. } = *counted;
    let copy_ns = evidence.copy_ns;
    if backing_ns == 0 || copy_ns == 0 {
        return true;
    }
    if !is_slow(backing_ns, copy_ns) {
        return false;
    }
    let pays = |uses| {
        admitting(&Reads { backing_ns, hit_ns, copy_ns }, uses, evidence.pressure).pays(false)
    };
    uses.is_none_or(pays)
}
