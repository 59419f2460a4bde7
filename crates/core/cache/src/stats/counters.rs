//! The counters of a volume, each with its unit and its meaning: one definition gives the fields,
//! their documentation and the texts of [`Counters::explained`].

use core::ops::AddAssign;
use serde::{Deserialize, Serialize};

macro_rules! is_gauge {
    (count) => {
        false
    };
    (gauge) => {
        true
    };
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $kind:ident $name:ident: $unit:literal,)*) => {
        /// Counts since the volume was opened, and gauges with current values. Names are only ever
        /// added.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
        #[serde(default)]
        pub struct Counters {
            $($(#[doc = $doc])+ #[doc = concat!("\n\nUnit: ", $unit, ".")] pub $name: u64,)*
        }

        impl Counters {
            /// Calls `each` with every counter and its name, in the order of the definition.
            pub fn each(&self, mut each: impl FnMut(&'static str, u64)) {
                $(each(stringify!($name), self.$name);)*
            }

            /// Returns the description of every counter, in the same order: its name, its unit,
            /// whether it is a gauge (a current value; the others only grow), and its meaning in
            /// one or two sentences. A block is 4096 bytes.
            pub fn explained()
            -> impl Iterator<Item = (&'static str, &'static str, bool, &'static str)> {
                let all = [$((
                    stringify!($name),
                    $unit,
                    is_gauge!($kind),
                    concat!($($doc),+).trim_ascii(),
                ),)*];
                all.into_iter()
            }
        }

        impl AddAssign<&Counters> for Counters {
            fn add_assign(&mut self, other: &Counters) {
                $(self.$name += other.$name;)*
            }
        }
    };
}

counters! {
    /// Read requests answered from memory.
    count read_hits: "requests",
    /// Read requests that went to the backing.
    count read_misses: "requests",
    /// Read requests that waited for the fetch of another request.
    count read_joins: "requests",
    /// Blocks answered from memory.
    count blocks_hit: "blocks",
    /// Accesses to blocks, as a simulation counts them: each block of a read, and each block of a
    /// write that is cached.
    count block_accesses: "blocks",
    /// Accesses to blocks that were not held.
    count block_misses: "blocks",
    /// Reads of blocks that were not held.
    count block_read_misses: "blocks",
    /// Blocks admitted after a miss.
    count blocks_filled: "blocks",
    /// Blocks of which memory answered sectors instead of the fetch: they were in memory before, or
    /// a write changed them during the fetch.
    count fills_marked: "blocks",
    /// Misses not admitted because the policy values the cached blocks more.
    count bypass_not_admitted: "requests",
    /// Misses not admitted because they belong to a long stream of reads, and no slot is free.
    count bypass_sequential: "requests",
    /// Blocks of misses not admitted because every slot was dirty or in use.
    count bypass_no_slot: "blocks",
    /// Misses not admitted because the cache is bypassed: see `bypasses`.
    count bypass_guard: "requests",
    /// Blocks requested ahead of streams of reads.
    count readahead_issued: "blocks",
    /// Blocks that were fetched ahead and read.
    count readahead_used: "blocks",
    /// Reads that waited for blocks that were being fetched ahead of them, or missed blocks that
    /// had been requested ahead.
    count readahead_late: "requests",
    /// Blocks that were fetched ahead and evicted, or changed, before they were read.
    count readahead_wasted: "blocks",
    /// Time saved by reads answered from memory: for each, the backing's measured read latency at
    /// that time, minus the sampled time of a hit (0 until it is sampled). A read that waited for
    /// the fetch of another request saves nothing.
    count time_saved_ns: "nanoseconds",
    /// Change requests (write, zero, discard) that were admitted; each piece of a split one counts.
    count changes: "requests",
    /// Blocks that changes of any kind touch, also zeroes and discards. A block that is touched in
    /// part counts in whole.
    count blocks_requested: "blocks",
    /// Bytes of writes with data, without zeroes and discards.
    count asked_write_bytes: "bytes",
    /// Bytes of write-zeroes.
    count asked_zero_bytes: "bytes",
    /// Bytes of discards, where discards read as zeros.
    count asked_discard_bytes: "bytes",
    /// Blocks absorbed into the write buffer.
    count blocks_absorbed: "blocks",
    /// Blocks of the open epoch that were overwritten or discarded before they were written back:
    /// saved writes.
    count blocks_saved: "blocks",
    /// Blocks written back from the buffer.
    count blocks_written: "blocks",
    /// Blocks written back before their epoch was closed.
    count blocks_early: "blocks",
    /// Runs of blocks written back, usually with one request to the backing each.
    count runs_written: "requests",
    /// Requests that wrote ranges of zeros back.
    count zeroes_written: "requests",
    /// Commits that began immediately, instead of by level, age or a client's flush: a change
    /// waited for room in the buffer, dirty data was found at the start, or an error was cleared.
    count writes_urgent: "epochs",
    /// Changes whose answer was delayed because the write buffer was nearly full (C13).
    count changes_slowed: "requests",
    /// The delays of those answers, summed also where several waited at the same time.
    count slowed_ns: "nanoseconds",
    /// Changes written through, for any reason.
    count writes_through: "requests",
    /// Changes written through because no client has shown by a flush that it handles a write
    /// buffer correctly (C11).
    count writes_through_unproven: "requests",
    /// Changes written through because of the write mode.
    count writes_through_mode: "requests",
    /// Changes written through because the request was FUA.
    count writes_through_fua: "requests",
    /// Changes written through because the request was large.
    count writes_through_large: "requests",
    /// Changes written through because the write buffer was full (C6, C13).
    count writes_through_full: "requests",
    /// Changes written through because the oldest dirty block was older than `dirty_age` (C6).
    count writes_through_late: "requests",
    /// Changes written through because the cache is bypassed: see `bypasses`.
    count writes_through_guard: "requests",
    /// Number of times that the guard began to bypass the cache, because admitting blocks or
    /// absorbing writes cost more than it saved (C12).
    count bypasses: "times",
    /// Total time of the bypass.
    count bypass_ns: "nanoseconds",
    /// Blocks evicted.
    count evictions: "blocks",
    /// Flushes requested by clients, and by the engine itself to make progress.
    count flushes: "requests",
    /// Flushes sent to the backing.
    count flushes_backing: "requests",
    /// Epochs that became durable.
    count epochs: "epochs",
    /// Writes that the backing has answered with an error, in writeback or written through.
    count errors_write: "requests",
    /// Write-zeroes that the backing has answered with an error.
    count errors_zero: "requests",
    /// Discards that the backing has answered with an error.
    count errors_discard: "requests",
    /// Flushes that the backing has answered with an error.
    count errors_flush: "requests",
    /// Reads that the backing has answered with an error, including readahead and queries of the
    /// allocation status.
    count errors_read: "requests",
    /// Flushes answered with an error because a flush of the backing was in progress when an
    /// earlier process was killed, over writes of which no copy was held (C1): once for each
    /// client.
    count flushes_doubted: "requests",
    /// Dirty blocks found and taken over at the start (C7).
    count blocks_recovered: "blocks",
    /// Headers of slots and of ranges of zeros that failed their checksum at the start.
    count headers_rejected: "slots",
    /// Slots in use, clean or dirty.
    gauge blocks_held: "blocks",
    /// Dirty blocks: written by clients, and not yet durable on the backing.
    gauge blocks_dirty: "blocks",
    /// The maximum number of dirty blocks that `dirty_bytes` allows.
    gauge dirty_blocks_max: "blocks",
    /// The maximum number of blocks that may wait for writeback, so that a flush does not take too
    /// long (C13).
    gauge allowance_blocks: "blocks",
    /// Age of the oldest dirty block.
    gauge dirty_age_ns: "nanoseconds",
    /// Epochs that are closed, by a flush (`ordered`) or for their writeback, and not durable.
    gauge epochs_closed: "epochs",
    /// Measured latency of the backing's reads; 0: not measured yet.
    gauge backing_read_ns: "nanoseconds",
    /// Sampled time of a read answered from memory; 0: not sampled yet.
    gauge hit_ns: "nanoseconds",
    /// Sampled time to admit a block after a miss, approximately the median; 0: not measured yet.
    gauge keep_ns: "nanoseconds",
    /// Measured rate of writeback; 0: not measured yet.
    gauge drain_blocks_per_second: "blocks/s",
    /// Maximum number of writeback requests in flight while nothing else uses the backing, as
    /// measured.
    gauge drain_window: "requests",
    /// Predicted time to make everything durable: to write back the data that waits for it, and to
    /// flush the backing; in `ordered` mode with a flush for each epoch.
    gauge flush_predicted_ns: "nanoseconds",
    /// 1 while the bypass keeps reads from being admitted, 2 while it keeps writes from being
    /// absorbed, 3 for both.
    gauge bypass_now: "flags",
    /// 1 if the volume has failed (C8).
    gauge failed: "flag",
}

/// The time saved by a shard's hits. It is settled whenever the saving per hit changes, so that
/// each hit counts with the latency of its time, and the code of a hit needs no extra work.
#[derive(Clone, Copy, Default)]
pub(crate) struct Saving {
    /// Hits that are included in the sum.
    settled: u64,
    /// The time that each hit since then saves.
    per_hit_ns: u64,
}

impl Saving {
    /// Adds the time saved by the hits since the last call; each later hit saves `per_hit_ns`.
    pub(crate) fn settle(&mut self, counters: &mut Counters, per_hit_ns: u64) {
        // A read that waited for another one's fetch is counted as a hit when it looks again.
        let hits = counters.read_hits.saturating_sub(counters.read_joins);
        let new = hits.saturating_sub(self.settled);
        let saved_ns = new.saturating_mul(self.per_hit_ns);
        counters.time_saved_ns = counters.time_saved_ns.saturating_add(saved_ns);
        *self = Saving { settled: self.settled.max(hits), per_hit_ns };
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn every_counter_is_explained_once_in_a_sentence() {
        let mut names = Vec::new();
        Counters::default().each(|name, _| names.push(name));
        let explained: Vec<_> = Counters::explained().collect();
        assert_eq!(names, explained.iter().map(|(name, ..)| *name).collect::<Vec<_>>());
        for (name, unit, _, meaning) in &explained {
            assert!(!unit.is_empty(), "{name} has no unit");
            let mut letters = meaning.chars();
            let starts = letters.next().is_some_and(|c| c.is_uppercase() || c.is_numeric());
            assert!(starts && meaning.ends_with('.'), "{name}: {meaning:?}");
            assert!(!meaning.contains("  "), "{name}: lines are joined by one space: {meaning:?}");
            assert!(!name.ends_with("_ns") || *unit == "nanoseconds", "{name} is in {unit}");
        }
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), explained.len(), "a name is there twice");
        let gauge = |wanted: &str| explained.iter().find(|(name, ..)| *name == wanted).map(|e| e.2);
        assert_eq!((gauge("blocks_dirty"), gauge("blocks_hit")), (Some(true), Some(false)));
    }

    #[test]
    fn counts_add_up() {
        let mut sum = Counters { read_hits: 1, time_saved_ns: 5, ..Counters::default() };
        sum += &Counters { read_hits: 2, time_saved_ns: 6, ..Counters::default() };
        assert_eq!((sum.read_hits, sum.time_saved_ns), (3, 11));
    }

    #[test]
    fn each_hit_saves_what_it_saved_at_its_time() {
        let mut counters = Counters::default();
        let mut saving = Saving::default();
        counters.read_hits = 5;
        saving.settle(&mut counters, 100);
        assert_eq!(counters.time_saved_ns, 0, "nothing was measured when these came");
        counters.read_hits = 8;
        saving.settle(&mut counters, 1000);
        assert_eq!(counters.time_saved_ns, 300);
        counters.read_hits = 10;
        counters.read_joins = 1;
        saving.settle(&mut counters, 0);
        assert_eq!(counters.time_saved_ns, 1300, "one of the two had waited for a fetch");
        counters.read_joins = 4;
        saving.settle(&mut counters, 1000);
        counters.read_hits = 13;
        saving.settle(&mut counters, 1000);
        assert_eq!(counters.time_saved_ns, 1300, "those that waited come back as hits");
    }
}
