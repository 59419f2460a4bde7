//! Histories about a volume: its layout, its threads, and changes while it is served.

use super::dice::Dice;
use super::{Scale, Setup, WINDOW_SHARES};
use block::{Compress, WriteMode};
use cache::Format;

impl Dice {
    /// One history of four has small regions in several shards, and zeros that lie in all of them;
    /// one of twelve has an arena of the previous format.
    pub(super) fn shards(&mut self, setup: &mut Setup) {
        if !self.0.one_in(4) {
            return;
        }
        let engine = &mut setup.engine;
        engine.shards = self.pick(&[2, 4, 4]);
        engine.region_blocks = self.pick(&[1, 1, 2]);
        engine.zeros_blocks = engine.region_blocks * self.pick(&[1, 2, 8]);
        engine.slots = engine.slots.max(16);
        if self.0.one_in(3) {
            engine.format = Format::Three;
        }
        setup.mix.zero = setup.mix.zero.max(self.pick(&[1, 2, 4]));
        setup.mix.flush = setup.mix.flush.max(1);
        setup.sectors_max = setup.sectors_max.max(self.pick(&[16, 24, 40]));
    }

    /// One history of six has an arena with room for more slots than are live, and processes with
    /// more or fewer slots; one of twelve has an arena of the format before the previous one.
    pub(super) fn sizes(&mut self, setup: &mut Setup) {
        let engine = &mut setup.engine;
        (engine.slots_least, engine.slots_max) = (engine.slots, engine.slots);
        match self.number_between(0, 11) {
            0 => engine.format = Format::Two,
            1 | 2 => {
                engine.slots_max += self.number_between(1, 8) * engine.shards;
                engine.slots = self.pick(&[engine.slots, engine.slots_max]);
                setup.takeovers = setup.takeovers.max(1);
            }
            _ => {}
        }
    }

    /// In one history of twelve, the disk grows between two processes, by blocks or by parts of
    /// them, while data is dirty. Before it grows, or if it had its size from the start, it may
    /// have been truncated for a while.
    pub(super) fn plan_growth(&mut self, setup: &mut Setup) {
        if !self.0.one_in(12) {
            return;
        }
        let model = &mut setup.model;
        let unit = self.pick(&[model.logical_sectors, model.block_sectors()]);
        setup.cut = unit * self.number_between(1, model.sectors / 2 / unit);
        model.absent = self.pick(&[setup.cut, setup.cut, setup.cut, 0]);
        let engine = &mut setup.engine;
        engine.mode = self.pick(&[WriteMode::BackNow, WriteMode::BackNow, engine.mode]);
        engine.dirty_age_ns = self.pick(&[engine.dirty_age_ns, 50_000_000]);
        setup.takeovers = setup.takeovers.max(self.number_between(1, 3));
        setup.takeover_one_in = setup.takeover_one_in.min(self.pick(&[40, 100, 300]));
    }

    /// In one history of eight, evicted blocks are compressed, and the cache is much smaller than
    /// the volume. In a third of these, the disk answers immediately, so that reads may bypass the
    /// cache.
    pub(super) fn plan_compression(&mut self, setup: &mut Setup) {
        if !self.0.one_in(8) {
            return;
        }
        let engine = &mut setup.engine;
        engine.compress = match cache::HAS_ZSTD && self.0.one_in(2) {
            true => Compress::Zstd,
            false => Compress::Lz4,
        };
        // Half of the slots have compressed blocks, and a block takes two pages with its head.
        engine.shards = self.pick(&[1, 1, engine.shards.min(2)]);
        engine.slots = engine.shards * self.number_between(7, 11);
        let blocks_min = engine.slots + 4;
        let model = &mut setup.model;
        model.sectors = model.sectors.max(model.block_sectors() * blocks_min);
        // Only whole blocks are compressed.
        if model.unit_sectors == 8 && model.stamps == 1 && setup.cut == 0 && !self.0.one_in(8) {
            model.logical_sectors = 8;
        }
        if setup.scale == Scale::Swarm {
            setup.operations *= 2;
        }
        (engine.slots_least, engine.slots_max) = (engine.slots, engine.slots);
        engine.dirty_blocks_max = self.number_between(2, engine.slots / 2);
        engine.mode = self.pick(&[WriteMode::BackNow, WriteMode::Through, engine.mode]);
        engine.dirty_age_ns = self.pick(&[50_000, engine.dirty_age_ns]);
        engine.fill_cost_ns = 0;
        setup.mix.read = setup.mix.read.max(self.number_between(16, 40));
        // Only durable blocks are compressed.
        setup.mix.flush = setup.mix.flush.max(self.number_between(1, 6));
        setup.hot_one_in = setup.hot_one_in.max(2);
        setup.sectors_max = setup.sectors_max.min(self.pick(&[8, 8, 24]));
        setup.sectors_max = setup.sectors_max.max(setup.model.block_sectors());
        if !setup.faults.may_hang() && self.0.one_in(3) {
            setup.model.answers_now = true;
            setup.engine.mode = self.pick(&[WriteMode::BackNow, WriteMode::Through]);
            setup.bypasses = self.pick(&[6, 20, 40]);
            setup.lanes = setup.lanes.max(2);
        }
    }

    /// Half of the histories start with another share of the policy's window, and half of these
    /// change it.
    pub(super) fn windows(&mut self, setup: &mut Setup) {
        if self.0.one_in(2) {
            setup.engine.window_share = self.pick(&WINDOW_SHARES);
            setup.window_shares = self.pick(&[0, 0, 2, 6]);
        }
    }

    /// Half of the histories, of any kind, have any number of threads that a served volume may
    /// have.
    pub(super) fn lanes(&mut self, setup: &mut Setup) {
        if self.0.one_in(2) {
            setup.lanes = self.number_between(1, 4);
        }
    }

    /// In one history of four, an operator changes settings; in one of four, the guard switches
    /// often; fewer of those with a hanging disk, which have their own subject.
    pub(super) fn changes(&mut self, setup: &mut Setup) {
        let what = self.number_between(0, 7);
        if setup.engine.stall_time_ns > 0 && !self.0.one_in(3) {
            return;
        }
        if what <= 1 {
            setup.sets = self.number_between(1, 6);
            setup.mix.flush = setup.mix.flush.max(self.number_between(1, 4));
            setup.clients = setup.clients.max(2);
            setup.takeovers = setup.takeovers.max(self.number_between(0, 1));
        }
        if what == 1 || what == 2 {
            setup.bypasses = self.pick(&[2, 6, 20]);
        }
    }
}
