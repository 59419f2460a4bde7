//! The counters of a volume, each with its unit and its meaning: one definition gives the fields,
//! their documentation and the texts of [`Counters::explained`].

use core::ops::AddAssign;
use core::sync::atomic::{AtomicU64, Ordering};
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

        /// The counters of a shard. They are changed under its lock, and read without it.
        #[derive(Default)]
        pub(crate) struct LiveCounters {
            $(pub(crate) $name: Count,)*
        }

        impl LiveCounters {
            /// Returns the current values, each by itself: another may change in between.
            pub(crate) fn snapshot(&self) -> Counters {
                Counters { $($name: self.$name.get(),)* }
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
    /// Read requests that waited for another request's fetch.
    count read_joins: "requests",
    /// Blocks answered from memory.
    count blocks_hit: "blocks",
    /// Block accesses, as a simulation counts them: one for each block of a read, and of a
    /// write whose data stays in memory. Long streams that are not cached are left out.
    count block_accesses: "blocks",
    /// Block accesses to blocks that were not in memory.
    count block_misses: "blocks",
    /// Block misses of reads.
    count block_read_misses: "blocks",
    /// Clean blocks that were taken over from an earlier process.
    count blocks_retained: "blocks",
    /// Blocks of `blocks_retained` that a client has read or written since.
    count blocks_retained_used: "blocks",
    /// Blocks of `blocks_retained` that were evicted, dropped or replaced before a client used
    /// them.
    count blocks_retained_wasted: "blocks",
    /// Time in which the memory of an earlier process was taken over: from the first message to its
    /// holder until the cache could answer. 0: there was none.
    count takeover_ns: "nanoseconds",
    /// Blocks admitted after a miss.
    count blocks_filled: "blocks",
    /// Blocks of which a read needed a part, and that were fetched whole.
    count blocks_completed: "blocks",
    /// Fetched blocks of which some sectors were taken from memory, because memory held them
    /// already or a change arrived during the fetch.
    count fills_marked: "blocks",
    /// Misses not admitted because the policy values the cached blocks higher, or because of the
    /// class of their file.
    count bypass_not_admitted: "requests",
    /// Misses not admitted because they belong to a long stream of reads, and the cache is
    /// full.
    count bypass_sequential: "requests",
    /// Blocks of misses not admitted because no slot could be freed.
    count bypass_no_slot: "blocks",
    /// Misses not admitted because the cache is bypassed: see `bypasses`.
    count bypass_guard: "requests",
    /// Blocks requested ahead of streams of reads.
    count readahead_issued: "blocks",
    /// Blocks that were fetched ahead and read.
    count readahead_used: "blocks",
    /// Reads that waited for a fetch ahead of them, or arrived before it was requested.
    count readahead_late: "requests",
    /// Blocks that were fetched ahead, and evicted or changed before they were read.
    count readahead_wasted: "blocks",
    /// Blocks named by the list of hot blocks that was read at the start.
    count warm_listed: "blocks",
    /// Blocks cached because that list names them.
    count warm_cached: "blocks",
    /// Blocks of `warm_cached` that were read by clients.
    count warm_used: "blocks",
    /// Blocks of `warm_cached` that were evicted or changed before a client read them.
    count warm_wasted: "blocks",
    /// Time from the start of reading the list until its end.
    count warm_ns: "nanoseconds",
    /// Blocks named by the start-up list that was read at the start.
    count start_listed: "blocks",
    /// Blocks cached because that list names them, ahead of the clients that were expected to read
    /// them.
    count start_cached: "blocks",
    /// Blocks of `start_cached` that were read by clients.
    count start_used: "blocks",
    /// Blocks of `start_cached` that were evicted or changed before a client read them.
    count start_wasted: "blocks",
    /// Time from the first fetch for the start-up list to the last.
    count start_ns: "nanoseconds",
    /// Read requests of `read_hits` that were answered from the compressed tier, in whole or in
    /// part.
    count compressed_hits: "requests",
    /// Blocks answered from the compressed tier.
    count compressed_used: "blocks",
    /// Evicted blocks that were stored in the compressed tier.
    count compressed_stored: "blocks",
    /// Compressed blocks taken over from the process before.
    count compressed_retained: "blocks",
    /// Evicted blocks that did not become small enough by compression.
    count compressed_refused: "blocks",
    /// Evicted blocks that were not compressed, because blocks near them did not become small
    /// enough.
    count compressed_untried: "blocks",
    /// Evicted blocks that were not compressed, because the policy had rejected them.
    count compressed_rejected: "blocks",
    /// Evicted blocks that were not compressed, because a request needed their slot first, or
    /// because compression was paused.
    count compressed_skipped: "blocks",
    /// Evicted blocks that could not be stored as they were: only a part of them was in memory, a
    /// write-through of them was not durable yet, or they were changed or fetched again while they
    /// were compressed.
    count compressed_unfit: "blocks",
    /// Compressed blocks that were not stored, because the compressed tier had no room for them:
    /// the oldest blocks in it had been read, or most of the memory was dirty.
    count compressed_full: "blocks",
    /// Blocks that stayed in the compressed tier although they were its oldest, because they had
    /// been read.
    count compressed_renewed: "blocks",
    /// Blocks that left the compressed tier as its oldest, to make room for other compressed
    /// blocks.
    count compressed_evicted: "blocks",
    /// Blocks that left the compressed tier because their memory was needed for blocks that are
    /// not compressed, or because compression was switched off.
    count compressed_yielded: "blocks",
    /// Processor time spent on compressing blocks.
    count compression_ns: "nanoseconds",
    /// Time for which compression has been switched on.
    count compression_on_ns: "nanoseconds",
    /// Time saved by reads answered from memory. Each counts as the backing's measured read
    /// latency at that time, minus the sampled time of a hit; it counts nothing until both are
    /// known. Reads that waited for another request's fetch save nothing.
    count time_saved_ns: "nanoseconds",
    /// Change requests (write, zero, discard) absorbed or sent to the backing. A request that
    /// is cut counts once for each piece.
    count changes: "requests",
    /// Blocks that changes touch, including zeroes and discards. A block that is changed in
    /// part counts as a whole.
    count blocks_requested: "blocks",
    /// Bytes that clients asked to write with data: neither zeroes nor discards.
    count asked_write_bytes: "bytes",
    /// Bytes that clients asked to zero.
    count asked_zero_bytes: "bytes",
    /// Bytes that clients asked to discard, where discards read as zeros.
    count asked_discard_bytes: "bytes",
    /// Blocks absorbed into the write buffer.
    count blocks_absorbed: "blocks",
    /// Absorbed blocks that never had to be written back, because they were overwritten or
    /// discarded before.
    count blocks_saved: "blocks",
    /// Blocks written back from the buffer.
    count blocks_written: "blocks",
    /// Blocks written back before their epoch was closed. They are included in
    /// `blocks_written`.
    count blocks_early: "blocks",
    /// Writeback requests to the backing.
    count runs_written: "requests",
    /// Zeroed ranges written back.
    count zeroes_written: "requests",
    /// Commits started immediately, and not by level, age or a client's flush: a change waited
    /// for room in the buffer, dirty data was found at start, or an error was cleared.
    count writes_urgent: "epochs",
    /// Changes whose answer was delayed because the write buffer was nearly full (C13).
    count changes_slowed: "requests",
    /// Total delay of the changes in `changes_slowed`. Changes that are delayed at the same
    /// time each count.
    count slowed_ns: "nanoseconds",
    /// Changes written through to the backing, for any reason.
    count writes_through: "requests",
    /// Changes written through because no client has sent a flush and thus shown that it uses
    /// them (C11).
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
    /// Bypasses of the cache that the guard has started, because admitting blocks or absorbing
    /// writes cost more than it saved (C12).
    count bypasses: "times",
    /// Total time for which the cache has been bypassed.
    count bypass_ns: "nanoseconds",
    /// Blocks evicted.
    count evictions: "blocks",
    /// Flushes requested by clients, and by the engine itself to make progress.
    count flushes: "requests",
    /// Flushes sent to the backing.
    count flushes_backing: "requests",
    /// Epochs that became durable.
    count epochs: "epochs",
    /// Writes that the backing has answered with an error: writeback and write-throughs.
    count errors_write: "requests",
    /// Write-zeroes that the backing has answered with an error.
    count errors_zero: "requests",
    /// Discards that the backing has answered with an error.
    count errors_discard: "requests",
    /// Flushes that the backing has answered with an error.
    count errors_flush: "requests",
    /// Reads that the backing has answered with an error, including readahead and queries of
    /// the allocation status.
    count errors_read: "requests",
    /// Flushes answered with an error because an earlier process was killed during a flush of
    /// the backing, and held no copy of the writes before it (C1). Each client gets this error
    /// once.
    count flushes_doubted: "requests",
    /// Dirty blocks found and taken over at the start (C7).
    count blocks_recovered: "blocks",
    /// Headers of slots and of ranges of zeros that failed their checksum at the start.
    count headers_rejected: "slots",
    /// Blocks in memory that are not compressed.
    gauge blocks_held: "blocks",
    /// Blocks in the compressed tier.
    gauge compressed_blocks: "blocks",
    /// Memory that these blocks take.
    gauge compressed_slots: "blocks",
    /// 1 while `--compress auto` stores no blocks, because that costs more than it saves.
    gauge compression_paused: "flag",
    /// Dirty blocks: written by clients, and not yet durable on the backing.
    gauge blocks_dirty: "blocks",
    /// Maximum number of dirty blocks that `dirty_bytes` allows.
    gauge dirty_blocks_max: "blocks",
    /// Maximum number of blocks that may wait for writeback, so that a flush does not take too
    /// long (C13).
    gauge allowance_blocks: "blocks",
    /// Age of the oldest dirty block.
    gauge dirty_age_ns: "nanoseconds",
    /// Epochs that are closed, by a flush (`ordered`) or by writeback, and not durable yet.
    gauge epochs_closed: "epochs",
    /// Measured read latency of the backing; 0: not measured yet.
    gauge backing_read_ns: "nanoseconds",
    /// Sampled time of a read of the backing, about the median; 0: not sampled yet.
    gauge backing_read_median_ns: "nanoseconds",
    /// Part of the time of the backing's reads in which their lane slept, because it had nothing
    /// else to do.
    gauge backing_read_slept: "thousandths",
    /// Sampled time of a read answered from memory; 0: not sampled yet.
    gauge hit_ns: "nanoseconds",
    /// Sampled cost of admitting a block after a miss, about the median; 0: not sampled yet.
    gauge keep_ns: "nanoseconds",
    /// Measured rate of writeback; 0: not measured yet.
    gauge drain_blocks_per_second: "blocks/s",
    /// Best number of writeback requests in flight while no other request uses the backing, as
    /// measured.
    gauge drain_window: "requests",
    /// Predicted time to make all data durable: to write back the blocks that wait for it, and
    /// to flush the backing; in `ordered` mode with a flush for each epoch.
    gauge flush_predicted_ns: "nanoseconds",
    /// Bypass of the cache now: 1 for reads (misses are not admitted), 2 for writes (they are
    /// written through), 3 for both, 0 for none.
    gauge bypass_now: "flags",
    /// State of the list of hot blocks: 1 while it is being read, 2 if reading it was ended early
    /// because it gained less than it cost or the backing returned an error, otherwise 0.
    gauge warm_state: "state",
    /// State of the start-up list: 1 while it is followed, 2 if that was ended early because it
    /// gained less than it cost or the backing returned an error, otherwise 0.
    gauge start_state: "state",
    /// 1 if the volume has failed (C8).
    gauge failed: "flag",
}

impl Counters {
    /// Returns the number of blocks that were compressed, whether they were stored or not.
    pub fn blocks_compressed(&self) -> u64 {
        self.compressed_stored + self.compressed_refused + self.compressed_full
    }
}

/// One counter of a shard. Only the holder of the shard's lock changes it, so a change needs no
/// locked instruction; any thread may read it. An atomic of the hardware also in the explorer,
/// which has no interest in the order of statistics.
#[derive(Default)]
pub(crate) struct Count(AtomicU64);

impl Count {
    /// Returns the current value.
    #[inline]
    pub(crate) fn get(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }

    /// Replaces the value, under the shard's lock.
    #[inline]
    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    /// Adds to the value, under the shard's lock.
    #[inline]
    pub(crate) fn add(&self, more: u64) {
        self.set(self.get().wrapping_add(more));
    }
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
    pub(crate) fn settle(&mut self, counters: &LiveCounters, per_hit_ns: u64) {
        // A read that waited for another one's fetch is counted as a hit when it looks again.
        let hits = counters.read_hits.get().saturating_sub(counters.read_joins.get());
        let new = hits.saturating_sub(self.settled);
        let saved_ns = new.saturating_mul(self.per_hit_ns);
        counters.time_saved_ns.set(counters.time_saved_ns.get().saturating_add(saved_ns));
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
        let counters = LiveCounters::default();
        let mut saving = Saving::default();
        counters.read_hits.set(5);
        saving.settle(&counters, 100);
        assert_eq!(counters.time_saved_ns.get(), 0, "nothing was measured when these came");
        counters.read_hits.set(8);
        saving.settle(&counters, 1000);
        assert_eq!(counters.time_saved_ns.get(), 300);
        counters.read_hits.set(10);
        counters.read_joins.set(1);
        saving.settle(&counters, 0);
        assert_eq!(counters.time_saved_ns.get(), 1300, "one of the two had waited for a fetch");
        counters.read_joins.set(4);
        saving.settle(&counters, 1000);
        counters.read_hits.set(13);
        saving.settle(&counters, 1000);
        assert_eq!(counters.time_saved_ns.get(), 1300, "those that waited come back as hits");
    }
}
