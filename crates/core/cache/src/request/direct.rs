//! Direct writes: write-throughs that bypass the whole cache, in one section of their shard.
//!
//! ```text
//!   rules   nothing of the write would be cached, nor held for recovery   else: request/write.rs
//!   section memory has nothing of its blocks, and no request to the
//!           backing is under way there                                    else: request/write.rs
//!           notes (C1, C8), the backing's answer, notes
//! ```
//!
//! The shard's lock is the state that a direct write checks, and the count of the direct writes
//! under way: a decision of the shard comes before the whole write or after it. So a fetch that
//! begins later returns this write's data, and a version that is absorbed later is newer. The guard
//! may end the bypass at any moment, and waits for no direct write.
//!
//! Only a backing that answers immediately is written in this way, since nothing may wait under the
//! lock.

use crate::admission::{Admission, Candidate, Origin, SkipReason};
use crate::handle::Handle;
use crate::planted::{Bug, planted};
use crate::request::write_through::TAKEN;
use crate::shard::shards::ShardEntry;
use crate::shard::{Change, DirectWrite, Shard};
use block::{Request, Result};
use lane::Cost;
use lane::atomic::Ordering;
use lane::planted::Race;

impl Handle {
    /// Sends a change that may not be absorbed directly to the backing. None: nothing was done,
    /// because it needs the shard's queue or leaves a copy, or the backing does not answer
    /// immediately.
    pub(super) fn write_direct(
        &self,
        entry: &ShardEntry,
        request: &Request,
        change: &Change,
    ) -> Option<Result> {
        if !self.answers_writes.get() {
            return None;
        }
        if let Some(error) = self.refusal_of_all() {
            return Some(Err(error));
        }
        let write = self.direct_write_of(change)?;
        let gauges = &self.shared.gauges;
        if lane::planted::planted(Race::SendAfterSection) {
            let is_clear = entry.shard.with(|shard| shard.is_clear_for(gauges, change));
            return is_clear.then(|| self.send_direct(request, &write)).flatten();
        }
        let result = entry.shard.with(|shard| {
            if !shard.is_clear_for(gauges, change) {
                return None;
            }
            let result = self.send_direct(request, &write)?;
            self.record_direct(shard, change, &write, result.is_ok());
            Some(result)
        })?;
        self.lane.charge(Cost::WriteThrough, 1);
        // The workers yield to write-throughs.
        if entry.has_work.load(Ordering::SeqCst) {
            self.wake_worker();
        }
        Some(result)
    }

    /// Returns how a change is written directly, if no copy of it is cached or held.
    fn direct_write_of(&self, change: &Change) -> Option<DirectWrite> {
        let reason = change.barred?;
        let copies = self.copies_of(change, reason.keeps_new());
        let may_hold = !copies.durable && copies.holds_max > 0 && copies.holds_unkept;
        if may_hold || change.fua {
            return None;
        }
        let origin = Origin::WriteThrough { copies: copies.keeps_new };
        let candidate = Candidate::new(copies.rules, origin);
        match candidate.admission() {
            Admission::Keep => None,
            Admission::Skip(skip) => {
                let is_sampled = !matches!(skip, SkipReason::NoCopy | SkipReason::Mode);
                let candidate = is_sampled.then_some(candidate);
                Some(DirectWrite { reason, durable: copies.durable, candidate })
            }
        }
    }

    /// Sends a direct write, with the notes of a write-through that has no copy
    /// (`write_through.rs`). None: the backing does not answer immediately.
    fn send_direct(&self, request: &Request, write: &DirectWrite) -> Option<Result> {
        let arena = &self.shared.arena;
        if planted(Bug::ForgetUnansweredWrite) || planted(Bug::DirectUnheld) {
            return self.send_unheld(request);
        }
        arena.note_unheld_begins();
        let answer = self.send_unheld(request);
        if answer.is_some_and(|result| !write.durable || result.is_err()) {
            arena.note_unheld();
        }
        arena.note_unheld_ends();
        answer
    }

    /// Sends a direct write, with the notes for this process's own flushes.
    fn send_unheld(&self, request: &Request) -> Option<Result> {
        let health = &self.shared.backing.health;
        let failures = health.flush_failures();
        if !planted(Bug::DirectUnkept) {
            health.note_unkept();
        }
        let answer = self.below.try_now(request);
        self.answers_writes.set(answer.is_some());
        let result = answer?;
        if result.is_err() {
            health.errors_of(request).fetch_add(1, Ordering::Relaxed);
        }
        if !planted(Bug::DirectUnflushed) {
            health.note_written();
        }
        self.shared.gauges.change_written_through();
        if !planted(Bug::DirectUnkept) {
            health.note_unkept();
        }
        // A flush that has failed in between may have lost it. Checked after the second note, as in
        // `write_through.rs`.
        match health.has_kept(failures) {
            true => Some(result),
            false => Some(result.and(Err(TAKEN))),
        }
    }

    /// Records a direct write that was answered.
    fn record_direct(&self, shard: &mut Shard, change: &Change, write: &DirectWrite, good: bool) {
        shard.count_direct(change, write, good);
        // An immediate answer takes no time on the lane's clock.
        self.record_write_through(change, 0, 0, good);
    }
}
