//! The compressed tier of a shard: clean blocks that the policy has evicted, compressed, in slots
//! that they share.
//!
//! ```text
//!   pages: slots in the order in which they are filled
//!
//!   | 7: oldest              | 8          | 9                      | 10: newest             |
//!   | (dead) object | object | (released) | object | object | obje  | ct | object | room ... |
//!                                                                                 ^ cursor
//! ```
//!
//! New objects are appended at the cursor, so no space is lost between them. A page without a live
//! object is released at once. If the tier is full, the oldest page is released: objects that were
//! read since they were stored are appended again, the others are dropped. So the order of the
//! pages is the policy of the tier (FIFO with a second chance), and the release of the oldest page
//! is also its compaction.
//!
//! An object equals the backing, like a clean slot: each change of its block removes it, in the
//! same section in which the change marks the fetches in flight. Readers copy an object's bytes
//! under the lock and decode them after it, so nothing has to be pinned.
//!
//! ```text
//!   tier      the log and the table of objects, changed together
//!   log       which slots are pages, in which order, and where the next object goes
//!   objects   where the object of each block begins, and which pages it has
//!   restore   the same from the pages of an earlier process
//!   copies    objects outside of the pages; decoder: their blocks
//!   pending   blocks that are being compressed; economics: whether that pays
//! ```
//!
//! The bytes of the pages are drawn in `arena/pages.rs`. The headers of their slots say that they
//! are free.

mod copies;
pub(crate) mod decoder;
mod economics;
mod log;
mod objects;
mod pending;
mod restore;
#[cfg(test)]
mod tests;
mod tier;

use crate::arena::pages::object_bytes;
use crate::bypass::balance::{Pressure, Reads};
use crate::stats::counters::Counters;
use block::Compress;
use economics::Economics;
use lane::atomic::{AtomicBool, AtomicU64, Ordering};
use lane::{Event, Lock};

pub(crate) use copies::{Copied, Copies, Encoded};
pub(crate) use objects::OBJECTS_PER_SLOT;
pub(crate) use pending::Ticket;
pub(crate) use restore::FoundPage;
pub(crate) use tier::{OldPlace, Tier};

/// Minimum number of bytes of an object: a block of zeros.
const BYTES_MIN: usize = object_bytes(0);

/// The part of compression that a volume's lanes share.
pub(crate) struct Compression {
    /// Notified when there may be blocks to compress, or pages to release.
    pub(crate) work: Event,
    economics: Lock<Economics>,
    /// It does not pay at the moment.
    paused: AtomicBool,
    /// Time for which it was switched on, until `seen_on_ns`.
    on_ns: AtomicU64,
    /// The last time at which it was seen switched on; 0: it is off.
    seen_on_ns: AtomicU64,
}

impl Compression {
    /// Makes the shared part of a cache of this many slots.
    pub(crate) fn new(slots: u32) -> Compression {
        Compression {
            work: Event::new(),
            economics: Lock::new(Economics::new(slots)),
            paused: AtomicBool::new(false),
            on_ns: AtomicU64::new(0),
            seen_on_ns: AtomicU64::new(0),
        }
    }

    /// Notes the setting, which has been in force since the last call.
    pub(crate) fn note_setting(&self, setting: Compress, now_ns: u64) {
        let is_on = setting != Compress::Off;
        let before = self.seen_on_ns.swap(if is_on { now_ns } else { 0 }, Ordering::Relaxed);
        if is_on && before > 0 {
            self.on_ns.fetch_add(now_ns.saturating_sub(before), Ordering::Relaxed);
        }
    }

    /// Adds its counters.
    pub(crate) fn count(&self, all: &mut Counters, setting: Compress, now_ns: u64) {
        let since = match self.seen_on_ns.load(Ordering::Relaxed) {
            0 => now_ns,
            seen => seen,
        };
        all.compression_paused = (setting != Compress::Off && !self.is_on(setting)).into();
        all.compression_on_ns = self.on_ns.load(Ordering::Relaxed) + now_ns.saturating_sub(since);
    }

    /// Whether blocks are compressed at the moment, with this setting.
    #[inline]
    pub(crate) fn is_on(&self, setting: Compress) -> bool {
        match setting {
            Compress::Off => false,
            Compress::Auto => !self.paused.load(Ordering::Relaxed),
            Compress::Lz4 | Compress::Zstd => true,
        }
    }

    /// Judges the time since the last call: see [`Economics::judge`].
    pub(crate) fn judge(
        &self,
        counters: &Counters,
        reads: &Reads,
        pressure: Pressure,
        now_ns: u64,
    ) {
        let pays =
            self.economics.with(|economics| economics.judge(counters, reads, pressure, now_ns));
        if self.paused.swap(!pays, Ordering::Relaxed) == pays {
            self.work.notify();
        }
    }
}
