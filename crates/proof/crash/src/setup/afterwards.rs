//! The setup after a crash, or after a restart.

use super::dice::Dice;
use super::{Limits, Setup};
use crate::model::{Fault, Faults};
use block::Durability;
use lane::Random;

impl Dice {
    /// Chooses the promise of a process that takes over, if that changes at all.
    fn restarts(&mut self, setup: &mut Setup) {
        if setup.sets > 0 && self.0.one_in(2) {
            let all = [Durability::Flush, Durability::Ordered, Durability::Scratch];
            setup.engine.durability = self.pick(&all);
        }
    }
}

impl Setup {
    /// Returns the operations that fail in a process after a crash, counted from its start.
    pub(crate) fn faults_afterwards(&self, random: &mut Random) -> Faults {
        let late_flush = self.faults.late_flush;
        // Behind a link, only the link and the server fail.
        if !random.one_in(3) || self.link.is_some() {
            return Faults { late_flush, ..Faults::default() };
        }
        if self.flushes_fail && random.one_in(2) {
            // The first flush also covers the answers of the process before.
            return Faults { flush: Fault { from: 1, count: 1 }, late_flush, ..Faults::default() };
        }
        let mut dice = Dice(random.fork());
        let flush = if self.flushes_fail { dice.fault(4) } else { Fault::default() };
        Faults {
            read: dice.fault(8),
            write: dice.fault(12),
            flush,
            late_flush,
            ..Faults::default()
        }
    }

    /// Restarts the process, with the same settings or, in histories that change them, with others.
    pub(crate) fn vary_restart(&mut self, random: &mut Random) {
        self.vary_sizes(random);
        if self.sets > 0 {
            Dice(random.fork()).restarts(self);
        }
    }

    /// Gives the next process another number of slots, if the arena has room for more, longer or
    /// shorter ranges of zeros, if those are short, and possibly a disk that has grown.
    fn vary_sizes(&mut self, random: &mut Random) {
        if self.model.absent > 0 && random.one_in(2) {
            self.model.absent = 0;
        }
        if self.engine.zeros_blocks <= self.engine.region_blocks * 8 {
            self.engine.zeros_blocks = self.engine.region_blocks << random.below(4);
        }
        if self.engine.slots_least < self.engine.slots_max {
            let more = u64::from(self.engine.slots_max - self.engine.slots_least);
            self.engine.slots = self.engine.slots_least + random.below(more + 1) as u32;
        }
    }

    /// Returns the setup of the run that follows a crash: shorter, and with only a few states
    /// tested.
    pub(crate) fn setup_after_crash(&self, seed: u64, deepest: bool) -> Setup {
        let mut dice = Dice(Random::new(seed));
        let mut next = self.clone();
        next.seed = seed;
        next.faults = self.faults_afterwards(&mut dice.0);
        next.clears = u32::from(next.faults != Faults::default());
        next.looks = 0;
        next.takeovers = 0;
        next.discards = next.clears;
        next.engine.stall_time_ns = 0;
        next.lanes = dice.number_between(1, self.lanes);
        next.clients = dice.number_between(1, 2);
        next.operations = dice.number_between(1, 8);
        next.mode_switches = 0;
        next.sets = self.sets.min(dice.number_between(0, 2));
        next.bypasses = self.bypasses.min(4);
        next.window_shares = self.window_shares.min(2);
        next.warms = self.warms.min(2);
        next.advices = self.advices.min(2);
        next.pairs = self.pairs.min(1);
        dice.restarts(&mut next);
        next.vary_sizes(&mut dice.0);
        next.limits = Limits {
            power: self.limits.power.min(8),
            kill: self.limits.kill.min(2),
            kill_midway: self.limits.kill_midway.min(1),
            midway_one_of: 8,
            kill_one_in: self.limits.kill_one_in,
            nested_one_in: if deepest { 0 } else { 256 },
            damaged_one_in: 0,
        };
        next
    }
}
