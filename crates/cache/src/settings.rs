//! What may be set, also while the volume is served.

use crate::geometry::Geometry;
use block::{CacheSpec, Durability, Fua, Limits, SECTOR, WriteMode};
use core::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

/// The least time that a request may take before the backing counts as hanging: one second.
const STALL_TIME_NS_MIN: u64 = 1_000_000_000;

/// What may differ from volume to volume and be changed later.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Settings {
    /// What happens to writes.
    pub write: WriteMode,
    /// What a flush means.
    pub durability: Durability,
    /// C6: the most blocks that may be dirty.
    pub dirty_blocks_max: u32,
    /// C6: how long a dirty block may wait, in nanoseconds.
    pub dirty_age_ns: u64,
    /// C13: how long writing out everything dirty may take as predicted, in nanoseconds; 0: no
    /// limit.
    pub flush_target_ns: u64,
    /// C8: how long errors of the backing are retried, in nanoseconds.
    pub retry_time_ns: u64,
    /// C8: how long a request to the backing may go unanswered before the backing counts as hanging,
    /// in nanoseconds; 0: it is not watched.
    pub stall_time_ns: u64,
    /// Write-outs that each lane has in flight.
    pub workers: u32,
    /// Requests larger than this many blocks go past the cache: such reads are not kept, and such
    /// writes go to the backing directly, unless they meet dirty data.
    pub absorb_blocks_max: u32,
    /// What a block costs to keep after a miss, in nanoseconds; 0: every miss is kept. Measured:
    /// `cargo xtask bench prices`.
    pub fill_cost_ns: u64,
}

impl Settings {
    /// The settings that a spec asks for, over a cache of this geometry.
    pub fn from_spec(spec: &CacheSpec, geometry: &Geometry) -> Settings {
        let dirty_bytes = spec.dirty_bytes.map(|size| size.0);
        Settings {
            write: spec.write,
            durability: spec.durability,
            dirty_blocks_max: dirty_blocks(dirty_bytes, geometry),
            dirty_age_ns: spec.dirty_age_ms.saturating_mul(1_000_000),
            flush_target_ns: spec.flush_target_ms.saturating_mul(1_000_000),
            retry_time_ns: spec.retry_time_ms.saturating_mul(1_000_000),
            stall_time_ns: stall_time_ns(spec.retry_time_ms.saturating_mul(1_000_000)),
            workers: 32,
            absorb_blocks_max: 32,
            fill_cost_ns: 400,
        }
    }
}

/// The blocks that may be dirty where so many bytes are asked for (None: a quarter of the slots), as far
/// as this geometry allows: fifteen sixteenths of the slots.
pub(crate) fn dirty_blocks(asked_bytes: Option<u64>, geometry: &Geometry) -> u32 {
    let block_bytes = u64::from(crate::BLOCK_SECTORS) * SECTOR;
    let asked = asked_bytes.map_or(u64::from(geometry.slots / 4), |bytes| bytes / block_bytes);
    let most = u64::from(geometry.slots) * 15 / 16;
    asked.min(most).max(2) as u32
}

/// How long a request may go unanswered where errors are retried for `retry_time_ns`. Also a user who wants no
/// error to be tried again gives a slow answer its time: disks that spin up or mend a sector take some.
pub(crate) fn stall_time_ns(retry_time_ns: u64) -> u64 {
    retry_time_ns.max(STALL_TIME_NS_MIN)
}

/// The settings in force. What can be changed while the volume is served is one word each, read without
/// a lock wherever it is needed; what changes them, and in which order, is `operator/reconfigure.rs`.
#[derive(Debug)]
pub(crate) struct Live {
    write: AtomicU8,
    durability: AtomicU8,
    /// Whether the order of flushes is promised from now on, or about to be: see
    /// [`crate::shared::Shared::show_closed`].
    order_wanted: AtomicBool,
    dirty_blocks_max: AtomicU32,
    dirty_age_ns: AtomicU64,
    flush_target_ns: AtomicU64,
    retry_time_ns: AtomicU64,
    stall_time_ns: AtomicU64,
    pub(crate) workers: u32,
    pub(crate) absorb_blocks_max: u32,
    pub(crate) fill_cost_ns: u64,
}

const WRITE_MODES: [WriteMode; 4] =
    [WriteMode::Back, WriteMode::BackNow, WriteMode::Through, WriteMode::None];

const DURABILITIES: [Durability; 3] = [Durability::Flush, Durability::Ordered, Durability::Scratch];

/// The place of a value in a list that has every value.
fn place<T: PartialEq>(list: &[T], value: T) -> u8 {
    list.iter().position(|other| *other == value).expect("every value is in the list") as u8
}

impl Live {
    pub(crate) fn new(settings: &Settings) -> Live {
        let ordered = settings.durability == Durability::Ordered;
        Live {
            write: AtomicU8::new(place(&WRITE_MODES, settings.write)),
            durability: AtomicU8::new(place(&DURABILITIES, settings.durability)),
            order_wanted: AtomicBool::new(ordered),
            dirty_blocks_max: AtomicU32::new(settings.dirty_blocks_max),
            dirty_age_ns: AtomicU64::new(settings.dirty_age_ns),
            flush_target_ns: AtomicU64::new(settings.flush_target_ns),
            retry_time_ns: AtomicU64::new(settings.retry_time_ns),
            stall_time_ns: AtomicU64::new(settings.stall_time_ns),
            workers: settings.workers,
            absorb_blocks_max: settings.absorb_blocks_max,
            fill_cost_ns: settings.fill_cost_ns,
        }
    }

    /// All of them, as they are at the moment.
    #[inline]
    pub(crate) fn now(&self) -> Settings {
        Settings {
            write: self.write(),
            durability: self.durability(),
            dirty_blocks_max: self.dirty_blocks_max(),
            dirty_age_ns: self.dirty_age_ns(),
            flush_target_ns: self.flush_target_ns(),
            retry_time_ns: self.retry_time_ns(),
            stall_time_ns: self.stall_time_ns(),
            workers: self.workers,
            absorb_blocks_max: self.absorb_blocks_max,
            fill_cost_ns: self.fill_cost_ns,
        }
    }

    #[inline]
    pub(crate) fn write(&self) -> WriteMode {
        WRITE_MODES[usize::from(self.write.load(Ordering::Relaxed))]
    }

    pub(crate) fn set_write(&self, write: WriteMode) {
        self.write.store(place(&WRITE_MODES, write), Ordering::Relaxed);
    }

    #[inline]
    pub(crate) fn durability(&self) -> Durability {
        DURABILITIES[usize::from(self.durability.load(Ordering::SeqCst))]
    }

    /// To be changed in a section of the order.
    pub(crate) fn set_durability(&self, durability: Durability, order_wanted: bool) {
        self.order_wanted.store(order_wanted, Ordering::SeqCst);
        self.durability.store(place(&DURABILITIES, durability), Ordering::SeqCst);
    }

    /// Whether a flush makes durable.
    #[inline]
    pub(crate) fn is_durable(&self) -> bool {
        self.durability() == Durability::Flush
    }

    pub(crate) fn wants_order(&self) -> bool {
        self.order_wanted.load(Ordering::SeqCst)
    }

    #[inline]
    pub(crate) fn dirty_blocks_max(&self) -> u32 {
        self.dirty_blocks_max.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn dirty_age_ns(&self) -> u64 {
        self.dirty_age_ns.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn flush_target_ns(&self) -> u64 {
        self.flush_target_ns.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn retry_time_ns(&self) -> u64 {
        self.retry_time_ns.load(Ordering::Relaxed)
    }

    #[inline]
    pub(crate) fn stall_time_ns(&self) -> u64 {
        self.stall_time_ns.load(Ordering::Relaxed)
    }

    pub(crate) fn set_limits(&self, dirty_blocks_max: u32, flush_target_ns: u64) {
        self.dirty_blocks_max.store(dirty_blocks_max, Ordering::Relaxed);
        self.flush_target_ns.store(flush_target_ns, Ordering::Relaxed);
    }

    pub(crate) fn set_times(&self, dirty_age_ns: u64, retry_time_ns: u64, stall_time_ns: u64) {
        self.dirty_age_ns.store(dirty_age_ns, Ordering::Relaxed);
        self.retry_time_ns.store(retry_time_ns, Ordering::Relaxed);
        self.stall_time_ns.store(stall_time_ns, Ordering::Relaxed);
    }
}

/// The limits that the cache shows above a backing with these.
pub(crate) fn limits_above(below: &Limits) -> Limits {
    // However the backing does it: above the cache, a write is made durable by itself.
    Limits { io_best_bytes: below.io_best_bytes.max(4096), fua: Fua::Native, ..below.clone() }
}
