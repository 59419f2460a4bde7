//! The hints about a volume's files: the present map, and the judge that suspends it if it costs
//! hits.
//!
//! ```text
//!   Cache::set_hints --> VolumeHints (judge) --> each shard's policy, in a section of its own
//! ```
//!
//! Requests never take the lock here, except for accesses to blocks of the judge's sample. Without
//! a map the lock is not taken.

use super::Sampling;
use alloc::boxed::Box;
use alloc::sync::Arc;
use core::sync::atomic::{AtomicBool, Ordering};
use lane::{Event, Lock};
use policy::{
    CLASSES_MAX, ClassCounts, ClassReport, CurrentHints, Hash, Hints, Judge, Kind, PolicyHints,
    Sampler,
};

/// Notes that blocks were written by which the map of files has probably changed.
#[derive(Default)]
pub struct MapWrites {
    are_noted: AtomicBool,
    noted: Event,
}

impl MapWrites {
    /// Returns whether such writes were noted since the last call.
    pub fn take(&self) -> bool {
        self.are_noted.swap(false, Ordering::Relaxed)
    }

    /// Whether such writes were noted since the last call of [`MapWrites::take`].
    pub fn are_noted(&self) -> bool {
        self.are_noted.load(Ordering::Relaxed)
    }

    /// Signalled at the first such write after each call of [`MapWrites::take`].
    pub fn noted(&self) -> &Event {
        &self.noted
    }

    fn note(&self) {
        if !self.are_noted() && !self.are_noted.swap(true, Ordering::Relaxed) {
            self.noted.notify();
        }
    }
}

/// The hints of a volume.
#[derive(Default)]
pub(crate) struct VolumeHints {
    /// Whether there are hints.
    are_set: AtomicBool,
    present: Lock<Option<Box<Present>>>,
    map_writes: MapWrites,
}

/// Hints that are set.
struct Present {
    judge: Judge,
    set_at_ns: u64,
}

/// Hints that are no longer set. To be dropped outside of a section: a map may have megabytes.
pub(crate) struct Replaced {
    _judge: Option<Box<Present>>,
    _hints: Option<Arc<Hints>>,
}

/// The figures of a class.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct ClassFigures {
    /// Accesses to its blocks, reads and writes, since hints were first set. The hits are an
    /// estimate from a sample of the blocks.
    pub accesses: ClassReport,
    /// The part of the volume's saved time that is due to its hits, in nanoseconds: an estimate in
    /// proportion to these.
    pub time_saved_ns: u64,
}

/// The state of a volume's hints.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct HintsReport {
    /// Whether the policy follows them. Otherwise they are suspended, because they cost hits.
    pub are_followed: bool,
    /// The time since the present map was set, in nanoseconds.
    pub age_ns: u64,
    /// The number of extents of the map.
    pub extents: u64,
    /// The memory of the map, in bytes.
    pub map_bytes: u64,
    /// The figures of each class, by its number.
    pub classes: [ClassFigures; CLASSES_MAX],
}

impl VolumeHints {
    #[inline]
    fn are_set(&self) -> bool {
        self.are_set.load(Ordering::Relaxed)
    }

    /// Calls `step` with the present hints, if there are any.
    fn in_present<R>(&self, step: impl FnOnce(&mut Present) -> R) -> Option<R> {
        if !self.are_set() {
            return None;
        }
        self.present.peek(|present| present.as_deref_mut().map(step))
    }

    /// The blocks whose accesses the judge must see.
    pub(super) fn sampler(&self) -> Option<Sampler> {
        self.in_present(|present| present.judge.sampler())
    }

    pub(super) fn set_window_share(&self, share: u32) {
        self.in_present(|present| present.judge.set_window_share(share));
    }

    /// Records an access to a block of a sample.
    #[inline]
    pub(super) fn access(&self, hash: Hash) {
        if self.are_set() {
            self.in_present(|present| {
                if present.judge.sampler().takes(hash) {
                    present.judge.access(hash);
                }
            });
        }
    }
}

impl Sampling {
    /// Notes a write by which the map of files has probably changed.
    #[cold]
    pub(crate) fn note_map_write(&self) {
        self.hints.map_writes.note();
    }

    /// Writes by which the map of files has probably changed.
    pub(crate) fn map_writes(&self) -> &MapWrites {
        &self.hints.map_writes
    }

    /// Sets the hints of a volume with this policy and number of slots, or removes them.
    pub(crate) fn set_hints(
        &self,
        hints: Option<Arc<Hints>>,
        kind: Kind,
        slots: u32,
        now_ns: u64,
    ) -> Replaced {
        let Some(hints) = hints else {
            self.hints.are_set.store(false, Ordering::Relaxed);
            let judge = self.hints.present.peek(|present| present.take());
            return Replaced { _judge: judge, _hints: None };
        };
        // Made outside of the section, where it is usually needed.
        let make = || self.judge(kind, slots, &hints);
        let made = (!self.hints.are_set()).then(make);
        let replaced = self.hints.present.peek(|present| match present {
            Some(present) => {
                present.set_at_ns = now_ns;
                Some(present.judge.set_hints(hints.clone()))
            }
            None => {
                let judge = made.unwrap_or_else(make);
                *present = Some(Box::new(Present { judge, set_at_ns: now_ns }));
                None
            }
        });
        self.hints.are_set.store(true, Ordering::Relaxed);
        Replaced { _judge: None, _hints: replaced }
    }

    fn judge(&self, kind: Kind, slots: u32, hints: &Arc<Hints>) -> Judge {
        let mut judge = Judge::new(kind, slots, hints.clone());
        if let Some(share) = self.window_share() {
            judge.set_window_share(share);
        }
        judge
    }

    /// Returns the present hints for a shard of `slots` slots.
    pub(crate) fn hints_of_shard(&self, slots: u32) -> Option<Box<PolicyHints>> {
        let current: CurrentHints = self.hints.in_present(|present| present.judge.current())?;
        Some(PolicyHints::new(current, slots).boxed())
    }

    /// Returns the report on the hints. `counts`: those of all shards. `time_saved_ns`: of the
    /// whole volume.
    pub(crate) fn report_hints(
        &self,
        counts: &[ClassCounts; CLASSES_MAX],
        time_saved_ns: u64,
        now_ns: u64,
    ) -> Option<HintsReport> {
        self.hints.in_present(|present| {
            let judge = &present.judge;
            let accesses = judge.report(counts);
            let hits: u64 = accesses.iter().map(|class| class.hits).sum();
            let classes = accesses.map(|accesses| {
                let saved =
                    u128::from(time_saved_ns) * u128::from(accesses.hits) / u128::from(hits.max(1));
                ClassFigures { accesses, time_saved_ns: saved as u64 }
            });
            HintsReport {
                are_followed: judge.follows_hints(),
                age_ns: now_ns.saturating_sub(present.set_at_ns),
                extents: judge.hints().map.count() as u64,
                map_bytes: judge.hints().map.bytes() as u64,
                classes,
            }
        })
    }
}
