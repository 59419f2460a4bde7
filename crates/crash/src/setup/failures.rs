//! Histories about failures: a disk that fails or hangs, and what an operator does then.

use super::Setup;
use super::dice::Dice;
use crate::model::{Fault, HANGS_FOR_EVER};
use block::Fua;

impl Dice {
    /// One history in four is about a disk that does not answer, and about an operator who does.
    pub(super) fn hangs(&mut self, setup: &mut Setup) {
        if !self.0.one_in(4) {
            return;
        }
        let hang = |dice: &mut Dice, one_in, among| match dice.0.one_in(one_in) {
            true => Fault { from: dice.within(1, among), count: dice.pick(&[1, 1, 2, 4]) },
            false => Fault::default(),
        };
        setup.faults.hang = match self.0.one_in(3) {
            // Writes alone: what the volume has failed over, and what lands when nothing waits any more.
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
        setup.mix.fua = self.within(1, 4);
        setup.clears = self.within(1, 6);
        setup.discards = self.within(0, 2);
        setup.limits = setup.limits.few();
    }

    /// Half of those have an operator who sees soon that the volume has failed, and clears that while the disk
    /// still hangs.
    pub(super) fn looks(&mut self, setup: &mut Setup) {
        if setup.faults.hang_ns > 0 && self.0.one_in(2) {
            setup.looks = self.within(8, 24);
        }
    }

    /// One history in eight is about an operator who discards: again and again something fails.
    pub(super) fn discards(&mut self, setup: &mut Setup) {
        if !self.0.one_in(8) {
            return;
        }
        let among = setup.operations / 2;
        setup.faults.write = Fault { from: self.within(1, among), count: self.pick(&[1, 5, 20]) };
        setup.faults.flush = Fault { from: self.within(1, 6), count: self.pick(&[0, 1, 1]) };
        setup.engine.retry_time_ns = 0;
        setup.mix.read = 6;
        setup.mix.flush = setup.mix.flush.max(1);
        setup.clients = self.within(1, 2);
        setup.clears = self.within(0, 1);
        setup.discards = self.within(4, 8);
        setup.limits = setup.limits.few();
    }

    /// One history in six is about flushes: many of them, of every kind, some of which fail.
    pub(super) fn flushes(&mut self, setup: &mut Setup) {
        if !self.0.one_in(6) {
            return;
        }
        setup.model.fua = self.pick(&[Fua::None, Fua::None, Fua::Native]);
        setup.faults.flush = Fault { from: self.within(1, 8), count: self.pick(&[1, 1, 2]) };
        setup.engine.retry_time_ns = self.pick(&[1_000_000, 20_000_000]);
        setup.mix.fua = self.within(2, 5);
        setup.mix.flush = self.within(1, 4);
        setup.clients = setup.clients.max(2);
        setup.clears = self.pick(&[0, 1, 2]);
        setup.takeovers = setup.takeovers.max(1);
    }
}
