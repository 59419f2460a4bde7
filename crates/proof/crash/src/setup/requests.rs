//! Histories about kinds of requests.

use super::dice::Dice;
use super::{Mix, Scale, Setup};
use crate::model::Fault;
use block::{Discard, WriteMode};

impl Dice {
    /// One history of eight is about zeros, and about reporting them.
    pub(super) fn zeroes(&mut self, setup: &mut Setup) {
        if !self.0.one_in(8) {
            return;
        }
        setup.mix = Mix { read: 0, write: 4, fua: 0, zero: 4, discard: 1, flush: 4, status: 8 };
        setup.engine.mode = WriteMode::BackNow;
        setup.model.discard = Discard::Zeroes;
        setup.clients = self.number_between(4, 6);
        setup.hot_one_in = 1;
        setup.limits = setup.limits.reduced();
    }

    /// In one history of twelve, clients ignore blocks: requests begin and end at any stamp. Half
    /// of these have blocks of 512 bytes, of four stamps each, the others of 4096 bytes. All
    /// clients share a few blocks, and sometimes a read fails.
    pub(super) fn bytes(&mut self, setup: &mut Setup) {
        if !self.0.one_in(12) {
            return;
        }
        setup.bytes = true;
        let model = &mut setup.model;
        match self.0.one_in(2) {
            true => {
                (model.unit_sectors, model.logical_sectors, model.stamps) = (4, 4, 4);
                model.sectors = 4 * 8 * self.number_between(3, 6);
            }
            false => (model.unit_sectors, model.logical_sectors) = (8, 8),
        }
        setup.sectors_max = self.pick(&[3, 6, 12, 24]);
        setup.hot_one_in = self.pick(&[1, 1, 2]);
        setup.clients = setup.clients.max(self.number_between(2, 4));
        setup.mix.read = setup.mix.read.max(2);
        if self.0.one_in(3) {
            setup.faults.read =
                Fault { from: self.number_between(1, 20), count: self.pick(&[1, 2, 5]) };
        }
    }

    /// One history of three, of any kind, reads lists of hot blocks back.
    pub(super) fn warms(&mut self, setup: &mut Setup) {
        if self.0.one_in(3) {
            setup.warms = self.pick(&[1, 2, 6]);
            setup.engine.readers = setup.engine.readers.max(self.number_between(1, 3));
            setup.engine.fills = setup.engine.fills.max(self.number_between(2, 6));
        }
    }

    /// In one history of six, of any kind, hints about files are set, replaced and removed.
    pub(super) fn plan_hints(&mut self, setup: &mut Setup) {
        if self.0.one_in(6) {
            setup.hints = self.pick(&[1, 2, 6]);
        }
    }

    /// Half of the histories, of any kind, read ahead of streams. In one of four, clients read
    /// streams: forward, backward, interleaved, and while others change the blocks that they will
    /// read next.
    pub(super) fn streams(&mut self, setup: &mut Setup) {
        if self.0.one_in(2) {
            setup.engine.readers = self.number_between(1, 3);
            setup.engine.stream_blocks_max = self.pick(&[u32::MAX, 2, 6]);
        }
        if !self.0.one_in(4) {
            return;
        }
        setup.streams = true;
        setup.engine.readers = self.number_between(1, 3);
        setup.engine.stream_blocks_max = self.pick(&[2, 2, 6, u32::MAX]);
        setup.engine.shards = 1;
        setup.model.latency_ns = self.pick(&[10_000, 100_000]);
        if setup.scale == Scale::Swarm {
            setup.model.sectors = 8 * self.number_between(16, 40);
            setup.operations = self.number_between(100, 160);
        }
        setup.engine.fills = setup.engine.fills.max(self.number_between(3, 6));
        setup.engine.run_blocks = setup.engine.run_blocks.max(self.pick(&[2, 4]));
        setup.engine.fill_cost_ns = 0;
        setup.engine.mode = self.pick(&[WriteMode::Through, WriteMode::BackNow, setup.engine.mode]);
        setup.mix = Mix { read: self.number_between(8, 16), flush: 1, ..setup.mix };
        setup.clients = setup.clients.max(self.number_between(2, 3));
        setup.sectors_max = 8;
        setup.think_ns = self.pick(&[0, 0, 1_000, 20_000]);
        if self.0.one_in(2) {
            setup.faults.read =
                Fault { from: self.number_between(2, 40), count: self.pick(&[2, 5, 10]) };
        }
        setup.limits = setup.limits.reduced();
    }

    /// In one history of six, clients advise about later reads.
    pub(super) fn advices(&mut self, setup: &mut Setup) {
        if self.0.one_in(6) {
            setup.advices = self.pick(&[1, 4, 12]);
        }
    }

    /// In one history of four, the program itself reads as well.
    pub(super) fn plan_observers(&mut self, setup: &mut Setup) {
        if !setup.faults.may_hang() && self.0.one_in(4) {
            setup.observed_one_in = self.pick(&[1, 2, 4]);
        }
    }

    /// In one history of six, clients send changes behind changes of the same blocks.
    pub(super) fn pairs(&mut self, setup: &mut Setup) {
        if self.0.one_in(6) {
            setup.pairs = self.pick(&[1, 4, 12]);
        }
    }
}
