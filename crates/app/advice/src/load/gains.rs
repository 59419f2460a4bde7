//! Time that a cache saves, by size, by process and by the meaning of a flush.

use super::facts::{Facts, Latency, Mean, Premises, Source};
use super::machine::Displaced;
use simulator::Accessed;

/// Time of a hit through a served volume, in nanoseconds: copying the block, and the way to the
/// client.
pub(super) const HIT_NS: f64 = 10_000.0;
pub(super) const DAY_NS: f64 = 86_400e9;

/// The gain of a cache of one size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct SizeGain {
    /// Size of the cache in bytes.
    pub memory_bytes: u64,
    /// Share of all accessed blocks that are cached.
    pub hit_ratio: f64,
    /// Share of the blocks of reads that are cached. None: reads and writes are not distinguished.
    pub read_hit_ratio: Option<f64>,
    /// Share of the blocks of writes that are cached. None: as above.
    pub write_hit_ratio: Option<f64>,
    /// Time of requests that is saved in the observed time, in nanoseconds.
    pub saved_ns: f64,
    /// The part of it that reads save.
    pub read_saved_ns: f64,
    /// The same in a day. None: the observed time is unknown.
    pub saved_ns_per_day: Option<f64>,
    /// Whether the memory is spare. None: unknown.
    pub is_spare: Option<bool>,
    /// The part of the page cache that it displaces. None: unknown.
    pub displaced: Option<Displaced>,
}

/// The gain of a process with a cache of one size.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct ProcessGain {
    /// Size of the cache in bytes.
    pub memory_bytes: u64,
    /// Share of the blocks of its reads that are cached.
    pub read_hit_ratio: f64,
    /// Share of the blocks of its writes that are cached.
    pub write_hit_ratio: f64,
    /// Time of its reads that is saved in the observed time, in nanoseconds.
    pub read_saved_ns: f64,
}

/// The gain of writes with one meaning of a flush.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct DurabilityGain {
    /// Its name on the command line.
    pub name: &'static str,
    /// Whether a served volume has it at present.
    pub is_present: bool,
    /// Time of writes and flushes that is saved in the observed time, in nanoseconds.
    pub saved_ns: f64,
    /// The same in a day. None: the observed time is unknown.
    pub saved_ns_per_day: Option<f64>,
}

pub(super) fn ratio(part: u64, all: u64) -> f64 {
    part as f64 / all.max(1) as f64
}

/// Returns a time of the observed time as a time of a day. None: the observed time is unknown.
pub(super) fn per_day(facts: &Facts, ns: f64) -> Option<f64> {
    facts.duration_ns.map(|all| ns / all as f64 * DAY_NS)
}

/// Returns the gains by size.
pub(super) fn by_size(facts: &Facts, premises: &Premises) -> Vec<SizeGain> {
    let latency = &premises.latency;
    let written_ns = overwritten_ns(facts, latency);
    let gain = |hits: &simulator::Hits| {
        let part = Accessed {
            read_blocks: hits.read_blocks,
            write_blocks: hits.write_blocks,
            read_ns: hits.read_ns,
        };
        let load = Reads { count: facts.reads, times: facts.read_times, accessed: facts.accessed };
        let read_saved_ns = load.saved_ns(latency, &part);
        let saved_ns = read_saved_ns + written_ns;
        let all = facts.accessed.read_blocks + facts.accessed.write_blocks;
        let machine = &premises.machine;
        SizeGain {
            memory_bytes: hits.memory_bytes,
            hit_ratio: ratio(hits.read_blocks + hits.write_blocks, all),
            read_hit_ratio: Some(ratio(hits.read_blocks, facts.accessed.read_blocks)),
            write_hit_ratio: Some(ratio(hits.write_blocks, facts.accessed.write_blocks)),
            saved_ns,
            read_saved_ns,
            saved_ns_per_day: per_day(facts, saved_ns),
            is_spare: machine.map(|machine| hits.memory_bytes <= machine.spare_bytes()),
            displaced: machine.map(|machine| machine.displaced(hits.memory_bytes)),
        }
    };
    facts.hits.iter().map(gain).collect()
}

/// Returns the gains of each process, by size, in the order of [`Facts::processes`].
pub(super) fn by_process(facts: &Facts, latency: &Latency) -> Vec<Vec<ProcessGain>> {
    let gains = |process: &super::facts::Process| {
        let accessed = process.accessed;
        let load = Reads { count: process.reads, times: process.read_times, accessed };
        let sizes = facts.hits.iter().zip(&process.hits);
        sizes
            .map(|(size, hits)| ProcessGain {
                memory_bytes: size.memory_bytes,
                read_hit_ratio: ratio(hits.read_blocks, accessed.read_blocks),
                write_hit_ratio: ratio(hits.write_blocks, accessed.write_blocks),
                read_saved_ns: load.saved_ns(latency, hits),
            })
            .collect()
    };
    facts.processes.iter().map(gains).collect()
}

/// Reads without a cache.
struct Reads {
    count: u64,
    times: Mean,
    accessed: Accessed,
}

impl Reads {
    /// Returns the time that hits save: their own recorded times, or else mean times, less that of
    /// hits.
    fn saved_ns(&self, latency: &Latency, hits: &Accessed) -> f64 {
        let hit_reads = self.count as f64 * ratio(hits.read_blocks, self.accessed.read_blocks);
        let without_ns = match (latency.source, self.times.count) {
            (Source::Recorded, 1..) => {
                hits.read_ns as f64 * self.count as f64 / self.times.count as f64
            }
            _ => hit_reads * latency.read_ns,
        };
        (without_ns - hit_reads * HIT_NS).max(0.0)
    }
}

/// Returns the time of the writes that never reach the device because a later one replaces them
/// before the next flush. It is a lower bound: the others are written together.
fn overwritten_ns(facts: &Facts, latency: &Latency) -> f64 {
    let ratio = ratio(facts.overwritten_blocks.unwrap_or(0), facts.accessed.write_blocks);
    facts.writes as f64 * ratio * (latency.write_ns - HIT_NS).max(0.0)
}

/// Returns the gains by the meaning of a flush; none if flushes are unknown.
pub(super) fn by_durability(facts: &Facts, latency: &Latency) -> Vec<DurabilityGain> {
    let Some(flushes) = facts.flushes else { return Vec::new() };
    // No program waits for the kernel's writeback.
    let waited = facts.writes.saturating_sub(facts.background_writes) as f64;
    let writes = waited * (latency.write_ns - HIT_NS).max(0.0);
    let flushed = flushes as f64 * (latency.flush_ns - HIT_NS).max(0.0);
    let ordered = if flushes > 0 { writes + flushed } else { 0.0 };
    // Counters do not show which blocks are written again.
    let flush = facts.overwritten_blocks.map(|_| ("flush", overwritten_ns(facts, latency)));
    let gains = flush.into_iter().chain([("ordered", ordered)]);
    gains
        .map(|(name, saved_ns)| DurabilityGain {
            name,
            is_present: false,
            saved_ns,
            saved_ns_per_day: per_day(facts, saved_ns),
        })
        .collect()
}

/// Returns the most that readahead of streams saves. None: addresses are unknown.
pub(super) fn readahead_ns(facts: &Facts, latency: &Latency) -> Option<f64> {
    let followed = facts.followed?;
    let count = followed.count as f64;
    let without_ns = match (latency.source, followed.sum_ns) {
        (Source::Recorded, 1..) => followed.sum_ns as f64,
        _ => count * latency.read_ns,
    };
    Some((without_ns - count * HIT_NS).max(0.0))
}
