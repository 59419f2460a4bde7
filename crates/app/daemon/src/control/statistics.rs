//! What a volume has counted and measured, as the control socket tells it. Keys are only ever added; what
//! an older daemon does not tell is 0 or nothing.
//!
//! A counter or a histogram of the cache is one row of the tables in `crates/core/cache/src/stats`, and is
//! told without a word here.

use super::errors::BackingErrors;
use super::losses::Losses;
use super::words::State;
use block::Durability;
use cache::{Counters, Histograms};
use drives::Victims;
use histogram::Snapshot;
use serde::{Deserialize, Serialize};

/// What a volume has counted and measured. Times are in nanoseconds.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Statistics {
    /// The form of all this, and its version.
    pub schema: String,
    /// The volume's name.
    pub volume: String,
    /// The daemon's own clock, for rates.
    pub now_ns: u64,
    /// Memory for blocks, in bytes; 0: no cache.
    pub memory_bytes: u64,
    /// What happens to writes.
    pub write: String,
    /// What a flush means, if there is a cache.
    pub durability: Option<Durability>,
    /// How it stands.
    pub state: State,
    /// Clients that are connected.
    pub clients: u64,
    /// Changes that a freeze holds.
    pub held_changes: u64,
    /// What the cache has counted; zeros if there is none.
    pub counters: Counters,
    /// What the cache has measured; empty if there is none.
    pub latencies: Histograms,
    /// Whether the cache steps aside, if there is one.
    pub guard: Option<Guard>,
    /// How the policy stands, if there is a cache.
    pub policy: Option<Policy>,
    /// What other sizes of the cache would have missed, if that is known.
    pub curve: Option<Curve>,
    /// What was asked of the backing.
    pub backing: Backing,
    /// Acknowledged writes that it has lost.
    pub losses: Losses,
    /// What a modelled drive has done, if the backing is one.
    pub model: Option<Model>,
    /// The members of a pool, if the backing is one.
    pub members: Vec<Member>,
    /// The daemon's process.
    pub process: Process,
}

impl Statistics {
    /// The form as it is now.
    pub const SCHEMA: &str = "overdrive.volume-stats/1";

    /// Whether it has a cache.
    pub fn has_cache(&self) -> bool {
        self.memory_bytes > 0
    }
}

/// Whether the cache steps aside.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Guard {
    /// Whether it may.
    pub on: bool,
    /// Hits to be expected of a miss that is kept, before it is given up; None: too early to say.
    pub expected_hits: Option<f64>,
    /// Why what is read is not kept.
    pub reads_aside: Option<String>,
    /// Why writes go to the backing.
    pub writes_aside: Option<String>,
    /// How often it has.
    pub times: u64,
    /// For how long in all.
    pub bypass_ns: u64,
}

/// How the policy stands.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Its queues of clean blocks, and the bytes in each.
    pub queues: Vec<Queue>,
    /// The share of the clean blocks that the window of new ones is to have, in per cent, if the policy has one.
    pub window_percent: Option<f64>,
}

/// A queue of the policy.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// The bytes of the blocks in it.
    pub bytes: u64,
}

/// The live miss-ratio curve, by a simulation of a sample of all blocks.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Curve {
    /// How long the time was that this is about, in nanoseconds; accesses of before count for less.
    pub window_ns: u64,
    /// Accesses to blocks in that time.
    pub accesses: u64,
    /// The cache is so small that this is guesswork.
    pub is_too_small: bool,
    /// From an eighth of the present memory to four times as much.
    pub points: Vec<Point>,
}

/// One size of the cache.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Point {
    /// Its memory.
    pub memory_bytes: u64,
    /// The share of accesses that it would have missed.
    pub miss_ratio: f64,
    /// How much less time reads would have waited for the backing than with the present memory, in nanoseconds for each
    /// second, summed over reads; negative: how much more. None: it is not measured how long the backing takes.
    pub saves_ns_per_s: Option<f64>,
}

/// What was asked of the backing, whether there is a cache or not. Latencies are means; 0: not measured.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Backing {
    /// Reads.
    pub reads: u64,
    /// Writes, zeroes and discards.
    pub changes: u64,
    /// Flushes.
    pub flushes: u64,
    /// Requests that ended with an error.
    pub errors: u64,
    /// Those by kind.
    pub errors_by_kind: BackingErrors,
    /// Of a read; with a cache, of the latest.
    pub read_mean_ns: u64,
    /// More, where there is no cache that counts.
    #[serde(flatten)]
    pub kinds: Option<BackingKinds>,
}

/// What was asked of a backing without a cache, kind by kind.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
pub struct BackingKinds {
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub write_bytes: u64,
    /// Bytes zeroed.
    pub zero_bytes: u64,
    /// Bytes discarded.
    pub discard_bytes: u64,
    /// Of a write.
    pub write_mean_ns: u64,
    /// Of a flush.
    pub flush_mean_ns: u64,
}

/// What a modelled drive has done, and how late its answers were.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Model {
    /// Its name.
    pub drive: String,
    /// Its name for people.
    pub title: String,
    /// `on` or `off`.
    pub power: String,
    /// Read commands.
    pub reads: u64,
    /// Write commands.
    pub writes: u64,
    /// Trim commands.
    pub trims: u64,
    /// Flush commands.
    pub flushes: u64,
    /// Commands that were refused.
    pub refused: u64,
    /// How often its power was cut.
    pub power_cuts: u64,
    /// Bytes that lost their newest version by that.
    pub lost_bytes: u64,
    /// Bytes of data that it holds.
    pub data_bytes: u64,
    /// How much later than the model says each command was answered.
    pub lateness: Snapshot,
    /// What it amplified lately; none of a hard disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lately: Option<Lately>,
    /// Its SMART attributes; none of a hard disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Vec<Attribute>>,
    /// What it knows of its flash; none of a hard disk.
    #[serde(flatten)]
    pub flash: Option<Flash>,
}

/// What a modelled drive knows of its flash.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Flash {
    /// Bytes that the host wrote.
    pub host_written_bytes: u64,
    /// Bytes that the host read.
    pub host_read_bytes: u64,
    /// Bytes that were programmed.
    pub nand_written_bytes: u64,
    /// Programs over writes of the host, in its whole life.
    pub write_amplification: f64,
    /// Erasures of the block that is worn least.
    pub erases_least: u32,
    /// Erasures of a block, in the mean.
    pub erases_mean: u32,
    /// Erasures of the block that is worn most.
    pub erases_most: u32,
    /// Erasures over the endurance, in percent.
    pub worn_percent: f64,
    /// Superblocks that are free.
    pub free_superblocks: u32,
}

/// What a modelled drive amplified lately, and what theory's own word on that follows from: the command
/// works it out, for that takes longer than a lane has.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Lately {
    /// Bytes that the host wrote in that time.
    pub host_written_bytes: u64,
    /// Amplification of those.
    pub write_amplification: f64,
    /// Whether it has settled.
    pub steady: bool,
    /// Slots in use over slots that the host sees.
    pub alpha: f64,
    /// How superblocks are chosen for cleaning.
    pub victims: String,
    /// Of how many the best is taken, where they are chosen so.
    pub choices: Option<u32>,
    /// Slots of a superblock.
    pub superblock_slots: u32,
}

impl Lately {
    /// How superblocks are chosen, if this program knows the word.
    pub fn victims(&self) -> Option<Victims> {
        match self.victims.as_str() {
            "greedy" => Some(Victims::Greedy),
            "fifo" => Some(Victims::Fifo),
            "choices" => self.choices.map(Victims::Choices),
            "cost-benefit" => Some(Victims::CostBenefit),
            _ => None,
        }
    }
}

impl From<&drive_backend::Lately> for Lately {
    fn from(lately: &drive_backend::Lately) -> Lately {
        let (victims, choices) = match lately.victims {
            Victims::Greedy => ("greedy", None),
            Victims::Fifo => ("fifo", None),
            Victims::Choices(count) => ("choices", Some(count)),
            Victims::CostBenefit => ("cost-benefit", None),
        };
        Lately {
            host_written_bytes: lately.host_written_bytes,
            write_amplification: lately.write_amplification,
            steady: lately.is_steady,
            alpha: lately.alpha,
            victims: victims.to_owned(),
            choices,
            superblock_slots: lately.superblock_slots,
        }
    }
}

/// A SMART attribute, as smartctl tells it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Attribute {
    /// Its number; 0 in NVMe's log.
    pub id: u8,
    /// Its name.
    pub name: String,
    /// What the vendor makes of it, from 100 for new downwards.
    pub normalized: Option<u8>,
    /// Its raw value.
    pub raw: String,
}

/// A member of a pool.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Member {
    /// `good`, `slow` or `failed`.
    pub state: String,
    /// Reads that have ended.
    pub reads: u64,
    /// Writes that have ended.
    pub writes: u64,
    /// Runs of places that were discarded.
    pub trims: u64,
    /// Requests that ended with an error.
    pub errors: u64,
    /// Bytes of data written since the pool was made.
    pub written_bytes: u64,
    /// Bytes free for data.
    pub free_bytes: u64,
    /// Requests that are under way.
    pub in_flight: u32,
    /// A moving mean of the time that a request takes.
    pub latency_ns: u64,
}

/// The daemon's process.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Page faults that were answered from memory.
    pub page_faults_minor: u64,
    /// Page faults that were answered from a file or from swap.
    pub page_faults_major: u64,
    /// Nanoseconds that all lanes of the daemon have spent in polling, by the clock.
    pub poll_spent_ns: u64,
    /// Nanoseconds of that after which a lane found no work.
    pub poll_vain_ns: u64,
}
