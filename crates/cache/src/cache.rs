//! The cache as a block layer: loops over what the shards decide.

use crate::crew;
use crate::index::Hash;
use crate::level::Level;
use crate::pace::Turn;
use crate::patience::Errand;
use crate::planted::{Bug, planted};
use crate::shard::{Admit, Change, Fetch, Glance, Keeps, Look, Passed, Reason, Source, blocks_of};
use crate::shared::{Room, Shared};
use alloc::rc::Rc;
use alloc::sync::Arc;
use alloc::vec::Vec;
use block::{Block, Buf, Error, Extent, Fua, Kind, Limits, Request, Result, Stack, Stall, Stretch};
use core::cell::Cell;
use core::ops::Range;
use core::sync::atomic::Ordering;
use lane::{Cost, Lane};

/// Blocks that are copied in one section: longer work is done in slices, so that nobody waits for
/// the lock longer than a few microseconds.
const SLICE: u32 = 32;
/// Requests that are prefetched together.
const WAVE: usize = 16;

/// A volume's cache as one lane sees it.
#[derive(Clone)]
pub struct Cache(pub(crate) Rc<Handle>);

pub(crate) struct Handle {
    pub(crate) shared: Arc<Shared>,
    pub(crate) lane: Lane,
    pub(crate) below: Stack,
    /// Whether the backing has answered the last read at once that it was asked to.
    at_once: Cell<bool>,
}

const FAILED: Error = Error::new(Kind::Io, "write: the volume has failed, clear the error first");

pub(crate) const LOST: Error =
    Error::new(Kind::Io, "flush: another request's flush of the backing failed");

impl Cache {
    /// Joins a lane to a volume's cache, over that lane's way to the backing. Starts the lane's
    /// write-back crew and, on the first lane, the keeper.
    ///
    /// # Panics
    /// If the lane has no room for the crew's tasks ([`Shared::tasks_a_lane`]).
    pub fn attach(shared: &Arc<Shared>, lane: &Lane, below: Stack) -> Cache {
        assert_eq!(shared.limits.sectors, below.limits().sectors, "another volume's cache");
        let (shared, lane) = (shared.clone(), lane.clone());
        let handle = Handle { shared, lane, below, at_once: Cell::new(true) };
        let cache = Cache(Rc::new(handle));
        crew::start(&cache);
        cache
    }

    /// The lane that it is attached to.
    pub fn lane(&self) -> Lane {
        self.0.lane.clone()
    }

    /// The shared half.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.0.shared
    }
}

impl Block for Cache {
    fn limits(&self) -> &Limits {
        &self.0.shared.limits
    }

    #[inline]
    fn try_now(&self, request: &Request) -> Option<Result> {
        let at = request.extent()?;
        let shared = &self.0.shared;
        let (first, blocks) = blocks_of(&at);
        if blocks > SLICE || u64::from(at.count) > shared.stretch(at.first) {
            return None;
        }
        let room = shared.room(first);
        match request {
            Request::Read { into, .. } => {
                let at_once = self.0.at_once.get();
                let glance = room.shard.with(|shard| {
                    shard.glance(
                        &shared.gauges,
                        &shared.settings,
                        shared.keeps(first),
                        at_once,
                        &at,
                        into,
                    )
                });
                if glance != Glance::Unknown {
                    shared.watch.saw(first, glance == Glance::Hit);
                }
                match glance {
                    Glance::Hit => {
                        self.0.lane.charge(Cost::Hit, blocks);
                        Some(Ok(()))
                    }
                    Glance::Bypass => {
                        let answer = self.0.below.try_now(request);
                        self.0.at_once.set(answer.is_some());
                        answer
                    }
                    Glance::Unknown => None,
                }
            }
            Request::Write { from, fua: false, .. } => {
                let change = self.0.change(at, Source::Data(from), false);
                self.0.try_absorb(room, &change)
            }
            _ => None,
        }
    }

    fn prefetch(&self, requests: &[Request]) {
        // Waves, so that the waits for memory overlap: what one asks for, the next one uses.
        for wave in requests.chunks(WAVE) {
            let mut slots = [None; WAVE];
            let place = |request: &Request| {
                let Request::Read { at, .. } = request else {
                    return None;
                };
                let block = blocks_of(at).0;
                Some((&self.0.shared.room(block).nearer, block))
            };
            for (nearer, block) in wave.iter().filter_map(place) {
                nearer.place(block);
            }
            for (request, slot) in wave.iter().zip(&mut slots) {
                *slot =
                    place(request).and_then(|(nearer, block)| Some((nearer, nearer.slot(block)?)));
            }
            for (nearer, slot) in slots.into_iter().flatten() {
                nearer.neighbours(slot);
            }
        }
    }

    async fn run(&self, request: Request) -> Result {
        match request {
            Request::Read { at, into } => self.0.read(at, into).await,
            // In memory of their own: reads would carry the size of a write-out's future with them.
            change => {
                let handle = self.0.clone();
                self.0.lane.pin(async move { handle.change_or_flush(change).await }).await
            }
        }
    }

    async fn status(&self, at: Extent) -> Result<Vec<Stretch>> {
        self.0.status(at).await
    }

    fn stall(&self) -> Option<&Arc<Stall>> {
        Some(&self.0.shared.stall)
    }
}

fn request_of(change: &Change, fua: bool) -> Request {
    let at = change.at;
    match change.source {
        Source::Data(from) => Request::Write { at, from: from.clone(), fua },
        Source::Zeros { discard: true, .. } => Request::Discard { at },
        Source::Zeros { may_unmap, .. } => Request::Zero { at, fua, may_unmap },
    }
}

/// Sectors from `first` on up to a block's border, so that they touch `blocks` blocks.
fn cut(first: u64, blocks: u64) -> u64 {
    let block = u64::from(crate::BLOCK_SECTORS);
    blocks.saturating_mul(block).saturating_sub(first % block).max(1)
}

/// A range of blocks in slices of at most [`SLICE`].
fn slices(blocks: Range<u64>) -> impl Iterator<Item = Range<u64>> {
    let end = blocks.end;
    let slice = u64::from(SLICE);
    blocks.step_by(SLICE as usize).map(move |first| first..end.min(first + slice))
}

impl Handle {
    /// Cuts a read where one decision must end, and serves the parts.
    async fn read(&self, at: Extent, into: Buf) -> Result {
        let block = u64::from(crate::BLOCK_SECTORS);
        let run = u64::from(self.shared.geometry.run_blocks) * block;
        let most = self.shared.stretch(at.first).min(run - at.first % block);
        if u64::from(at.count) <= most {
            return self.read_part(at, &into).await;
        }
        let mut done = 0;
        while done < at.count {
            let first = at.first + u64::from(done);
            let most = self.shared.stretch(first).min(run - first % block);
            let count = most.min(u64::from(at.count - done)) as u32;
            let part = into.part(done, count);
            self.read_part(Extent::new(first, count), &part).await?;
            done += count;
        }
        Ok(())
    }

    async fn read_part(&self, at: Extent, into: &Buf) -> Result {
        let (first, blocks) = blocks_of(&at);
        let room = self.shared.room(first);
        loop {
            self.lane.turn().await;
            let seen = room.changed.seen();
            let keeps = self.shared.keeps(first);
            let look = room.shard.with(|shard| {
                shard.look(&self.shared.gauges, &self.shared.settings, keeps, &at, into)
            });
            match look {
                Look::Hit => {
                    self.shared.watch.saw(first, true);
                    self.lane.charge(Cost::Hit, blocks);
                    return Ok(());
                }
                Look::Wait if self.shared.stall.is_on() => return Err(self.shared.stall.error()),
                Look::Wait => room.changed.after(seen).await,
                Look::Fetch(fetch) => {
                    self.shared.watch.saw(first, false);
                    self.lane.charge(Cost::Miss, 1);
                    if self.fetch(room, &fetch, into).await? {
                        return Ok(());
                    }
                }
            }
        }
    }

    /// Fetches; true if the read is complete.
    async fn fetch(&self, room: &Room, fetch: &Fetch, into: &Buf) -> Result<bool> {
        let part = into.part(fetch.skip, fetch.at.count);
        let (first, blocks) = blocks_of(&fetch.at);
        let gauges = &self.shared.gauges;
        let result = self.read_below(fetch.at, part, first).await;
        let mut complete = result.is_ok();
        let all = first..first + u64::from(blocks);
        if result.is_err() {
            self.lane.turn().await;
            room.shard.with(|shard| shard.end_fetch(gauges, fetch));
        } else if blocks <= SLICE {
            self.lane.turn().await;
            room.shard.with(|shard| {
                complete = shard.overlay(fetch, into, all.clone());
                shard.keep(gauges, fetch, into, all);
                shard.end_fetch(gauges, fetch);
            });
        } else {
            for slice in slices(all.clone()) {
                self.lane.turn().await;
                complete &= room.shard.with(|shard| shard.overlay(fetch, into, slice));
            }
            for slice in slices(all) {
                self.lane.turn().await;
                room.shard.with(|shard| shard.keep(gauges, fetch, into, slice));
            }
            self.lane.turn().await;
            room.shard.with(|shard| shard.end_fetch(gauges, fetch));
        }
        self.lane.charge(Cost::Fill, blocks);
        room.changed.notify();
        result.map(|()| complete)
    }

    async fn read_below(&self, at: Extent, into: Buf, block: u64) -> Result {
        // A sixteenth of the misses is timed: the estimate needs no more.
        let timed = Hash::of(block).is_sampled();
        let start = self.lane.now();
        let request = Request::Read { at, into };
        self.lane.turn().await;
        let result = match self.below.try_now(&request) {
            Some(result) => result,
            None if self.shared.stall.is_on() => return Err(self.shared.stall.error()),
            None => {
                let sent = self.shared.patience.sent(Errand::Read);
                let result = self.below.run(request).await;
                self.shared.patience.answered(sent);
                self.shared.drain.rival_served();
                self.shared.latencies.miss_ns.record(self.lane.now() - start);
                result
            }
        };
        if timed && result.is_ok() {
            let took = self.lane.now() - start;
            let measured = &self.shared.gauges.backing_read_ns;
            let before = measured.load(Ordering::Relaxed);
            let now = if before == u64::MAX { took } else { before - before / 8 + took / 8 };
            measured.store(now, Ordering::Relaxed);
        }
        if result.is_err() {
            self.shared.errors[0].fetch_add(1, Ordering::Relaxed);
        }
        result
    }

    async fn change_or_flush(self: Rc<Self>, request: Request) -> Result {
        match request {
            Request::Read { .. } => unreachable!("reads have their own way"),
            Request::Write { at, ref from, fua } => self.write(at, from, fua).await,
            Request::Flush => {
                let start = self.lane.now();
                let result = self.flush_for_client().await;
                self.shared.latencies.flush_ns.record(self.lane.now() - start);
                result
            }
            Request::Discard { at } => self.discard(at).await,
            Request::Zero { at, fua, may_unmap } => {
                let zeros = Source::Zeros { may_unmap, discard: false };
                self.change_all(at, zeros, fua).await
            }
        }
    }

    fn change<'a>(&self, at: Extent, source: Source<'a>, fua: bool) -> Change<'a> {
        let (first, blocks) = blocks_of(&at);
        let large = blocks > self.shared.settings.absorb_blocks_max;
        let barred = match self.shared.barred(first) {
            Some(reason) => Some(reason),
            None if fua => Some(Reason::Fua),
            None if large && matches!(source, Source::Data(_)) => Some(Reason::Large),
            None if self.gains_nothing(blocks) => Some(Reason::Large),
            None => None,
        };
        Change { at, source, fua, barred, now_ns: self.lane.now(), lined_up: false }
    }

    /// Whether a write gains nothing by being absorbed: writers are slowed down already, several wait, and it
    /// is half as large as the largest that are absorbed: as efficient alone as what it would be joined to.
    /// Not in `ordered` mode, where it would wait for what is closed.
    fn gains_nothing(&self, blocks: u32) -> bool {
        if blocks * 2 < self.shared.settings.absorb_blocks_max || self.shared.gauges.is_ordered() {
            return false;
        }
        let level = Level::of(&self.shared.gauges, &self.shared.settings.now());
        level.is_filling() && (self.shared.pace.is_awaited() || self.shared.passing() > 0)
    }

    fn try_absorb(&self, room: &Room, change: &Change) -> Option<Result> {
        if self.shared.has_failed() {
            return Some(Err(FAILED));
        }
        let blocks = blocks_of(&change.at).1;
        let settings = self.shared.settings.now();
        let admit = room.shard.with(|shard| {
            let admit = shard.try_absorb(&self.shared.gauges, &settings, change)?;
            shard.counters.changes += 1;
            shard.counters.blocks_requested += u64::from(blocks);
            Some(admit)
        })?;
        self.lane.charge(Cost::Absorb, blocks);
        self.shared.start_if(admit);
        Some(Ok(()))
    }

    async fn write(&self, at: Extent, from: &Buf, fua: bool) -> Result {
        self.change_all(at, Source::Data(from), fua).await
    }

    /// A discard of what the backing would ignore leaves everything as it is: stable (C14).
    async fn discard(&self, at: Extent) -> Result {
        if self.shared.limits.discard == block::Discard::Ignored {
            return Ok(());
        }
        self.change_all(at, Source::Zeros { may_unmap: true, discard: true }, false).await
    }

    /// Cuts a change where one decision must end, and sees each part through.
    async fn change_all(&self, at: Extent, source: Source<'_>, fua: bool) -> Result {
        let stalls = self.shared.stalls.load(Ordering::SeqCst);
        let cleared = self.shared.times_cleared();
        // Elsewhere an FUA write is a write and a flush, whatever ways its parts take.
        // (Also while settings change: in `ordered` mode it was promised more than its own data.)
        let changing =
            self.shared.setting.load(Ordering::SeqCst) || self.shared.gauges.is_ordered();
        let durable = self.shared.settings.is_durable() && !changing;
        let mut most = u64::MAX;
        let mut done = 0;
        while done < at.count {
            let first = at.first + u64::from(done);
            let left = u64::from(at.count - done);
            let count = self.shared.stretch(first).min(left).min(cut(first, most)) as u32;
            let part = Extent::new(first, count);
            let fua = fua && durable;
            let seen_through = match source {
                Source::Data(from) => {
                    let from = from.part(done, count);
                    self.change_part(part, Source::Data(&from), fua, stalls).await?
                }
                zeros => self.change_part(part, zeros, fua, stalls).await?,
            };
            match seen_through {
                true => done += count,
                false => {
                    let half = u64::from(blocks_of(&part).1 / 2);
                    most = half.min(self.shared.settings.absorb_blocks_max.into()).max(1);
                }
            }
        }
        if fua && !durable {
            self.flush_for_client().await?;
        }
        if fua { self.shared.unless_cleared(cleared) } else { Ok(()) }
    }

    /// Whether a change may not be admitted any more that was sent when this was [`Shared::stalls`].
    /// While the backing hangs, clients are told so, and what they had sent is left behind: admitted
    /// later, it could overwrite what they have sent since.
    fn is_left_behind(&self, stalls: u64) -> bool {
        let told = stalls % 2 == 1 || self.shared.stalls.load(Ordering::SeqCst) != stalls;
        told && !planted(Bug::AdmitLeftBehind)
    }

    /// Why a change may not be admitted that was sent when [`Shared::stalls`] was this, if so.
    fn refusal(&self, stalls: u64) -> Option<Error> {
        match self.shared.has_failed() {
            true => Some(FAILED),
            false => self.is_left_behind(stalls).then(|| self.shared.stall.error()),
        }
    }

    /// Sees one part of a change through. False: it is too large, and must be cut.
    async fn change_part(
        &self,
        at: Extent,
        source: Source<'_>,
        fua: bool,
        stalls: u64,
    ) -> Result<bool> {
        let (first, blocks) = blocks_of(&at);
        let room = self.shared.room(first);
        let (mut counted, mut lined_up) = (false, false);
        loop {
            self.lane.turn().await;
            // Before the first look: who fails the volume on another lane rings after it is noted.
            let (seen, freed) = (room.changed.seen(), self.shared.freed.seen());
            // From here to the decision nothing is awaited: who is told in between is told that.
            if let Some(refusal) = self.refusal(stalls) {
                if lined_up {
                    room.shard.with(|shard| shard.line_up(at, false, &mut lined_up));
                    room.changed.notify();
                    self.shared.call_one(self.lane.now());
                }
                return Err(refusal);
            }
            // Anew each time: settings may have changed while this waited.
            let change = Change { lined_up, ..self.change(at, source, fua) };
            let settings = self.shared.settings.now();
            let admit = room.shard.with(|shard| {
                let admit = shard.admit(&self.shared.gauges, &settings, &change);
                if admit != Admit::Cut && !core::mem::replace(&mut counted, true) {
                    shard.counters.changes += 1;
                    shard.counters.blocks_requested += u64::from(blocks);
                }
                shard.line_up(at, admit == Admit::Wait, &mut lined_up);
                admit
            });
            if change.lined_up && !lined_up {
                room.changed.notify();
                self.shared.call_one(self.lane.now());
            }
            match admit {
                Admit::Absorbed { turns, .. } => {
                    self.lane.charge(Cost::Absorb, blocks);
                    self.shared.start_if(admit);
                    self.wait_turns(turns).await;
                    return Ok(true);
                }
                Admit::AbsorbedAndFlush => {
                    self.lane.charge(Cost::Absorb, blocks);
                    return self.flush_for_client().await.map(|()| true);
                }
                Admit::Pass => {
                    self.lane.charge(Cost::Pass, 1);
                    return self.pass(room, &change).await.map(|()| true);
                }
                Admit::Cut => return Ok(false),
                Admit::Wait => room.changed.after(seen).await,
                Admit::WaitForRoom { urgent } => {
                    if urgent {
                        self.shared.gauges.urgent.store(true, Ordering::SeqCst);
                        self.shared.kick.notify();
                    }
                    self.shared.freed.after(freed).await;
                }
            }
        }
    }

    /// Slows a writer down whose change is in the buffer already, but nearly fills it.
    async fn wait_turns(&self, turns: u32) {
        if turns == 0 {
            return;
        }
        let shared = &self.shared;
        let now = self.lane.now();
        match shared.turn(turns, now) {
            Turn::Come => return,
            Turn::After(mine) => {
                let waiting = shared.pace.waits();
                shared.rouse(now);
                shared.pace.after(mine).await;
                drop(waiting);
            }
            Turn::At(ns) => self.lane.sleep_until(ns).await,
        }
        shared.pace.note_slowed(self.lane.now() - now);
    }

    /// Sends a change straight to the backing; its blocks wait for it meanwhile.
    async fn pass(&self, room: &Room, change: &Change<'_>) -> Result {
        if !change.fua {
            // From now on, not from its answer on: a flush that fails in between may have taken it.
            self.shared.unkept.store(true, Ordering::SeqCst);
        }
        let result = self.send(change).await;
        self.shared.drain.rival_passed(self.lane.now());
        let (first, blocks) = blocks_of(&change.at);
        let small = blocks <= self.shared.settings.absorb_blocks_max;
        let keep = small && self.shared.keeps(first) == Keeps::Yes;
        let end = Passed { good: result.is_ok(), keep };
        self.lane.turn().await;
        // Before the pass ends: a flush that comes after it must find this.
        self.shared.unflushed.store(true, Ordering::SeqCst);
        self.shared.gauges.passed.store(true, Ordering::SeqCst);
        if !change.fua || result.is_err() {
            self.shared.unkept.store(true, Ordering::SeqCst);
        }
        let drained = room.shard.with(|shard| shard.passed(&self.shared.gauges, change, end));
        room.changed.notify();
        if drained || room.has_work.load(Ordering::SeqCst) {
            self.shared.order_changed.notify();
            self.shared.call_one(self.lane.now());
        }
        result
    }

    async fn send(&self, change: &Change<'_>) -> Result {
        let native = self.below.limits().fua == Fua::Native;
        let failures = self.shared.flush_failures.load(Ordering::SeqCst);
        self.ask_below(request_of(change, change.fua && native)).await?;
        if !change.fua || native {
            return Ok(());
        }
        if planted(Bug::OverlapFlushes) {
            return self.ask_below(Request::Flush).await;
        }
        self.flush_below().await?;
        // A flush that began when the write was there, and failed before we asked for ours, may have
        // taken it along.
        match self.shared.flush_failures.load(Ordering::SeqCst) == failures {
            true => Ok(()),
            false => Err(LOST),
        }
    }
}
