//! What one history is made of: every option follows from its seed.

use crate::model::{Fault, Faults, Model};
use block::{Discard, Fua, WriteMode};
use lane::Random;

/// The engine's options, as the laboratory chooses them.
#[derive(Clone, Debug)]
pub struct EngineSetup {
    /// What it does with writes when the history begins.
    pub mode: WriteMode,
    /// Slots for blocks.
    pub slots: u32,
    /// Shards.
    pub shards: u32,
    /// Neighbouring blocks that share a shard.
    pub region_blocks: u32,
    /// Zero extents that a shard can hold.
    pub extents: u32,
    /// Fills that a shard can have under way.
    pub fills: u32,
    /// Blocks in the largest fill, and in the largest write-out.
    pub run_blocks: u32,
    /// The most dirty blocks.
    pub dirty_blocks_max: u32,
    /// How long dirty data may wait.
    pub dirty_age_ns: u64,
    /// How long writing out everything may take; 0: no limit.
    pub flush_target_ns: u64,
    /// How long errors are retried.
    pub retry_time_ns: u64,
    /// Write-back tasks a lane.
    pub crew: u32,
    /// The longest write that is absorbed, in blocks.
    pub absorb_blocks_max: u32,
    /// What keeping a block after a miss is taken to cost.
    pub fill_cost_ns: u64,
}

/// How often each kind of operation occurs, as weights.
#[derive(Clone, Copy, Debug)]
pub struct Mix {
    /// Reads.
    pub read: u32,
    /// Writes.
    pub write: u32,
    /// Writes that are durable when answered.
    pub fua: u32,
    /// Write-zeroes.
    pub zero: u32,
    /// Discards.
    pub discard: u32,
    /// Flushes.
    pub flush: u32,
}

/// How many states are tried.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Sets of survivors of a power cut, at each crash point.
    pub power: u32,
    /// Sets of landed writes of a kill, at each crash point.
    pub kill: u32,
    /// One in so many crash points is tried with a kill, too.
    pub kill_one_in: u32,
    /// One in so many states is followed by another run, with crashes of its own; 0: none.
    pub nested_one_in: u32,
    /// One in so many kills also damages the memory; 0: none.
    pub damaged_one_in: u32,
}

/// Everything about one history.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The seed it all follows from.
    pub seed: u64,
    /// The disk.
    pub model: Model,
    /// Which of its operations fail.
    pub faults: Faults,
    /// The engine.
    pub engine: EngineSetup,
    /// Threads, as lanes of one world.
    pub lanes: u32,
    /// Clients, each with one operation at a time.
    pub clients: u32,
    /// Operations of all clients together.
    pub operations: u32,
    /// What they are.
    pub mix: Mix,
    /// The longest pause between two operations of a client, in virtual nanoseconds.
    pub think_ns: u64,
    /// The longest operation, in sectors.
    pub sectors_max: u32,
    /// One in so many operations goes to the hot blocks.
    pub hot_one_in: u32,
    /// Changes of the write mode while it runs.
    pub mode_switches: u32,
    /// One in so many operations is followed by a new connection.
    pub reconnect_one_in: u32,
    /// How much is tried.
    pub limits: Limits,
}

/// Sizes of histories.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Scale {
    /// At least 50 operations, crash states sampled.
    Swarm,
    /// 5 to 8 operations, every crash point, every set of survivors.
    Exhaustive,
}

struct Dice(Random);

impl Dice {
    fn within(&mut self, low: u32, high: u32) -> u32 {
        low + self.0.below(u64::from(high - low + 1)) as u32
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[self.0.below(from.len() as u64) as usize]
    }

    /// Every other kind of operation fails somewhere among its first `among`.
    fn fault(&mut self, among: u32) -> Fault {
        if self.0.one_in(2) {
            return Fault::default();
        }
        Fault { from: self.within(1, among), count: self.pick(&[0, 1, 1, 1, 2, 5]) }
    }

    /// One history in six is about flushes: many of them, of every kind, some of which fail.
    fn flushes(&mut self, setup: &mut Setup) {
        if !self.0.one_in(6) {
            return;
        }
        setup.model.fua = self.pick(&[Fua::None, Fua::None, Fua::Native]);
        setup.faults.flush = Fault { from: self.within(1, 8), count: self.pick(&[1, 1, 2]) };
        setup.engine.retry_time_ns = self.pick(&[1_000_000, 20_000_000]);
        setup.mix.fua = self.within(2, 5);
        setup.mix.flush = self.within(1, 4);
        setup.clients = setup.clients.max(2);
    }
}

impl Setup {
    /// The history of this seed.
    pub fn new(seed: u64, scale: Scale) -> Setup {
        let mut dice = Dice(Random::new(seed));
        let small = scale == Scale::Exhaustive;
        let model = model(&mut dice, small);
        let faulty = dice.pick(&[false, false, true]);
        let faults = if faulty {
            Faults { read: dice.fault(40), write: dice.fault(40), flush: dice.fault(10) }
        } else {
            Faults::default()
        };
        let mut setup = Setup {
            seed,
            faults,
            engine: engine(&mut dice, small),
            lanes: if small { dice.within(1, 2) } else { dice.within(1, 3) },
            clients: if small { dice.within(1, 3) } else { dice.within(1, 6) },
            operations: if small { dice.within(5, 8) } else { dice.within(50, 72) },
            mix: mix(&mut dice),
            think_ns: dice.pick(&[0, 1_000, 20_000, 200_000]),
            sectors_max: dice.pick(&[2, 8, 16, 24]).max(model.logical_sectors),
            hot_one_in: dice.pick(&[1, 2, 3]),
            mode_switches: dice.pick(&[0, 0, 1, 3]),
            reconnect_one_in: dice.pick(&[0, 0, 20, 8]),
            limits: limits(small),
            model,
        };
        dice.flushes(&mut setup);
        setup
    }

    /// The setup of the run that follows a crash: shorter, on a disk without faults, and in which
    /// only a few states are tried.
    pub(crate) fn afterwards(&self, seed: u64, deepest: bool) -> Setup {
        let mut dice = Dice(Random::new(seed));
        let mut next = self.clone();
        next.seed = seed;
        next.faults = Faults::default();
        next.lanes = dice.within(1, self.lanes);
        next.clients = dice.within(1, 2);
        next.operations = dice.within(1, 8);
        next.mode_switches = 0;
        next.limits = Limits {
            power: self.limits.power.min(8),
            kill: self.limits.kill.min(2),
            kill_one_in: self.limits.kill_one_in,
            nested_one_in: if deepest { 0 } else { 256 },
            damaged_one_in: 0,
        };
        next
    }
}

fn limits(small: bool) -> Limits {
    if small {
        Limits { power: 1024, kill: 64, kill_one_in: 1, nested_one_in: 256, damaged_one_in: 16 }
    } else {
        Limits { power: 40, kill: 2, kill_one_in: 2, nested_one_in: 4096, damaged_one_in: 24 }
    }
}

fn model(dice: &mut Dice, small: bool) -> Model {
    let unit_sectors = dice.pick(&[8, 8, 8, 1]);
    let logical_sectors = if unit_sectors == 8 { dice.pick(&[1, 1, 1, 8]) } else { 1 };
    Model {
        sectors: if small { 8 * dice.within(3, 6) } else { 8 * dice.within(6, 12) },
        unit_sectors,
        logical_sectors,
        latency_ns: dice.pick(&[300, 10_000, 100_000]),
        discard: dice.pick(&[Discard::Zeroes, Discard::Zeroes, Discard::Ignored]),
        fua: dice.pick(&[Fua::Native, Fua::Native, Fua::None]),
        instant: false,
    }
}

fn engine(dice: &mut Dice, small: bool) -> EngineSetup {
    let modes = [WriteMode::Back, WriteMode::BackNow, WriteMode::BackNow, WriteMode::Through];
    let slots = if small { dice.within(6, 12) } else { dice.within(8, 16) };
    EngineSetup {
        mode: if dice.0.one_in(16) { WriteMode::None } else { dice.pick(&modes) },
        slots,
        shards: dice.pick(&[1, 2]),
        region_blocks: dice.pick(&[1, 4, 4, 8]),
        extents: dice.pick(&[1, 4, 8]),
        fills: dice.within(1, 4),
        run_blocks: dice.pick(&[1, 2, 4, 8]),
        dirty_blocks_max: dice.within(2, slots * 3 / 4),
        dirty_age_ns: dice.pick(&[50_000, 500_000, 5_000_000]),
        flush_target_ns: dice.pick(&[0, 0, 300_000, 1_000_000]),
        retry_time_ns: dice.pick(&[0, 1_000_000, 20_000_000]),
        crew: dice.within(1, 3),
        absorb_blocks_max: dice.pick(&[1, 2, 8]),
        fill_cost_ns: dice.pick(&[0, 0, 400]),
    }
}

fn mix(dice: &mut Dice) -> Mix {
    Mix {
        read: dice.within(0, 6),
        write: dice.within(4, 10),
        fua: dice.within(0, 2),
        zero: dice.pick(&[0, 1, 2]),
        discard: dice.pick(&[0, 0, 1, 2]),
        flush: dice.pick(&[0, 1, 1, 2, 3]),
    }
}
