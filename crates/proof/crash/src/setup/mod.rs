//! The parameters of one history: all of them follow from its seed.

mod afterwards;
mod base;
mod dice;
mod direct;
mod failures;
mod link;
mod requests;
mod volume;
mod writeback;

use crate::model::{Faults, Model};
use block::{Compress, Durability, WriteMode};
use cache::Format;
use dice::Dice;
use lane::Random;
pub use link::LinkPlan;
use policy::Kind;

/// The engine's options, as the laboratory chooses them.
#[derive(Clone, PartialEq, Debug)]
pub struct EngineSetup {
    /// Write mode at the start of the history.
    pub mode: WriteMode,
    /// Durability.
    pub durability: Durability,
    /// Layout of the arena.
    pub format: Format,
    /// Slots for blocks.
    pub slots: u32,
    /// Minimum number of slots of the next process.
    pub slots_least: u32,
    /// Maximum number of slots of the next process.
    pub slots_max: u32,
    /// Shards.
    pub shards: u32,
    /// Neighbouring blocks that share a shard.
    pub region_blocks: u32,
    /// Zero extents that a shard can hold.
    pub extents: u32,
    /// Blocks in a shard's largest range of zeros.
    pub zeros_blocks: u32,
    /// The policy, which chooses the clean slot to evict.
    pub policy: Kind,
    /// The share of its window when a process begins, if it has one, in 1024ths.
    pub window_share: u32,
    /// Maximum number of fills in progress per shard.
    pub fills: u32,
    /// Blocks in the largest fill, and in the largest writeback request.
    pub run_blocks: u32,
    /// Blocks that are released in one section.
    pub slice_blocks: u32,
    /// Maximum number of dirty blocks.
    pub dirty_blocks_max: u32,
    /// Longest time that dirty data may wait.
    pub dirty_age_ns: u64,
    /// Longest time that writing back all data may take; 0: no limit.
    pub flush_target_ns: u64,
    /// Time for which errors are retried.
    pub retry_time_ns: u64,
    /// Time without an answer after which the disk counts as hanging; 0: not watched.
    pub stall_time_ns: u64,
    /// Writeback tasks per lane.
    pub workers: u32,
    /// Readahead tasks per lane; 0: no readahead.
    pub readers: u32,
    /// Blocks after which a stream is not cached.
    pub stream_blocks_max: u32,
    /// The longest write that is absorbed, in blocks.
    pub absorb_blocks_max: u32,
    /// Assumed cost of admitting a block after a miss.
    pub fill_cost_ns: u64,
    /// Whether a process that takes over keeps clean blocks.
    pub keeps_clean: bool,
    /// Whether evicted blocks are compressed.
    pub compress: Compress,
}

/// Frequency of each kind of operation, as weights.
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
    /// Queries for contents known without reading.
    pub status: u32,
}

/// Number of states tested.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Number of survivor sets of a power cut, at each crash point.
    pub power: u32,
    /// Number of sets of landed writes of a kill, at each crash point.
    pub kill: u32,
    /// The same number for a kill in the middle of a section.
    pub kill_midway: u32,
    /// Kills in the middle of a section come after one of this many stores of a step, or (1) after
    /// each.
    pub midway_one_of: u32,
    /// One of this many crash points is tested with a kill, too.
    pub kill_one_in: u32,
    /// One of this many states is followed by another run with its own crashes; 0: none.
    pub nested_one_in: u32,
    /// One of this many kills also damages the memory; 0: none.
    pub damaged_one_in: u32,
}

impl Limits {
    /// Returns lower limits, for histories that are not about crashes.
    fn reduced(self) -> Limits {
        Limits {
            power: self.power.min(1),
            kill: self.kill.min(1),
            kill_one_in: self.kill_one_in * 32,
            midway_one_of: self.midway_one_of * 64,
            ..self
        }
    }
}

/// All parameters of one history.
#[derive(Clone, Debug)]
pub struct Setup {
    /// The seed from which all of them follow.
    pub seed: u64,
    /// Its length, and the share of it that is tested.
    pub scale: Scale,
    /// The disk.
    pub model: Model,
    /// Failing operations of the disk.
    pub faults: Faults,
    /// Whether flushes may fail at all.
    pub flushes_fail: bool,
    /// The engine.
    pub engine: EngineSetup,
    /// The link to the server of the disk. None: the disk is one of this machine.
    pub link: Option<LinkPlan>,
    /// Threads, as lanes of one world.
    pub lanes: u32,
    /// Clients, each with one operation at a time, or with a pair of changes.
    pub clients: u32,
    /// Operations of all clients together.
    pub operations: u32,
    /// Kinds of operations.
    pub mix: Mix,
    /// The longest pause between two operations of a client, in virtual nanoseconds.
    pub think_ns: u64,
    /// The longest operation, in sectors.
    pub sectors_max: u32,
    /// Whether operations begin and end anywhere, also inside blocks.
    pub bytes: bool,
    /// One of this many operations goes to the hot blocks.
    pub hot_one_in: u32,
    /// Number of changes of the write mode during the run.
    pub mode_switches: u32,
    /// Number of changes of settings, including the write mode, during the run.
    pub sets: u32,
    /// Number of times that the guard turns bypass on or off.
    pub bypasses: u32,
    /// Number of changes of the share of the policy's window.
    pub window_shares: u32,
    /// Number of lists of hot blocks that are read back.
    pub warms: u32,
    /// Number of times that hints about files are set or removed.
    pub hints: u32,
    /// Whether most reads continue where the last one of their client ended.
    pub streams: bool,
    /// Number of times that clients advise about later reads.
    pub advices: u32,
    /// One read in this many is an observer's. 0: none.
    pub observed_one_in: u32,
    /// Number of times that clients send two changes of the same blocks without waiting for the
    /// first.
    pub pairs: u32,
    /// One of this many operations is followed by a new connection.
    pub reconnect_one_in: u32,
    /// Number of times that the operator clears the error of a failed volume.
    pub clears: u32,
    /// Number of times that a separate operator checks whether the volume has failed, and clears
    /// that.
    pub looks: u32,
    /// Number of times that the operator discards the dirty data of a failed volume.
    pub discards: u32,
    /// Number of sectors at its end that the disk may lose before a process takes over, and has
    /// again afterwards; 0: none.
    pub cut: u32,
    /// Kills after which the history continues, in a process that takes over.
    pub takeovers: u32,
    /// One of this many steps is such a kill, until there were enough.
    pub takeover_one_in: u32,
    /// Whether kills during a flush spare the first flush of each process that succeeds.
    pub kills_after_flush: bool,
    /// Amount of testing.
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

/// Shares that the window of the policy may have, in 1024ths: all, as at first, and those that the
/// arbiter may choose.
pub(crate) const WINDOW_SHARES: [u32; 5] = [1024, 1, 32, 256, 512];

impl Setup {
    /// Returns the history of this seed.
    pub fn new(seed: u64, scale: Scale) -> Setup {
        let mut setup = Setup::of_blocks(seed, scale);
        Dice(Random::new(seed ^ 0x0b17_e500)).bytes(&mut setup);
        Dice(Random::new(seed ^ 0x006_2035)).plan_growth(&mut setup);
        // A disk that hangs does not answer immediately.
        setup.model.answers_now =
            !setup.faults.may_hang() && Random::new(seed ^ 0xa25_0e40).one_in(8);
        Dice(Random::new(seed ^ 0x0d12_ec70)).plan_direct_writes(&mut setup);
        Dice(Random::new(seed ^ 0x00c0_39e5)).plan_compression(&mut setup);
        Dice(Random::new(seed ^ 0x0b5e_47e5)).plan_observers(&mut setup);
        Dice(Random::new(seed ^ 0x0003_a9f1)).plan_hints(&mut setup);
        setup
    }

    /// Returns the history of this seed, with a disk that is the export of a server.
    pub fn with_link(seed: u64, scale: Scale) -> Setup {
        let mut setup = Setup::new(seed, scale);
        Dice(Random::new(seed ^ 0x0041_0c15)).plan_link(&mut setup);
        setup
    }

    /// Returns the history with requests for whole blocks only.
    pub(crate) fn of_blocks(seed: u64, scale: Scale) -> Setup {
        let mut dice = Dice(Random::new(seed));
        let small = scale == Scale::Exhaustive;
        let model = base::model(&mut dice, small);
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
            engine: base::engine(&mut dice, small),
            link: None,
            lanes: if small { dice.number_between(1, 2) } else { dice.number_between(1, 3) },
            clients: if small { dice.number_between(1, 3) } else { dice.number_between(1, 6) },
            operations: if small { dice.number_between(5, 8) } else { dice.number_between(50, 72) },
            mix: base::mix(&mut dice),
            think_ns: dice.pick(&[0, 1_000, 20_000, 200_000]),
            sectors_max: dice.pick(&[2, 8, 16, 24]).max(model.logical_sectors),
            bytes: false,
            hot_one_in: dice.pick(&[1, 2, 3]),
            mode_switches: dice.pick(&[0, 0, 1, 3]),
            sets: 0,
            bypasses: 0,
            window_shares: 0,
            warms: 0,
            hints: 0,
            advices: 0,
            observed_one_in: 0,
            pairs: 0,
            streams: false,
            reconnect_one_in: dice.pick(&[0, 0, 20, 8]),
            clears: if faulty { dice.pick(&[0, 1, 2]) } else { 0 },
            looks: 0,
            discards: if faulty { dice.pick(&[0, 0, 1, 2]) } else { 0 },
            cut: 0,
            takeovers: if small { dice.pick(&[0, 0, 1]) } else { dice.pick(&[0, 1, 1, 2]) },
            takeover_one_in: if small { 40 } else { dice.pick(&[100, 300, 1000]) },
            kills_after_flush: false,
            limits: base::limits(small),
            model,
        };
        dice.flushes(&mut setup);
        dice.plan_hangs(&mut setup);
        dice.discards(&mut setup);
        dice.zeroes(&mut setup);
        // With separate dice: all other histories stay unchanged.
        Dice(Random::new(seed ^ 0x04de_4ed0)).orders(&mut setup);
        Dice(Random::new(seed ^ 0x0ea4_1900)).plan_early_writeback(&mut setup);
        Dice(Random::new(seed ^ 0x5e77_1295)).changes(&mut setup);
        Dice(Random::new(seed ^ 0x0704_5e1f)).plan_throttling(&mut setup);
        Dice(Random::new(seed ^ 0x1007_5000)).looks(&mut setup);
        Dice(Random::new(seed ^ 0x51_1ce5)).releases(&mut setup);
        Dice(Random::new(seed ^ 0x05a4_d500)).shards(&mut setup);
        Dice(Random::new(seed ^ 0x0005_1235)).sizes(&mut setup);
        Dice(Random::new(seed ^ 0x0ad7_15e0)).advices(&mut setup);
        Dice(Random::new(seed ^ 0x0014_4e50)).lanes(&mut setup);
        Dice(Random::new(seed ^ 0x0005_4a4e)).windows(&mut setup);
        Dice(Random::new(seed ^ 0x0005_74ea)).streams(&mut setup);
        Dice(Random::new(seed ^ 0x0a11_17a0)).pairs(&mut setup);
        Dice(Random::new(seed ^ 0x1a7e_f150)).late_flushes(&mut setup);
        Dice(Random::new(seed ^ 0x0004_e1d0)).make_copies_expensive(&mut setup);
        setup.engine.keeps_clean = !Random::new(seed ^ 0x000c_1ea2).one_in(4);
        Dice(Random::new(seed ^ 0x0003_a530)).warms(&mut setup);
        setup
    }
}
