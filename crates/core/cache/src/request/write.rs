//! Changes (writes, zeros, discards): split, admitted by their shards, or delayed.

use crate::backing::in_flight::RequestKind;
use crate::blocks::{blocks_of, cut};
use crate::dirty::level::ONE;
use crate::dirty::throttle::{ThrottleWait, WriterTimes};
use crate::handle::Handle;
use crate::planted::{Bug, planted};
use crate::shard::shards::ShardEntry;
use crate::shard::{Admit, Change, Reason, Source};
use block::{Error, Extent, Kind, Result, WriteMode};
use lane::atomic::Ordering;
use lane::{Cost, first};

const FAILED: Error = Error::new(Kind::Io, "write: the volume has failed; clear the error first");

const NO_LINK: Error = Error::new(Kind::Io, "write: the link to the backing is down");

/// A part of a change. It lies in one region, and requests admission until it is admitted or
/// refused.
struct Part<'a> {
    at: Extent,
    source: Source<'a>,
    fua: bool,
    /// The value of [`Backing::stalls`] when its client sent it.
    stalls: u64,
    /// True while it is in its shard's queue.
    lined_up: bool,
}

/// Notes work for the workers if a run is ready. In a section of the shard.
fn note_run(entry: &ShardEntry, admit: Admit) {
    if matches!(admit, Admit::Absorbed { has_run: true, .. }) {
        entry.has_work.store(true, Ordering::SeqCst);
    }
}

impl Handle {
    /// Makes the change about which a shard decides.
    pub(crate) fn change<'a>(&self, at: Extent, source: Source<'a>, fua: bool) -> Change<'a> {
        let (first, blocks) = blocks_of(&at);
        let large = blocks > self.shared.settings.absorb_blocks_max();
        let barred = match self.barred(first) {
            Some(reason) => Some(reason),
            None if fua => Some(Reason::Fua),
            None if large && matches!(source, Source::Data(_)) => Some(Reason::Large),
            None if self.gains_nothing(blocks) => Some(Reason::Large),
            None => None,
        };
        Change { at, source, fua, barred, now_ns: self.lane.now(), lined_up: false }
    }

    /// Returns the reason why a write that begins with this block may not be absorbed at the
    /// moment, if any (C11, C12).
    #[inline]
    fn barred(&self, block: u64) -> Option<Reason> {
        let shared = &self.shared;
        match shared.settings.write() {
            WriteMode::Back if !shared.is_proven() => Some(Reason::Unproven),
            WriteMode::Back | WriteMode::BackNow => {
                shared.bypass.bypasses_write(&shared.gauges, block).then_some(Reason::Bypass)
            }
            WriteMode::Through | WriteMode::None => Some(Reason::Mode),
        }
    }

    /// Whether absorbing a write has no benefit: the last eighth of the buffer is in use, another
    /// writer waits or is written through, and the write has at least half the size of the largest
    /// absorbed ones, so that writing it alone is as efficient as merging it. Or the backing
    /// flushes, and nothing is written back, so that it would be idle. (A flush beside writeback
    /// does not count: a writer alone would share the backing with the runs.) False in `ordered`
    /// mode, where a write-through would wait for closed epochs. Also false while more runs are in
    /// flight than writers wait: the backing has a request more than without the cache already, and
    /// others would wait for both.
    fn gains_nothing(&self, blocks: u32) -> bool {
        if blocks * 2 < self.shared.settings.absorb_blocks_max() || self.shared.gauges.is_ordered()
        {
            return false;
        }
        let throttle = &self.shared.throttle;
        self.level().is_filling()
            && self.shared.writeback.estimator.in_flight() <= throttle.waiting()
            && (throttle.is_awaited()
                || self.writing_through() > 0
                || self.is_flushing() && !throttle.is_working())
    }

    /// Absorbs a change immediately, or refuses it. None: it must wait.
    pub(crate) fn try_absorb(&self, entry: &ShardEntry, change: &Change) -> Option<Result> {
        if let Some(error) = self.refusal_of_all() {
            return Some(Err(error));
        }
        let settings = self.shared.settings.now();
        let admit = entry.shard.with(|shard| {
            let admit = shard.try_absorb(&self.shared.gauges, &settings, change)?;
            shard.count_change(change);
            note_run(entry, admit);
            Some(admit)
        })?;
        self.lane.charge(Cost::Absorb, blocks_of(&change.at).1);
        self.start_writeback(admit);
        Some(Ok(()))
    }

    /// Wakes a worker if a run is ready, and the flusher if enough blocks are dirty. During early
    /// writeback, the workers wake the flusher.
    fn start_writeback(&self, admit: Admit) {
        let writeback = &self.shared.writeback;
        if matches!(admit, Admit::Absorbed { has_run: true, .. }) {
            self.wake_worker();
        }
        if matches!(admit, Admit::Absorbed { start: true, .. })
            && !(self.shared.gauges.is_early() && writeback.leave_to_workers())
        {
            writeback.kick.notify();
        }
    }

    /// Serves a discard. If the backing would ignore it, nothing changes, so that later reads are
    /// stable (C14).
    pub(crate) async fn discard(&self, at: Extent) -> Result {
        if self.shared.limits.discard == block::Discard::Ignored {
            return Ok(());
        }
        self.change_all(at, Source::Zeros { may_unmap: true, discard: true }, false).await
    }

    /// Splits a change at the borders of regions, and completes each part.
    pub(crate) async fn change_all(&self, at: Extent, source: Source<'_>, fua: bool) -> Result {
        let stalls = self.shared.backing.stalls();
        let cleared = self.shared.backing.health.times_cleared();
        // Unless flushes make data durable, an FUA write is a write followed by a flush, whether
        // its parts are absorbed or written through. (Also while settings change: in `ordered` mode
        // an FUA write was promised more than the durability of its own data.)
        let changing =
            self.shared.is_reconfiguring.load(Ordering::SeqCst) || self.shared.gauges.is_ordered();
        let durable = self.shared.settings.is_durable() && !changing;
        let mut most = u64::MAX;
        let mut done = 0;
        while done < at.count {
            let first = at.first + u64::from(done);
            let left = u64::from(at.count - done);
            let count = self.shared.shards.stretch(first).min(left).min(cut(first, most)) as u32;
            let at = Extent::new(first, count);
            let whole = Part { at, source, fua: fua && durable, stalls, lined_up: false };
            let is_complete = match source {
                Source::Data(from) => {
                    let from = from.part(done, count);
                    self.complete_part(Part { source: Source::Data(&from), ..whole }).await?
                }
                Source::Zeros { .. } => self.complete_part(whole).await?,
            };
            match is_complete {
                true => done += count,
                false => {
                    let half = u64::from(blocks_of(&at).1 / 2);
                    most = half.min(self.shared.settings.absorb_blocks_max().into()).max(1);
                }
            }
        }
        if fua && !durable {
            self.flush_for_client().await?;
        }
        if fua { self.shared.backing.health.unless_cleared(cleared) } else { Ok(()) }
    }

    /// Whether the backing has hung since a change was sent, when [`Backing::stalls`] was `stalls`.
    /// If so, the client has received an error and the change is abandoned: admitted later, it
    /// could overwrite newer data of the client.
    fn is_abandoned(&self, stalls: u64) -> bool {
        let has_hung = stalls % 2 == 1 || self.shared.backing.stalls() != stalls;
        has_hung && !planted(Bug::AdmitLeftBehind)
    }

    /// Returns the error with which all changes are refused at present.
    #[inline]
    pub(super) fn refusal_of_all(&self) -> Option<Error> {
        let backing = &self.shared.backing;
        match () {
            () if backing.health.has_failed() => Some(FAILED),
            () if backing.refuses_changes() && !planted(Bug::AbsorbWithoutLink) => Some(NO_LINK),
            () => None,
        }
    }

    /// Returns the error of a change that must not be admitted any more. `stalls`:
    /// [`Backing::stalls`] when the change was sent.
    fn refusal(&self, stalls: u64) -> Option<Error> {
        let is_abandoned = || self.is_abandoned(stalls).then(|| self.shared.backing.stall.error());
        self.refusal_of_all().or_else(is_abandoned)
    }

    /// Requests admission of a part, which then enters or leaves the shard's queue.
    ///
    /// # Errors
    /// The change is refused, and a second request would be refused, too.
    fn ask<'a>(&self, entry: &ShardEntry, part: &mut Part<'a>) -> Result<(Change<'a>, Admit)> {
        // Nothing is awaited between here and the decision, so the client cannot receive the
        // stall's error in between.
        let refusal = self.refusal(part.stalls);
        // Made again for each attempt: settings may have changed during the wait.
        let change =
            Change { lined_up: part.lined_up, ..self.change(part.at, part.source, part.fua) };
        let settings = self.shared.settings.now();
        let admit = entry.shard.with(|shard| {
            let admit = match refusal {
                None => Ok(shard.admit(&self.shared.gauges, &settings, &change)),
                Some(refusal) => Err(refusal),
            };
            // Counted only now: a change that waits may still be split.
            if let Ok(
                Admit::Absorbed { .. } | Admit::AbsorbedAndFlush | Admit::WriteThrough { .. },
            ) = admit
            {
                shard.count_change(&change);
            }
            if let Ok(admit) = admit {
                note_run(entry, admit);
            }
            let waits = matches!(admit, Ok(Admit::Wait))
                || admit.is_err() && part.lined_up && planted(Bug::StayInLine);
            shard.line_up(part.at, waits, &mut part.lined_up);
            admit
        });
        if change.lined_up && !part.lined_up {
            entry.changed.notify();
            self.wake_worker();
        }
        Ok((change, admit?))
    }

    /// Completes one part of a change. Returns false if it is too large and must be split.
    async fn complete_part(&self, mut part: Part<'_>) -> Result<bool> {
        let (first, blocks) = blocks_of(&part.at);
        let entry = self.shared.shards.of(first);
        loop {
            self.lane.turn().await;
            // Before the first check: a task that fails the volume on another lane notifies after
            // the failure is recorded.
            let (seen, freed) = (entry.changed.seen(), self.shared.epochs.freed.seen());
            let (change, admit) = self.ask(entry, &mut part)?;
            match admit {
                Admit::Absorbed { throttle_blocks, .. } => {
                    self.lane.charge(Cost::Absorb, blocks);
                    self.start_writeback(admit);
                    self.wait_throttled(throttle_blocks).await;
                    return Ok(true);
                }
                Admit::AbsorbedAndFlush => {
                    self.lane.charge(Cost::Absorb, blocks);
                    return self.flush_for_client().await.map(|()| true);
                }
                Admit::WriteThrough { keeps_new } => {
                    self.lane.charge(Cost::WriteThrough, 1);
                    return self.write_through(entry, &change, keeps_new).await.map(|()| true);
                }
                Admit::Cut => return Ok(false),
                Admit::Wait => entry.changed.after(seen).await,
                Admit::WaitForRoom { urgent } => {
                    if urgent {
                        self.shared.gauges.request_room();
                        self.shared.writeback.kick.notify();
                    }
                    self.shared.epochs.freed.after(freed).await;
                }
            }
        }
    }

    /// Throttles a writer whose change is already in the buffer, but nearly fills it.
    async fn wait_throttled(&self, throttle_blocks: u32) {
        if throttle_blocks == 0 {
            return;
        }
        let shared = &self.shared;
        let now = self.lane.now();
        let (level, pace) = (self.level(), shared.writeback.estimator.pace());
        match shared.throttle.delay(throttle_blocks, &level, shared.gauges.is_ordered(), pace, now)
        {
            ThrottleWait::Immediate => return,
            ThrottleWait::After(mine) => {
                let waiting = shared.throttle.begin_wait();
                self.wake_worker_for_writer();
                self.wait_for_writeback(mine, throttle_blocks, level.lead()).await;
                drop(waiting);
            }
            ThrottleWait::At(ns) => self.lane.sleep_until(ns).await,
        }
        shared.throttle.note_slowed(self.lane.now() - now);
    }

    /// Waits until writeback has reached this position, for a change that has added `new` blocks.
    /// After its turn, the change may be `lead` blocks ahead of writeback, or as far as others are
    /// already: if the lead becomes smaller, writers lose it gradually, not all of it in one wait.
    async fn wait_for_writeback(&self, mine: u64, new: u32, lead: u32) {
        let throttle = &self.shared.throttle;
        let ahead = throttle.ahead().max(u64::from(lead) * ONE);
        match self.writer_times(new) {
            Some(times) if ahead > 0 => {
                let turn_ns = throttle.turn_ns(times, lead, self.writing_through());
                let end_ns = self.lane.now().saturating_add(turn_ns);
                first(throttle.after(mine), self.lane.sleep_until(end_ns)).await;
                throttle.after(mine.saturating_sub(ahead)).await;
            }
            _ => throttle.after(mine).await,
        }
        throttle.note_continued(mine);
    }

    /// Returns the backing's times for this number of blocks, as far as they are known.
    fn writer_times(&self, blocks: u32) -> Option<WriterTimes> {
        let estimator = &self.shared.writeback.estimator;
        let least_ns = estimator.change_ns(blocks)?;
        let usual_ns = estimator.usual_ns(blocks).unwrap_or(least_ns);
        let reads = self.shared.backing.in_flight.waiting(RequestKind::Read);
        Some(WriterTimes { usual_ns: (reads == 0).then_some(usual_ns), least_ns })
    }
}
