//! Histories about writes that bypass the whole cache.

use super::dice::Dice;
use super::{Mix, Setup};
use crate::model::Fault;
use block::{Durability, WriteMode};

/// Leaves only plain writes and flushes, in the mode in which nothing is cached.
fn bypass_all(setup: &mut Setup) {
    setup.engine.mode = WriteMode::None;
    (setup.mode_switches, setup.sets) = (0, 0);
    setup.mix = Mix { fua: 0, zero: 0, discard: 0, flush: setup.mix.flush.max(3), ..setup.mix };
}

impl Dice {
    /// In one history of twelve, the disk answers immediately, no copy of a write-through is held,
    /// and the guard switches often: some writes bypass the whole cache, beside fetches and other
    /// changes, and between writes that are absorbed. In half of these histories, all changes
    /// bypass it. Half of the disks fail a flush, and half may fail a flush in which the process is
    /// killed.
    pub(super) fn plan_direct_writes(&mut self, setup: &mut Setup) {
        if setup.faults.may_hang() || !self.0.one_in(12) {
            return;
        }
        setup.model.answers_now = true;
        let engine = &mut setup.engine;
        engine.fill_cost_ns = 100_000_000;
        engine.durability = Durability::Flush;
        let modes = [WriteMode::BackNow, WriteMode::BackNow, WriteMode::Back, WriteMode::Through];
        engine.mode = self.pick(&modes);
        engine.retry_time_ns = self.pick(&[engine.retry_time_ns, 20_000_000]);
        setup.bypasses = self.pick(&[6, 20, 40]);
        setup.lanes = setup.lanes.max(2);
        setup.clients = setup.clients.max(self.number_between(2, 5));
        setup.mix.read = setup.mix.read.max(4);
        setup.mix.flush = setup.mix.flush.max(self.number_between(1, 4));
        if self.0.one_in(2) {
            setup.faults.flush = Fault { from: self.number_between(2, 8), count: 1 };
        }
        if self.0.one_in(2) {
            setup.faults.late_flush = true;
            setup.takeovers = setup.takeovers.max(self.number_between(1, 3));
        }
        if self.0.one_in(2) {
            bypass_all(setup);
            // Until a flush succeeds, the first write of each lane, which is not direct, leaves a
            // doubt in any case.
            setup.kills_after_flush = setup.faults.late_flush;
        }
    }
}
