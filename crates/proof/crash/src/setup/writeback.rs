//! Histories about dirty data: the order in which it becomes durable, and how it is written back
//! and released.

use super::dice::Dice;
use super::{Limits, Mix, Scale, Setup};
use crate::model::Fault;
use block::{Durability, WriteMode};

impl Dice {
    /// In one history of three, the volume answers flushes immediately: many flushes, few of which
    /// find an empty buffer. In one of 24, it ignores them.
    pub(super) fn orders(&mut self, setup: &mut Setup) {
        match self.number_between(0, 23) {
            0..8 => {}
            8 => return setup.engine.durability = Durability::Scratch,
            _ => return,
        }
        setup.engine.durability = Durability::Ordered;
        setup.mix.flush = setup.mix.flush.max(self.number_between(1, 4));
        setup.mix.fua = setup.mix.fua.max(self.number_between(0, 3));
        if self.0.one_in(2) {
            setup.engine.mode = WriteMode::BackNow;
            setup.mode_switches = 0;
        }
        setup.clients = setup.clients.max(self.number_between(1, 3));
        // Small writes leave more epochs behind than large ones, and large ones are written
        // through.
        setup.engine.absorb_blocks_max = self.pick(&[1, 1, 2, 8]);
        setup.sectors_max = self.pick(&[8, 8, 16, setup.sectors_max]).max(setup.sectors_max.min(8));
        setup.engine.dirty_blocks_max = setup.engine.slots * 3 / 4;
    }

    /// One history of five is about data written back before its epoch is closed: few flushes, much
    /// to write, blocks that are rewritten while they are in flight, and a disk that sometimes
    /// fails a flush.
    pub(super) fn plan_early_writeback(&mut self, setup: &mut Setup) {
        if !self.0.one_in(5) {
            return;
        }
        setup.engine.mode = WriteMode::BackNow;
        setup.mode_switches = 0;
        setup.engine.dirty_blocks_max = setup.engine.slots * 3 / 4;
        setup.engine.dirty_age_ns = self.pick(&[5_000_000, 500_000_000]);
        setup.engine.flush_target_ns = 0;
        setup.engine.absorb_blocks_max = self.pick(&[1, 2]);
        setup.engine.workers = self.number_between(2, 4);
        setup.engine.retry_time_ns = self.pick(&[20_000_000, 500_000_000]);
        setup.mix = Mix {
            flush: 1,
            write: self.number_between(8, 16),
            fua: 0,
            zero: 0,
            discard: 0,
            ..setup.mix
        };
        setup.hot_one_in = self.pick(&[2, 3, 6]);
        setup.clients = setup.clients.max(2);
        setup.think_ns = self.pick(&[0, 1_000, 20_000]);
        if self.0.one_in(2) {
            setup.faults.flush = Fault { from: self.number_between(2, 6), count: 1 };
            setup.mix.flush = 2;
            setup.mix.read = 0;
            setup.clears = 0;
            // A write-through cannot be written again: then a failed flush is the end.
            setup.engine.slots = 32;
            setup.engine.dirty_blocks_max = setup.model.sectors / 8 * 3 / 2;
            setup.engine.absorb_blocks_max = 8;
            setup.sectors_max = 8;
            setup.think_ns = self.pick(&[20_000, 200_000]);
        } else if self.0.one_in(4) {
            setup.faults.write =
                Fault { from: self.number_between(1, 20), count: self.pick(&[1, 2]) };
        } else if self.0.one_in(2) {
            // Ranges of zeros, below which nothing may be written back early.
            setup.mix = Mix { read: 0, write: 12, zero: 2, flush: 1, ..setup.mix };
            if setup.scale == Scale::Swarm {
                setup.model.sectors = 8 * self.number_between(10, 16);
                setup.engine.slots = 32;
                setup.engine.dirty_blocks_max = 16;
            }
            setup.engine.dirty_age_ns = 500_000_000;
            setup.sectors_max = 8;
            setup.hot_one_in = 6;
        }
    }

    /// In one history of twelve, writers are throttled: the buffer is large enough to be nearly
    /// full, and changes come faster than the disk writes them.
    pub(super) fn plan_throttling(&mut self, setup: &mut Setup) {
        if !self.0.one_in(12) || setup.scale == Scale::Exhaustive {
            return;
        }
        setup.model.sectors = 8 * self.number_between(24, 40);
        setup.engine.mode = WriteMode::BackNow;
        setup.mode_switches = 0;
        setup.engine.dirty_blocks_max = self.number_between(36, 48);
        setup.engine.slots = 80;
        setup.engine.flush_target_ns = 0;
        setup.engine.dirty_age_ns = self.pick(&[5_000_000, 500_000_000]);
        setup.engine.run_blocks = self.pick(&[1, 2, 4]);
        setup.engine.absorb_blocks_max = 8;
        setup.sectors_max = self.pick(&[16, 24, 32]);
        setup.mix =
            Mix { read: 0, write: 12, fua: 0, zero: self.pick(&[0, 1, 3]), flush: 1, ..setup.mix };
        setup.hot_one_in = self.pick(&[3, 8]);
        setup.clients = self.number_between(5, 8);
        setup.think_ns = self.pick(&[0, 0, 1_000]);
        setup.limits = setup.limits.reduced();
    }

    /// Half of all histories release durable blocks in slices. In one of six, the process is killed
    /// during that: blocks are held in part, and newer versions of them are written back early.
    pub(super) fn releases(&mut self, setup: &mut Setup) {
        setup.engine.slice_blocks = self.pick(&[256, 256, 1, 2]);
        if !self.0.one_in(6) || setup.scale == Scale::Exhaustive || setup.engine.stall_time_ns > 0 {
            return;
        }
        setup.model.sectors = 8 * self.number_between(16, 40);
        setup.model.unit_sectors = 8;
        setup.model.logical_sectors = 1;
        setup.engine.mode = WriteMode::BackNow;
        setup.mode_switches = 0;
        setup.engine.slots = 64;
        setup.engine.dirty_blocks_max = self.number_between(8, 40);
        setup.engine.flush_target_ns = 0;
        setup.engine.dirty_age_ns = 5_000_000;
        setup.engine.absorb_blocks_max = 8;
        setup.engine.slice_blocks = 1;
        setup.engine.workers = self.number_between(2, 4);
        setup.sectors_max = self.pick(&[6, 8, 12]);
        setup.hot_one_in = self.pick(&[2, 3, 6]);
        setup.mix = Mix { read: 0, write: 12, fua: 0, zero: 0, discard: 0, flush: 2, status: 0 };
        setup.clients = self.number_between(5, 8);
        setup.think_ns = self.pick(&[0, 1_000, 20_000]);
        setup.operations = self.number_between(100, 200);
        setup.takeovers = 1;
        // Few power cuts, and kills after which another process often continues.
        setup.limits =
            Limits { power: 1, kill_one_in: 1, nested_one_in: 32, ..setup.limits.reduced() };
    }
}
