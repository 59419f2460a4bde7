//! The states in which a drive is measured: its history.

use crate::lately::{Window, quarter};
use block::DriveState;
use drives::{Fast, Random};

/// Brings a new drive into this state, by really writing to it.
pub(crate) fn reach(state: DriveState, fast: &mut Fast, window: &mut Window, seed: u64) {
    let slots = fast.ftl().shape().logical_slots;
    let all = u64::from(slots);
    let random = match state {
        DriveState::Purged => return,
        DriveState::Filled => 0,
        DriveState::Used | DriveState::Trimmed => all,
        DriveState::Steady => 4 * all,
    };
    fast.write_sequential(0, all);
    window.record_fast(fast);
    let (mut left, mut dice) = (random, Random::new(seed));
    while left > 0 {
        let count = left.min(quarter(fast.ftl()));
        fast.write_random(slots, count, &mut dice);
        window.record_fast(fast);
        left -= count;
    }
    fast.flush();
    if state == DriveState::Trimmed {
        for slot in 0..slots {
            fast.trim(slot);
        }
    }
}
