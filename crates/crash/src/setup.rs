//! What one history is made of: every option follows from its seed.

use crate::model::{Fault, Faults, HANGS_FOR_EVER, Model};
use block::{Discard, Durability, Fua, WriteMode};
use cache::Format;
use lane::Random;
use policy::Kind;

/// The engine's options, as the laboratory chooses them.
#[derive(Clone, Debug)]
pub struct EngineSetup {
    /// What it does with writes when the history begins.
    pub mode: WriteMode,
    /// What a flush means.
    pub durability: Durability,
    /// How the arena is laid out.
    pub format: Format,
    /// Slots for blocks.
    pub slots: u32,
    /// The least and the most slots that the next process may have.
    pub slots_least: u32,
    /// See `slots_least`.
    pub slots_max: u32,
    /// Shards.
    pub shards: u32,
    /// Neighbouring blocks that share a shard.
    pub region_blocks: u32,
    /// Zero extents that a shard can hold.
    pub extents: u32,
    /// Blocks in a shard's largest range of zeros.
    pub zeros_blocks: u32,
    /// Which clean slot is given up.
    pub policy: Kind,
    /// Fills that a shard can have under way.
    pub fills: u32,
    /// Blocks in the largest fill, and in the largest write-out.
    pub run_blocks: u32,
    /// Blocks that are released in one section.
    pub slice_blocks: u32,
    /// The most dirty blocks.
    pub dirty_blocks_max: u32,
    /// How long dirty data may wait.
    pub dirty_age_ns: u64,
    /// How long writing out everything may take; 0: no limit.
    pub flush_target_ns: u64,
    /// How long errors are retried.
    pub retry_time_ns: u64,
    /// How long the disk may take to answer before it counts as hanging; 0: that is not watched.
    pub stall_time_ns: u64,
    /// Write-back tasks a lane.
    pub workers: u32,
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
    /// Questions for what is known without reading.
    pub status: u32,
}

/// How many states are tried.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Sets of survivors of a power cut, at each crash point.
    pub power: u32,
    /// Sets of landed writes of a kill, at each crash point.
    pub kill: u32,
    /// The same of a kill in the middle of a section.
    pub kill_midway: u32,
    /// Kills in the middle of a section come after one of so many stores of a step, or (1) after each.
    pub midway_one_of: u32,
    /// One in so many crash points is tried with a kill, too.
    pub kill_one_in: u32,
    /// One in so many states is followed by another run, with crashes of its own; 0: none.
    pub nested_one_in: u32,
    /// One in so many kills also damages the memory; 0: none.
    pub damaged_one_in: u32,
}

impl Limits {
    /// Few states, for histories that are not about crashes.
    fn few(self) -> Limits {
        Limits {
            power: self.power.min(1),
            kill: self.kill.min(1),
            kill_one_in: self.kill_one_in * 32,
            midway_one_of: self.midway_one_of * 64,
            ..self
        }
    }
}

/// Everything about one history.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The seed it all follows from.
    pub seed: u64,
    /// How long it is, and how much of it is tried.
    pub scale: Scale,
    /// The disk.
    pub model: Model,
    /// Which of its operations fail.
    pub faults: Faults,
    /// Whether flushes may be among them at all.
    pub flushes_fail: bool,
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
    /// Operations begin and end anywhere, inside blocks too.
    pub bytes: bool,
    /// One in so many operations goes to the hot blocks.
    pub hot_one_in: u32,
    /// Changes of the write mode while it runs.
    pub mode_switches: u32,
    /// Changes of other settings, and of this one, while it runs.
    pub sets: u32,
    /// How often the guard makes the cache step aside, or come back.
    pub bypasses: u32,
    /// How often clients say what they will read.
    pub advices: u32,
    /// One in so many operations is followed by a new connection.
    pub reconnect_one_in: u32,
    /// The operator clears the error of a failed volume so often.
    pub clears: u32,
    /// An operator of its own looks so often whether the volume has failed, and clears that.
    pub looks: u32,
    /// The operator gives up what is dirty in a failed volume so often.
    pub discards: u32,
    /// Kills after which the history goes on, in a process that takes over.
    pub takeovers: u32,
    /// One in so many steps is such a kill, until there were enough.
    pub takeover_one_in: u32,
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

    /// One history in four is about a disk that does not answer, and about an operator who does.
    fn hangs(&mut self, setup: &mut Setup) {
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
    fn looks(&mut self, setup: &mut Setup) {
        if setup.faults.hang_ns > 0 && self.0.one_in(2) {
            setup.looks = self.within(8, 24);
        }
    }

    /// One history in eight is about an operator who discards: again and again something fails.
    fn discards(&mut self, setup: &mut Setup) {
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

    /// One history in eight is about what is zero, and where that is told.
    fn zeroes(&mut self, setup: &mut Setup) {
        if !self.0.one_in(8) {
            return;
        }
        setup.mix = Mix { read: 0, write: 4, fua: 0, zero: 4, discard: 1, flush: 4, status: 8 };
        setup.engine.mode = WriteMode::BackNow;
        setup.model.discard = Discard::Zeroes;
        setup.clients = self.within(4, 6);
        setup.hot_one_in = 1;
        setup.limits = setup.limits.few();
    }

    /// One history in three is of a volume that answers flushes at once: many flushes, few of which find
    /// a buffer that is empty. One in 24 is of one that ignores them.
    fn orders(&mut self, setup: &mut Setup) {
        match self.within(0, 23) {
            0..8 => {}
            8 => return setup.engine.durability = Durability::Scratch,
            _ => return,
        }
        setup.engine.durability = Durability::Ordered;
        setup.mix.flush = setup.mix.flush.max(self.within(1, 4));
        setup.mix.fua = setup.mix.fua.max(self.within(0, 3));
        if self.0.one_in(2) {
            setup.engine.mode = WriteMode::BackNow;
            setup.mode_switches = 0;
        }
        setup.clients = setup.clients.max(self.within(1, 3));
        // Small writes leave more epochs behind than large ones, and large ones pass.
        setup.engine.absorb_blocks_max = self.pick(&[1, 1, 2, 8]);
        setup.sectors_max = self.pick(&[8, 8, 16, setup.sectors_max]).max(setup.sectors_max.min(8));
        setup.engine.dirty_blocks_max = setup.engine.slots * 3 / 4;
    }

    /// One history in five is about what is written out before its epoch is closed: few flushes, much to
    /// write, blocks that are rewritten while they are under way, and a disk that now and then fails to
    /// flush.
    fn early(&mut self, setup: &mut Setup) {
        if !self.0.one_in(5) {
            return;
        }
        setup.engine.mode = WriteMode::BackNow;
        setup.mode_switches = 0;
        setup.engine.dirty_blocks_max = setup.engine.slots * 3 / 4;
        setup.engine.dirty_age_ns = self.pick(&[5_000_000, 500_000_000]);
        setup.engine.flush_target_ns = 0;
        setup.engine.absorb_blocks_max = self.pick(&[1, 2]);
        setup.engine.workers = self.within(2, 4);
        setup.engine.retry_time_ns = self.pick(&[20_000_000, 500_000_000]);
        setup.mix =
            Mix { flush: 1, write: self.within(8, 16), fua: 0, zero: 0, discard: 0, ..setup.mix };
        setup.hot_one_in = self.pick(&[2, 3, 6]);
        setup.clients = setup.clients.max(2);
        setup.think_ns = self.pick(&[0, 1_000, 20_000]);
        if self.0.one_in(2) {
            setup.faults.flush = Fault { from: self.within(2, 6), count: 1 };
            setup.mix.flush = 2;
            setup.mix.read = 0;
            setup.clears = 0;
            // What goes past cannot be written again: then a failed flush is the end.
            setup.engine.slots = 32;
            setup.engine.dirty_blocks_max = setup.model.sectors / 8 * 3 / 2;
            setup.engine.absorb_blocks_max = 8;
            setup.sectors_max = 8;
            setup.think_ns = self.pick(&[20_000, 200_000]);
        } else if self.0.one_in(4) {
            setup.faults.write = Fault { from: self.within(1, 20), count: self.pick(&[1, 2]) };
        } else if self.0.one_in(2) {
            // Ranges of zeros, under which nothing may be written out early.
            setup.mix = Mix { read: 0, write: 12, zero: 2, flush: 1, ..setup.mix };
            if setup.scale == Scale::Swarm {
                setup.model.sectors = 8 * self.within(10, 16);
                setup.engine.slots = 32;
                setup.engine.dirty_blocks_max = 16;
            }
            setup.engine.dirty_age_ns = 500_000_000;
            setup.sectors_max = 8;
            setup.hot_one_in = 6;
        }
    }

    /// One history in twelve is about writers that wait for their turn: a buffer that is large enough to be
    /// nearly full, and changes that come faster than the disk takes them.
    fn turns(&mut self, setup: &mut Setup) {
        if !self.0.one_in(12) || setup.scale == Scale::Exhaustive {
            return;
        }
        setup.model.sectors = 8 * self.within(24, 40);
        setup.engine.mode = WriteMode::BackNow;
        setup.mode_switches = 0;
        setup.engine.dirty_blocks_max = self.within(36, 48);
        setup.engine.slots = 80;
        setup.engine.flush_target_ns = 0;
        setup.engine.dirty_age_ns = self.pick(&[5_000_000, 500_000_000]);
        setup.engine.run_blocks = self.pick(&[1, 2, 4]);
        setup.engine.absorb_blocks_max = 8;
        setup.sectors_max = self.pick(&[16, 24, 32]);
        setup.mix =
            Mix { read: 0, write: 12, fua: 0, zero: self.pick(&[0, 1, 3]), flush: 1, ..setup.mix };
        setup.hot_one_in = self.pick(&[3, 8]);
        setup.clients = self.within(5, 8);
        setup.think_ns = self.pick(&[0, 0, 1_000]);
        setup.limits = setup.limits.few();
    }

    /// One history in four is of an operator who changes settings, one in four of a guard that cannot make
    /// up its mind; fewer of those where the disk hangs, which have a matter of their own.
    fn changes(&mut self, setup: &mut Setup) {
        let what = self.within(0, 7);
        if setup.engine.stall_time_ns > 0 && !self.0.one_in(3) {
            return;
        }
        if what <= 1 {
            setup.sets = self.within(1, 6);
            setup.mix.flush = setup.mix.flush.max(self.within(1, 4));
            setup.clients = setup.clients.max(2);
            setup.takeovers = setup.takeovers.max(self.within(0, 1));
        }
        if what == 1 || what == 2 {
            setup.bypasses = self.pick(&[2, 6, 20]);
        }
    }

    /// One history in four has small regions in several shards, and zeros that lie in all of them; one in twelve
    /// an arena of the last format.
    fn shards(&mut self, setup: &mut Setup) {
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

    /// One history in six is of an arena that has places for more slots than are live, and of processes that
    /// have more or less; one in twelve of an arena of the format before the last.
    fn sizes(&mut self, setup: &mut Setup) {
        let engine = &mut setup.engine;
        (engine.slots_least, engine.slots_max) = (engine.slots, engine.slots);
        match self.within(0, 11) {
            0 => engine.format = Format::Two,
            1 | 2 => {
                engine.slots_max += self.within(1, 8) * engine.shards;
                engine.slots = self.pick(&[engine.slots, engine.slots_max]);
                setup.takeovers = setup.takeovers.max(1);
            }
            _ => {}
        }
    }

    /// In one history in six, clients say what they will read.
    fn advices(&mut self, setup: &mut Setup) {
        if self.0.one_in(6) {
            setup.advices = self.pick(&[1, 4, 12]);
        }
    }

    /// Half of all histories release what is durable in slices. One in six is about a process that is killed
    /// meanwhile: blocks that are held in part, newer versions of which are written out early.
    fn releases(&mut self, setup: &mut Setup) {
        setup.engine.slice_blocks = self.pick(&[256, 256, 1, 2]);
        if !self.0.one_in(6) || setup.scale == Scale::Exhaustive || setup.engine.stall_time_ns > 0 {
            return;
        }
        setup.model.sectors = 8 * self.within(16, 40);
        setup.model.unit_sectors = 8;
        setup.model.logical_sectors = 1;
        setup.engine.mode = WriteMode::BackNow;
        setup.mode_switches = 0;
        setup.engine.slots = 64;
        setup.engine.dirty_blocks_max = self.within(8, 40);
        setup.engine.flush_target_ns = 0;
        setup.engine.dirty_age_ns = 5_000_000;
        setup.engine.absorb_blocks_max = 8;
        setup.engine.slice_blocks = 1;
        setup.engine.workers = self.within(2, 4);
        setup.sectors_max = self.pick(&[6, 8, 12]);
        setup.hot_one_in = self.pick(&[2, 3, 6]);
        setup.mix = Mix { read: 0, write: 12, fua: 0, zero: 0, discard: 0, flush: 2, status: 0 };
        setup.clients = self.within(5, 8);
        setup.think_ns = self.pick(&[0, 1_000, 20_000]);
        setup.operations = self.within(100, 200);
        setup.takeovers = 1;
        // Few power cuts, and kills after which another process often goes on.
        setup.limits = Limits { power: 1, kill_one_in: 1, nested_one_in: 32, ..setup.limits.few() };
    }

    /// What a process that takes over promises, if that changes at all.
    fn restarts(&mut self, setup: &mut Setup) {
        if setup.sets > 0 && self.0.one_in(2) {
            let all = [Durability::Flush, Durability::Ordered, Durability::Scratch];
            setup.engine.durability = self.pick(&all);
        }
    }

    /// One history in twelve is of clients that know of no blocks: requests begin and end at any stamp.
    /// Half of these have blocks of 512 bytes, of four stamps each, the others of 4096 bytes. All
    /// meet in a few blocks, and now and then a read fails.
    fn bytes(&mut self, setup: &mut Setup) {
        if !self.0.one_in(12) {
            return;
        }
        setup.bytes = true;
        let model = &mut setup.model;
        match self.0.one_in(2) {
            true => {
                (model.unit_sectors, model.logical_sectors, model.stamps) = (4, 4, 4);
                model.sectors = 4 * 8 * self.within(3, 6);
            }
            false => (model.unit_sectors, model.logical_sectors) = (8, 8),
        }
        setup.sectors_max = self.pick(&[3, 6, 12, 24]);
        setup.hot_one_in = self.pick(&[1, 1, 2]);
        setup.clients = setup.clients.max(self.within(2, 4));
        setup.mix.read = setup.mix.read.max(2);
        if self.0.one_in(3) {
            setup.faults.read = Fault { from: self.within(1, 20), count: self.pick(&[1, 2, 5]) };
        }
    }

    /// Half of the histories, of whatever kind, have any number of threads that a served volume may have.
    fn lanes(&mut self, setup: &mut Setup) {
        if self.0.one_in(2) {
            setup.lanes = self.within(1, 4);
        }
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
        setup.clears = self.pick(&[0, 1, 2]);
        setup.takeovers = setup.takeovers.max(1);
    }
}

impl Setup {
    /// The history of this seed.
    pub fn new(seed: u64, scale: Scale) -> Setup {
        let mut setup = Setup::of_blocks(seed, scale);
        Dice(Random::new(seed ^ 0x0b17_e500)).bytes(&mut setup);
        setup
    }

    /// The same where all requests are of whole blocks.
    pub(crate) fn of_blocks(seed: u64, scale: Scale) -> Setup {
        let mut dice = Dice(Random::new(seed));
        let small = scale == Scale::Exhaustive;
        let model = model(&mut dice, small);
        let faulty = dice.pick(&[false, false, true]);
        let faults = if faulty {
            Faults {
                read: dice.fault(40),
                write: dice.fault(40),
                flush: dice.fault(10),
                ..Faults::default()
            }
        } else {
            Faults::default()
        };
        let mut setup = Setup {
            seed,
            scale,
            faults,
            flushes_fail: true,
            engine: engine(&mut dice, small),
            lanes: if small { dice.within(1, 2) } else { dice.within(1, 3) },
            clients: if small { dice.within(1, 3) } else { dice.within(1, 6) },
            operations: if small { dice.within(5, 8) } else { dice.within(50, 72) },
            mix: mix(&mut dice),
            think_ns: dice.pick(&[0, 1_000, 20_000, 200_000]),
            sectors_max: dice.pick(&[2, 8, 16, 24]).max(model.logical_sectors),
            bytes: false,
            hot_one_in: dice.pick(&[1, 2, 3]),
            mode_switches: dice.pick(&[0, 0, 1, 3]),
            sets: 0,
            bypasses: 0,
            advices: 0,
            reconnect_one_in: dice.pick(&[0, 0, 20, 8]),
            clears: if faulty { dice.pick(&[0, 1, 2]) } else { 0 },
            looks: 0,
            discards: if faulty { dice.pick(&[0, 0, 1, 2]) } else { 0 },
            takeovers: if small { dice.pick(&[0, 0, 1]) } else { dice.pick(&[0, 1, 1, 2]) },
            takeover_one_in: if small { 40 } else { dice.pick(&[100, 300, 1000]) },
            limits: limits(small),
            model,
        };
        dice.flushes(&mut setup);
        dice.hangs(&mut setup);
        dice.discards(&mut setup);
        dice.zeroes(&mut setup);
        // By dice of its own: all other histories stay what they were.
        Dice(Random::new(seed ^ 0x04de_4ed0)).orders(&mut setup);
        Dice(Random::new(seed ^ 0x0ea4_1900)).early(&mut setup);
        Dice(Random::new(seed ^ 0x5e77_1295)).changes(&mut setup);
        Dice(Random::new(seed ^ 0x0704_5e1f)).turns(&mut setup);
        Dice(Random::new(seed ^ 0x1007_5000)).looks(&mut setup);
        Dice(Random::new(seed ^ 0x51_1ce5)).releases(&mut setup);
        Dice(Random::new(seed ^ 0x05a4_d500)).shards(&mut setup);
        Dice(Random::new(seed ^ 0x0005_1235)).sizes(&mut setup);
        Dice(Random::new(seed ^ 0x0ad7_15e0)).advices(&mut setup);
        Dice(Random::new(seed ^ 0x0014_4e50)).lanes(&mut setup);
        setup
    }

    /// Which operations fail in a process that follows a crash, counted from its beginning.
    pub(crate) fn faults_afterwards(&self, random: &mut Random) -> Faults {
        if !random.one_in(3) {
            return Faults::default();
        }
        if self.flushes_fail && random.one_in(2) {
            // The first flush is also for what the process before has answered.
            return Faults { flush: Fault { from: 1, count: 1 }, ..Faults::default() };
        }
        let mut dice = Dice(random.fork());
        let flush = if self.flushes_fail { dice.fault(4) } else { Fault::default() };
        Faults { read: dice.fault(8), write: dice.fault(12), flush, ..Faults::default() }
    }

    /// Another process is started, with the same settings or, where they change anyway, with others.
    pub(crate) fn restarted(&mut self, random: &mut Random) {
        self.resized(random);
        if self.sets > 0 {
            Dice(random.fork()).restarts(self);
        }
    }

    /// Another process has another number of slots, where the arena has places for more, and makes longer or shorter
    /// ranges of zeros, where those are short.
    fn resized(&mut self, random: &mut Random) {
        if self.engine.zeros_blocks <= self.engine.region_blocks * 8 {
            self.engine.zeros_blocks = self.engine.region_blocks << random.below(4);
        }
        if self.engine.slots_least < self.engine.slots_max {
            let more = u64::from(self.engine.slots_max - self.engine.slots_least);
            self.engine.slots = self.engine.slots_least + random.below(more + 1) as u32;
        }
    }

    /// The setup of the run that follows a crash: shorter, and in which only a few states are tried.
    pub(crate) fn afterwards(&self, seed: u64, deepest: bool) -> Setup {
        let mut dice = Dice(Random::new(seed));
        let mut next = self.clone();
        next.seed = seed;
        next.faults = self.faults_afterwards(&mut dice.0);
        next.clears = u32::from(next.faults != Faults::default());
        next.looks = 0;
        next.takeovers = 0;
        next.discards = next.clears;
        next.engine.stall_time_ns = 0;
        next.lanes = dice.within(1, self.lanes);
        next.clients = dice.within(1, 2);
        next.operations = dice.within(1, 8);
        next.mode_switches = 0;
        next.sets = self.sets.min(dice.within(0, 2));
        next.bypasses = self.bypasses.min(4);
        next.advices = self.advices.min(2);
        dice.restarts(&mut next);
        next.resized(&mut dice.0);
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

fn limits(small: bool) -> Limits {
    if small {
        Limits {
            power: 1024,
            kill: 64,
            kill_midway: 2,
            midway_one_of: 1,
            kill_one_in: 1,
            nested_one_in: 256,
            damaged_one_in: 16,
        }
    } else {
        Limits {
            power: 40,
            kill: 2,
            kill_midway: 1,
            midway_one_of: 1,
            kill_one_in: 2,
            nested_one_in: 4096,
            damaged_one_in: 24,
        }
    }
}

fn model(dice: &mut Dice, small: bool) -> Model {
    let unit_sectors = dice.pick(&[8, 8, 8, 1]);
    let logical_sectors = if unit_sectors == 8 { dice.pick(&[1, 1, 1, 8]) } else { 1 };
    Model {
        sectors: if small { 8 * dice.within(3, 6) } else { 8 * dice.within(6, 12) },
        unit_sectors,
        logical_sectors,
        stamps: 1,
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
        durability: Durability::Flush,
        format: Format::Four,
        mode: if dice.0.one_in(16) { WriteMode::None } else { dice.pick(&modes) },
        slots,
        slots_least: slots,
        slots_max: slots,
        shards: dice.pick(&[1, 2]),
        region_blocks: dice.pick(&[1, 4, 4, 8]),
        extents: dice.pick(&[1, 4, 8]),
        zeros_blocks: 1 << 20,
        fills: dice.within(1, 4),
        run_blocks: dice.pick(&[1, 2, 4, 8]),
        slice_blocks: 256,
        dirty_blocks_max: dice.within(2, slots * 3 / 4),
        dirty_age_ns: dice.pick(&[50_000, 500_000, 5_000_000]),
        flush_target_ns: dice.pick(&[0, 0, 300_000, 1_000_000]),
        retry_time_ns: dice.pick(&[0, 1_000_000, 20_000_000]),
        stall_time_ns: 0,
        workers: dice.within(1, 3),
        absorb_blocks_max: dice.pick(&[1, 2, 8]),
        fill_cost_ns: dice.pick(&[0, 0, 400]),
        policy: dice.pick(&[Kind::Adaptive, Kind::Adaptive, Kind::Lru, Kind::Sieve]),
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
        status: dice.pick(&[0, 0, 0, 1, 3]),
    }
}
