//! Histories about failures: a disk that fails or hangs, and the operator's reaction.

use super::dice::Dice;
use super::{Mix, Setup};
use crate::model::{Fault, HANGS_FOR_EVER};
use block::{Durability, Fua, WriteMode};

impl Dice {
    /// In one history of four, the disk does not answer, and an operator reacts.
    pub(super) fn plan_hangs(&mut self, setup: &mut Setup) {
        if !self.0.one_in(4) {
            return;
        }
        let hang = |dice: &mut Dice, one_in, among| match dice.0.one_in(one_in) {
            true => Fault { from: dice.number_between(1, among), count: dice.pick(&[1, 1, 2, 4]) },
            false => Fault::default(),
        };
        setup.faults.hang = match self.0.one_in(3) {
            // Only writes: the volume has failed because of them, and they land after nothing waits
            // for them any more.
            true => [Fault::default(), hang(self, 1, 16), Fault::default()],
            false => [hang(self, 3, 10), hang(self, 2, 16), hang(self, 3, 4)],
        };
        let stall_time_ns = 1_000 + setup.model.latency_ns * self.pick(&[10, 40]);
        setup.engine.stall_time_ns = stall_time_ns;
        setup.faults.hang_ns = match self.pick(&[2, 5, 5, 10, 30, 0]) {
            0 => HANGS_FOR_EVER,
            times => stall_time_ns * times + self.0.below(stall_time_ns),
        };
        setup.engine.retry_time_ns = stall_time_ns * self.pick(&[0, 1]);
        setup.think_ns = stall_time_ns * self.pick(&[0, 1, 2]);
        setup.clients = setup.clients.max(3);
        setup.hot_one_in = self.pick(&[1, 1, 3]);
        setup.mix.fua = self.number_between(1, 4);
        setup.clears = self.number_between(1, 6);
        setup.discards = self.number_between(0, 2);
        setup.limits = setup.limits.reduced();
    }

    /// In half of those, an operator soon sees that the volume has failed, and clears that while
    /// the disk still hangs.
    pub(super) fn looks(&mut self, setup: &mut Setup) {
        if setup.faults.hang_ns > 0 && self.0.one_in(2) {
            setup.looks = self.number_between(8, 24);
        }
    }

    /// In one history of eight, an operator discards dirty data after repeated failures.
    pub(super) fn discards(&mut self, setup: &mut Setup) {
        if !self.0.one_in(8) {
            return;
        }
        let among = setup.operations / 2;
        setup.faults.write =
            Fault { from: self.number_between(1, among), count: self.pick(&[1, 5, 20]) };
        setup.faults.flush =
            Fault { from: self.number_between(1, 6), count: self.pick(&[0, 1, 1]) };
        setup.engine.retry_time_ns = 0;
        setup.mix.read = 6;
        setup.mix.flush = setup.mix.flush.max(1);
        setup.clients = self.number_between(1, 2);
        setup.clears = self.number_between(0, 1);
        setup.discards = self.number_between(4, 8);
        setup.limits = setup.limits.reduced();
    }

    /// One history of six has many flushes, of every kind, some of which fail.
    pub(super) fn flushes(&mut self, setup: &mut Setup) {
        if !self.0.one_in(6) {
            return;
        }
        setup.model.fua = self.pick(&[Fua::None, Fua::None, Fua::Native]);
        setup.faults.flush =
            Fault { from: self.number_between(1, 8), count: self.pick(&[1, 1, 2]) };
        setup.engine.retry_time_ns = self.pick(&[1_000_000, 20_000_000]);
        setup.mix.fua = self.number_between(2, 5);
        setup.mix.flush = self.number_between(1, 4);
        setup.clients = setup.clients.max(2);
        setup.clears = self.pick(&[0, 1, 2]);
        setup.takeovers = setup.takeovers.max(1);
    }

    /// In one history of ten, flushes fail after their process was killed, mostly over
    /// write-throughs.
    pub(super) fn late_flushes(&mut self, setup: &mut Setup) {
        if !self.0.one_in(10) {
            return;
        }
        setup.faults.late_flush = true;
        let modes = [WriteMode::Through, WriteMode::Through, WriteMode::Back, WriteMode::None];
        setup.engine.mode = self.pick(&[modes[0], modes[1], modes[2], modes[3], setup.engine.mode]);
        setup.mix.write = setup.mix.write.max(8);
        setup.mix.flush = setup.mix.flush.max(self.number_between(2, 5));
        setup.takeovers = self.number_between(1, 3);
        setup.clients = setup.clients.max(2);
        setup.engine.fill_cost_ns = self.pick(&[0, 0, setup.engine.fill_cost_ns]);
        if self.0.one_in(2) {
            self.lost_copies(setup);
        }
    }

    /// In one history of five a copy is expensive: no copy of a write-through is retained, unless
    /// it is cached for reads.
    pub(super) fn make_copies_expensive(&mut self, setup: &mut Setup) {
        if self.0.one_in(5) {
            setup.engine.fill_cost_ns = 100_000_000;
        }
    }

    /// Half of those lose retained copies only by eviction: all writes are small, and reads take
    /// their slots.
    fn lost_copies(&mut self, setup: &mut Setup) {
        let engine = &mut setup.engine;
        (engine.mode, engine.durability) = (WriteMode::Through, Durability::Flush);
        (engine.shards, engine.slots) = (1, 8);
        (engine.slots_least, engine.slots_max) = (8, 8);
        engine.dirty_blocks_max = 6;
        (engine.absorb_blocks_max, engine.readers) = (8, 0);
        setup.model.sectors = 8 * 24 * setup.model.stamps;
        setup.mix = Mix { read: 16, write: 4, flush: 2, fua: 0, zero: 0, discard: 0, status: 0 };
        (setup.mode_switches, setup.sets, setup.bypasses, setup.pairs) = (0, 0, 0, 0);
        (setup.sectors_max, setup.hot_one_in) = (setup.sectors_max.min(8), 8);
    }
}
