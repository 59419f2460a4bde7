//! A volume's statistics, as the control socket reports them. Keys are only ever added; values that
//! an older daemon does not report are 0 or absent.
//!
//! Each counter or histogram of the cache is one row of the tables in
//! `crates/core/cache/src/stats`, and is reported without further code here.

use super::errors::BackingErrors;
use super::losses::Losses;
use super::words::State;
use block::{Durability, LinkDown, LinkReport, LinkState};
use cache::{Counters, Histograms};
use drives::Victims;
use histogram::Snapshot;
use serde::{Deserialize, Serialize};

/// Statistics of a volume. Times are in nanoseconds.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Statistics {
    /// Name and version of this format.
    pub schema: String,
    /// The volume's name.
    pub volume: String,
    /// The daemon's own clock, for rates.
    pub now_ns: u64,
    /// Time for which the daemon has served the volume: counters and histograms are of that time.
    /// 0: an older daemon does not report it.
    pub served_ns: u64,
    /// Memory for blocks, in bytes; 0: no cache.
    pub memory_bytes: u64,
    /// How writes are handled.
    pub write: String,
    /// Guarantee of a flush, if there is a cache.
    pub durability: Option<Durability>,
    /// State of the volume.
    pub state: State,
    /// Number of connected clients.
    pub clients: u64,
    /// Number of changes that a freeze holds back.
    pub held_changes: u64,
    /// Time in which at least one request of a client was in flight. Requests that were answered
    /// immediately are not included.
    pub busy_ns: u64,
    /// Counters of the cache; zeros if there is none.
    pub counters: Counters,
    /// Histograms of the cache; empty if there is none.
    pub latencies: Histograms,
    /// Bypass state of the cache, if there is one.
    pub guard: Option<Guard>,
    /// State of the policy, if there is a cache.
    pub policy: Option<Policy>,
    /// Misses that other sizes of the cache would have had, if they can be estimated.
    pub curve: Option<Curve>,
    /// The classes of files to which accessed blocks belong, if there is a map of the files.
    pub files: Option<FileHints>,
    /// Requests to the backing.
    pub backing: Backing,
    /// Requests that wait for an NBD export, if the backing is one that is written.
    pub export: Option<Export>,
    /// Acknowledged writes that the volume has lost.
    pub losses: Losses,
    /// The link to the server of the backing, if it has one.
    pub link: Option<Link>,
    /// State of a modelled drive, if the backing is one.
    pub model: Option<Model>,
    /// The members of a pool, if the backing is one.
    pub members: Vec<Member>,
    /// The daemon's process.
    pub process: Process,
}

impl Statistics {
    /// The current format.
    pub const SCHEMA: &str = "overdrive.volume-stats/1";

    /// Whether the volume has a cache.
    pub fn has_cache(&self) -> bool {
        self.memory_bytes > 0
    }
}

/// The hints about a volume's files.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FileHints {
    /// Whether the policy follows them; otherwise they cost hits.
    pub followed: bool,
    /// Time since the present map was made or loaded.
    pub age_ns: u64,
    /// Memory of the map, in bytes.
    pub map_bytes: u64,
    /// The classes that had accesses.
    pub classes: Vec<FileClass>,
}

/// A class of files. Its figures are of the time since the first map was followed.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct FileClass {
    /// Its name.
    pub class: String,
    /// Accesses to cached blocks: an estimate from a sample of the blocks.
    pub hits: u64,
    /// Blocks that were missing when they were accessed.
    pub misses: u64,
    /// Those of them that were not admitted because of their class.
    pub skipped: u64,
    /// Blocks that were not evicted because of their class.
    pub spared: u64,
    /// Time saved by the hits: an estimate.
    pub time_saved_ns: u64,
}

/// The link to the server of the backing.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Link {
    /// How requests are handled while it is down.
    pub policy: LinkDown,
    /// Time since its loss, if it is down; 0: it is up.
    pub down_since_ns: u64,
    /// Number of times that it has been down, with the present one.
    pub downs: u64,
    /// Time that it has been down in all.
    pub down_ns: u64,
}

impl Link {
    /// Returns what happens to requests while it is down, as a clause.
    pub fn consequence(&self) -> &'static str {
        match self.policy {
            LinkDown::Fail => "the volume fails if the link is not up again within retry_time",
            LinkDown::Wait => "requests that need it wait",
            LinkDown::ServeClean => "requests fail, except reads of cached data",
        }
    }

    /// Whether it is down.
    pub fn is_down(&self) -> bool {
        self.down_since_ns > 0
    }

    /// Returns the state of a link at `now_ns`.
    pub(crate) fn of(link: &LinkState, now_ns: u64) -> Link {
        let LinkReport { down_since_ns, downs, down_ns } = link.report(now_ns);
        Link { policy: link.policy(), down_since_ns, downs, down_ns }
    }
}

/// Bypass state of the cache.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Guard {
    /// Whether bypass is allowed.
    pub on: bool,
    /// Expected hits of an admitted miss before its eviction; None: too early to estimate.
    pub expected_hits: Option<f64>,
    /// Reason why reads are not cached, if they bypass the cache.
    #[serde(rename = "reads_aside")]
    pub reads_bypass: Option<String>,
    /// Reason why writes go to the backing, if they bypass the cache.
    #[serde(rename = "writes_aside")]
    pub writes_bypass: Option<String>,
    /// Number of bypass periods.
    pub times: u64,
    /// Total duration of bypass.
    pub bypass_ns: u64,
}

/// Changes and flushes of an NBD export that are not answered, and old copies of changes that its
/// server may still execute.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Export {
    /// Number of changes and flushes that are not answered.
    pub unanswered: u64,
    /// Number of those that are held because of old copies (SEMANTICS.md, C15).
    pub held: u64,
    /// Age of the oldest one.
    pub oldest_ns: u64,
    /// Event for which it waits: `connection`, `hold`, `room` or `answer`.
    pub waits_for: Option<String>,
    /// Number of old copies.
    pub fences: u64,
    /// Time after which the server executes none of them any more.
    pub settled_in_ns: u64,
}

/// State of the policy.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Policy {
    /// Its name.
    pub name: String,
    /// Its queues of clean blocks, and the bytes in each.
    pub queues: Vec<Queue>,
    /// The target size of the window of new blocks, in per cent of the clean blocks, if the policy
    /// has one.
    pub window_percent: Option<f64>,
}

/// A queue of the policy.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Queue {
    /// Its name.
    pub name: String,
    /// Bytes of the blocks in it.
    pub bytes: u64,
}

/// The live miss-ratio curve, from a simulation of a sample of all blocks.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Curve {
    /// Length of the observed time, in nanoseconds; earlier accesses have less weight.
    pub window_ns: u64,
    /// The part of it in which earlier processes served the volume.
    pub earlier_ns: u64,
    /// Accesses to blocks in that time.
    pub accesses: u64,
    /// Whether the cache is too small for a reliable estimate.
    pub is_too_small: bool,
    /// Points from an eighth of the present memory to four times the present memory.
    pub points: Vec<Point>,
}

/// A point of the curve: one size of the cache.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Point {
    /// Memory of the cache.
    pub memory_bytes: u64,
    /// Share of accesses that it would have missed.
    pub miss_ratio: f64,
    /// The same without compression. None: the volume is not compressed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uncompressed_miss_ratio: Option<f64>,
    /// Time that reads would have spent less waiting for the backing, compared with the present
    /// memory, in nanoseconds per second, summed over reads. Negative: they would have waited
    /// longer. None: the duration of backing reads has not been measured.
    pub saves_ns_per_s: Option<f64>,
}

/// Requests to the backing, with or without a cache. Latencies are means; 0: not measured.
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
    /// Errors by kind.
    pub errors_by_kind: BackingErrors,
    /// Mean time of a read; with a cache, of recent reads.
    pub read_mean_ns: u64,
    /// Further counts, if there is no cache that counts requests.
    #[serde(flatten)]
    pub kinds: Option<BackingKinds>,
}

/// Requests to a backing without a cache, by kind.
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
    /// Mean time of a write.
    pub write_mean_ns: u64,
    /// Mean time of a flush.
    pub flush_mean_ns: u64,
}

/// State of a modelled drive, and how late its answers were.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Model {
    /// Its name.
    pub drive: String,
    /// Its display name.
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
    /// Number of power cuts.
    pub power_cuts: u64,
    /// Bytes whose newest version was lost in power cuts.
    pub lost_bytes: u64,
    /// Bytes of data that it stores.
    pub data_bytes: u64,
    /// Delay of each answer against the model's time.
    pub lateness: Snapshot,
    /// Its recent write amplification; None for a hard disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub lately: Option<Lately>,
    /// Its SMART attributes; None for a hard disk.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub attributes: Option<Vec<Attribute>>,
    /// State of its flash; None for a hard disk.
    #[serde(flatten)]
    pub flash: Option<Flash>,
}

/// State of a modelled drive's flash.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
pub struct Flash {
    /// Bytes written by the host.
    pub host_written_bytes: u64,
    /// Bytes read by the host.
    pub host_read_bytes: u64,
    /// Bytes programmed.
    pub nand_written_bytes: u64,
    /// Programmed bytes over bytes written by the host, over its whole life.
    pub write_amplification: f64,
    /// Erasures of the least worn block.
    pub erases_least: u32,
    /// Mean erasures of a block.
    pub erases_mean: u32,
    /// Erasures of the most worn block.
    pub erases_most: u32,
    /// Erasures over the endurance, in percent.
    pub worn_percent: f64,
    /// Free superblocks.
    pub free_superblocks: u32,
}

/// Recent write amplification of a modelled drive, and the inputs for its theoretical value. The
/// command computes that value, because the computation would block a lane for too long.
#[derive(Clone, PartialEq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Lately {
    /// Bytes written by the host in the recent period.
    pub host_written_bytes: u64,
    /// Write amplification in that period.
    pub write_amplification: f64,
    /// Whether the write amplification has become steady.
    pub steady: bool,
    /// Slots in use over slots visible to the host.
    pub alpha: f64,
    /// How superblocks are chosen for cleaning.
    pub victims: String,
    /// Number of candidates from which the best is chosen, if `victims` is `choices`.
    pub choices: Option<u32>,
    /// Slots per superblock.
    pub superblock_slots: u32,
}

impl Lately {
    /// Returns how superblocks are chosen, if this program supports the value.
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

/// A SMART attribute, as smartctl shows it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Attribute {
    /// Its number; 0 in an NVMe log.
    pub id: u8,
    /// Its name.
    pub name: String,
    /// The vendor's normalized value, from 100 for new downwards.
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
    /// Completed reads.
    pub reads: u64,
    /// Completed writes.
    pub writes: u64,
    /// Discarded runs of slots.
    pub trims: u64,
    /// Requests that ended with an error.
    pub errors: u64,
    /// Bytes of data written since the pool was made.
    pub written_bytes: u64,
    /// Bytes free for data.
    pub free_bytes: u64,
    /// Requests in progress.
    pub in_flight: u32,
    /// Moving mean of the time per request.
    pub latency_ns: u64,
}

/// The daemon's process.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Process {
    /// Page faults served from memory.
    pub page_faults_minor: u64,
    /// Page faults served from a file or from swap.
    pub page_faults_major: u64,
    /// Time that all lanes of the daemon have spent polling, in nanoseconds of wall-clock time.
    pub poll_spent_ns: u64,
    /// Part of that time after which a lane found no work.
    pub poll_vain_ns: u64,
    /// Clients that were refused because of TLS: without it where it is required, or not trusted.
    pub tls_refused: u64,
    /// Rights that the process has given up.
    pub confined: Confined,
}

/// Rights that a daemon has given up after its start.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Confined {
    /// The system calls that no daemon needs are forbidden.
    pub calls: bool,
    /// The files and directories that it does not need are forbidden.
    pub files: ConfinedFiles,
    /// It has only those capabilities that it needs.
    #[serde(default)]
    pub rights: bool,
}

/// How far the files of a process are confined.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConfinedFiles {
    /// It may use all files that its user may use.
    #[default]
    No,
    /// The kernel cannot forbid all kinds of access.
    Partly,
    /// It may only use the files that it needs.
    Yes,
}
