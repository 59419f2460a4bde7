//! What a volume counts. Blocks unless a name says otherwise.

use core::ops::AddAssign;

macro_rules! counters {
    ($($(#[doc = $doc:literal])+ $name:ident,)*) => {
        /// Counts since the volume was opened, and gauges that say how it stands now.
        #[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
        pub struct Counters { $($(#[doc = $doc])+ pub $name: u64,)* }

        impl Counters {
            /// Every counter with its name, in the order of the definition.
            pub fn each(&self, mut each: impl FnMut(&'static str, u64)) {
                $(each(stringify!($name), self.$name);)*
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
    read_hits,
    /// Read requests that went to the backing.
    read_misses,
    /// Read requests that waited for another one's fetch.
    read_joins,
    /// Blocks answered from memory.
    blocks_hit,
    /// Blocks kept after a miss.
    blocks_filled,
    /// Blocks that a write changed while they were being fetched, and that were not kept.
    fills_marked,
    /// Misses not kept because keeping would have cost more than it brings.
    bypass_not_worth,
    /// Misses not kept because the request was large.
    bypass_large,
    /// Misses not kept because no slot could be had.
    bypass_no_slot,
    /// Change requests (write, zero, discard) seen.
    changes,
    /// Blocks asked to be written.
    blocks_requested,
    /// Blocks absorbed into the write buffer.
    blocks_absorbed,
    /// Blocks of the open epoch that were overwritten or discarded before they were written: saved.
    blocks_saved,
    /// Blocks written out from the buffer.
    blocks_written,
    /// Write-out requests to the backing.
    runs_written,
    /// Zeroed ranges written out.
    zeroes_written,
    /// Changes sent straight to the backing, for any reason.
    passes,
    /// ... because no client has proved by a flush that it knows a write buffer (C11).
    passes_unproven,
    /// ... because of the write mode.
    passes_mode,
    /// ... because the request was FUA.
    passes_fua,
    /// ... because the request was large.
    passes_large,
    /// ... because the write buffer was full (C6, C13).
    passes_full,
    /// ... because the oldest dirty block was older than `dirty_age` (C6).
    passes_late,
    /// Blocks evicted.
    evictions,
    /// Flush requests seen.
    flushes,
    /// Flushes sent to the backing.
    flushes_backing,
    /// Epochs that became durable.
    epochs,
    /// Errors of the backing while writing out.
    errors_write,
    /// Errors of the backing while flushing.
    errors_flush,
    /// Errors of the backing while reading.
    errors_read,
    /// Dirty blocks found and taken over at start (C7).
    blocks_recovered,
    /// Slots whose header failed its checksum at start.
    headers_rejected,
    /// Gauge: blocks held.
    blocks_held,
    /// Gauge: dirty blocks.
    blocks_dirty,
    /// Gauge: the most dirty blocks that `dirty_bytes` allows.
    dirty_blocks_max,
    /// Gauge: the most dirty blocks that the flush debt allows (C13).
    allowance_blocks,
    /// Gauge: age of the oldest dirty block, in nanoseconds.
    dirty_age_ns,
    /// Gauge: measured latency of the backing's reads, in nanoseconds.
    backing_read_ns,
    /// Gauge: measured write-out rate, in blocks a second.
    drain_blocks_per_second,
    /// Gauge: predicted time to write out and flush everything dirty, in nanoseconds.
    flush_predicted_ns,
    /// Gauge: 1 if the volume has failed (C8).
    failed,
}
