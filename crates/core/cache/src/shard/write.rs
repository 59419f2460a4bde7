//! Changes (writes, zeroes, discards): absorbed, written through, or delayed.

use super::Shard;
use crate::BLOCK_SECTORS;
use crate::admission::{Candidate, Origin, Rules};
use crate::arena::{ExtentHeader, Header, State};
use crate::blocks::{bits, blocks_of, share, stretches, whole_blocks_of};
use crate::dirty::claims::Claim;
use crate::dirty::decision::{self, Decision, Demand, Overlap, Reason, Room};
use crate::dirty::gauges::{Gauges, Stage};
use crate::dirty::level::Level;
use crate::dirty::limits::{self, DirtyLimits};
use crate::planted::{self, Admitted, Bug, planted};
use crate::settings::Settings;
use block::{Buf, Extent, SECTOR};
use core::ops::Range;
use policy::{Access, Hash, Held, Verdict};

/// The data of a change.
#[derive(Clone, Copy)]
pub(crate) enum Source<'a> {
    /// These bytes, for all sectors of the change.
    Data(&'a Buf),
    /// Zeros.
    Zeros {
        /// The space behind them may be unmapped.
        may_unmap: bool,
        /// The client discards the data there.
        discard: bool,
    },
}

/// A change to be admitted. It lies in one region.
#[derive(Clone, Copy)]
pub(crate) struct Change<'a> {
    pub(crate) at: Extent,
    pub(crate) source: Source<'a>,
    pub(crate) fua: bool,
    /// The reason why it may not be absorbed, if any.
    pub(crate) barred: Option<Reason>,
    pub(crate) now_ns: u64,
    /// It is in the shard's queue: it has waited for requests in flight to its blocks.
    pub(crate) lined_up: bool,
}

/// Result of the decision about a change.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Admit {
    /// It is in the write buffer. `start`: the flusher should check, because this is the first
    /// change of its epoch or because enough blocks are dirty to begin writeback.
    /// `throttle_blocks`: the buffer is nearly full, and the reply waits as for a change with this
    /// number of new blocks; 0: no wait. `has_run`: a run is ready for an idle device.
    Absorbed { start: bool, throttle_blocks: u32, has_run: bool },
    /// It is in the write buffer, but must be durable before the reply: flush.
    AbsorbedAndFlush,
    /// Make its copies with [`Shard::begin_copies`], send it to the backing, then report with
    /// [`Shard::write_through_done`]. `keeps_new`: whether blocks are cached that were not cached
    /// before.
    WriteThrough { keeps_new: bool },
    /// It may not be written through, nor absorbed as a whole: split it.
    Cut,
    /// Wait until the shard changes: a request for one of its blocks is in flight to the backing.
    Wait,
    /// Wait until an epoch is durable, or until there is room for another reason. `urgent`: start
    /// writeback to make room.
    WaitForRoom { urgent: bool },
}

impl Change<'_> {
    /// Returns the resources that the change needs.
    fn demand(&self) -> Demand {
        let (first, blocks) = blocks_of(&self.at);
        let barred = self.barred;
        match self.source {
            Source::Data(_) => {
                Demand { barred, slots: blocks, is_zeros: false, needs_range: false }
            }
            Source::Zeros { .. } => {
                let parted = |block| u32::from(share(&self.at, block).1 < BLOCK_SECTORS);
                let last = first + u64::from(blocks) - 1;
                let slots = parted(first) + if last > first { parted(last) } else { 0 };
                let needs_range = whole_blocks_of(&self.at).is_some();
                Demand { barred, slots, is_zeros: true, needs_range }
            }
        }
    }
}

/// Planted bug: the change does not see the requests for which it should wait, or which it should
/// join.
fn as_planted(overlap: Overlap, change: &Change) -> Overlap {
    let mut overlap = overlap;
    if planted(Bug::BypassInFlight) {
        (overlap.write_through, overlap.is_behind, overlap.writing) = (false, false, false);
    }
    if change.barred == Some(Reason::Bypass) && planted(Bug::AsideIgnoresDirty) {
        let Overlap { write_through, is_behind, .. } = overlap;
        overlap = Overlap { write_through, is_behind, ..Overlap::default() };
    }
    overlap
}

impl Shard {
    /// Decides about a change and, unless it is written through or waits, absorbs it.
    pub(crate) fn admit(&mut self, gauges: &Gauges, settings: &Settings, change: &Change) -> Admit {
        let overlap = as_planted(self.overlap(change), change);
        let (_claim, decision) = self.decide(gauges, settings, change, &overlap);
        match decision {
            Decision::Absorb { throttle_blocks } => {
                self.absorb(gauges, settings, change, throttle_blocks)
            }
            Decision::AbsorbOver => match self.absorb(gauges, settings, change, 0) {
                _ if change.fua => Admit::AbsorbedAndFlush,
                absorbed => absorbed,
            },
            Decision::WriteThrough(reason) => {
                self.count_write_through(reason);
                self.begin_write_through(&change.at);
                Admit::WriteThrough { keeps_new: reason.keeps_new() }
            }
            Decision::Cut => Admit::Cut,
            Decision::Wait => Admit::Wait,
            Decision::WaitForRoom { urgent } => Admit::WaitForRoom { urgent },
        }
    }

    /// Decides about a change with this overlap. Its claim must be held until it has taken its
    /// room.
    fn decide<'a>(
        &self,
        gauges: &'a Gauges,
        settings: &Settings,
        change: &Change,
        overlap: &Overlap,
    ) -> (Claim<'a>, Decision) {
        let demand = change.demand();
        let claim = gauges.claim(demand.claim(overlap));
        let is_ordered = gauges.is_ordered();
        let room = Room {
            level: Level::of(gauges, settings.dirty_blocks_max, claim.others),
            was_full: gauges.is_full(),
            is_late: gauges.age(change.now_ns) > settings.dirty_age_ns,
            is_ordered,
            would_overtake: is_ordered && Shard::would_overtake(gauges),
            slots: self.available(),
            dirty: self.dirty,
            dirty_max: limits::dirty_slots_max(self.slots),
            has_range: self.zeroes.has_room(),
        };
        let (decision, is_full) = decision::decide(&demand, overlap, &room);
        if is_full != room.was_full {
            gauges.set_full(is_full);
        }
        (claim, decision)
    }

    /// Puts a change into the shard's queue if it `waits`, otherwise removes it. While a change
    /// waits for requests in flight to its blocks, nothing more of these blocks is sent, and no
    /// other change of them overtakes it: otherwise it would wait as long as others keep writing
    /// there. `lined_up`: whether it is in the queue.
    pub(crate) fn line_up(&mut self, at: Extent, waits: bool, lined_up: &mut bool) {
        match (core::mem::replace(lined_up, waits), waits) {
            (false, true) => self.write_through.line_up(at),
            (true, false) => self.write_through.leave_line(at),
            _ => {}
        }
    }

    /// Absorbs a change that is not barred, if [`Shard::admit`] would absorb it; otherwise does
    /// nothing.
    pub(crate) fn try_absorb(
        &mut self,
        gauges: &Gauges,
        settings: &Settings,
        change: &Change,
    ) -> Option<Admit> {
        let overlap = self.overlap(change);
        let (_claim, decision) = self.decide(gauges, settings, change, &overlap);
        match decision {
            Decision::Absorb { throttle_blocks: 0 } => {
                Some(self.absorb(gauges, settings, change, 0))
            }
            _ => None,
        }
    }

    /// Whether a write-through sent now would overtake closed epochs (`ordered`).
    ///
    /// If no epoch is closed, the write-through belongs to the open epoch, even if that epoch is
    /// closed and written back while the write-through is in flight. It overtakes nothing: every
    /// flush that was answered before it was sent has closed only epochs that are durable. Nothing
    /// overtakes it: a client that has received its reply sends a flush afterwards, and that flush
    /// closes the epoch that is open by then. A change sent after the flush's reply belongs to a
    /// later epoch, or is a later write-through. Both wait for a flush of the backing that begins
    /// after the closing.
    fn would_overtake(gauges: &Gauges) -> bool {
        gauges.closed() > 0 && !planted(Bug::PassAhead)
    }

    /// Counts a change that has been admitted.
    pub(crate) fn count_change(&mut self, change: &Change) {
        let bytes = u64::from(change.at.count) * SECTOR;
        match change.source {
            Source::Data(_) => &self.counters.asked_write_bytes,
            Source::Zeros { discard: false, .. } => &self.counters.asked_zero_bytes,
            Source::Zeros { discard: true, .. } => &self.counters.asked_discard_bytes,
        }
        .add(bytes);
        self.counters.changes.add(1);
        self.counters.blocks_requested.add(u64::from(blocks_of(&change.at).1));
    }

    pub(super) fn count_write_through(&mut self, reason: Reason) {
        let counters = &self.counters;
        counters.writes_through.add(1);
        match reason {
            Reason::Mode => &counters.writes_through_mode,
            Reason::Unproven => &counters.writes_through_unproven,
            Reason::Fua => &counters.writes_through_fua,
            Reason::Large => &counters.writes_through_large,
            Reason::Full => &counters.writes_through_full,
            Reason::Late => &counters.writes_through_late,
            Reason::Bypass => &counters.writes_through_guard,
        }
        .add(1);
    }

    /// Returns the state of the blocks that a change overlaps.
    fn overlap(&self, change: &Change) -> Overlap {
        let at = &change.at;
        let (first, blocks) = blocks_of(at);
        let write_through = self.write_through.meet(first, blocks);
        if write_through && !planted(Bug::BypassInFlight) {
            // It waits, whatever else it overlaps.
            return Overlap { write_through, ..Overlap::default() };
        }
        let is_behind = self.write_through.is_behind(*at, change.lined_up);
        let mut met = Overlap { write_through, is_behind, ..Overlap::default() };
        met.partly = !self.zeroes.is_empty() && self.zeroes.meet(first, blocks);
        if self.dirty == 0 || !self.regions.may_have(first) {
            return met;
        }
        for block in first..first + u64::from(blocks) {
            let whole = share(at, block).1 == BLOCK_SECTORS;
            self.index.find(Hash::of(block), |slot| {
                let header = self.header(slot);
                if header.block == block && header.state.is_dirty() {
                    // A change is not written through over a version that is held in part either:
                    // after a kill now, recovery would write the held sectors over those of this
                    // change that had reached the backing.
                    met.partly |= !whole;
                    met.partly |= header.mask != 0xff && !planted(Bug::PassHeldInPart);
                    met.writing |= header.state == State::Writing;
                    met.early |= header.state == State::Writing && self.is_open(&header);
                    met.open += u32::from(header.state == State::Dirty && self.is_open(&header));
                }
                false
            });
        }
        met
    }

    fn absorb(
        &mut self,
        gauges: &Gauges,
        settings: &Settings,
        change: &Change,
        throttle_blocks: u32,
    ) -> Admit {
        let (first, blocks) = blocks_of(&change.at);
        let (sequence, first_of_epoch) = gauges.change_absorbed(change.now_ns);
        let limits = gauges.limits(settings.dirty_blocks_max);
        let mut has_run = false;
        match change.source {
            Source::Data(_) => {
                let candidate = Candidate::new(Rules::KEEP, Origin::Absorbed);
                let candidate = self.follow_write(&change.at, candidate);
                let skipped = (!candidate.is_admitted()).then_some(candidate);
                for block in first..first + u64::from(blocks) {
                    self.absorb_block(gauges, change, block, sequence, skipped.as_ref());
                }
                self.counters.blocks_absorbed.add(u64::from(blocks));
                has_run = self.note_run(gauges, limits, first, blocks);
            }
            Source::Zeros { may_unmap, discard } => {
                gauges.range_absorbed();
                self.absorb_zeros(gauges, change, sequence, may_unmap, discard);
            }
        }
        planted::admitted(Admitted {
            first: change.at.first,
            sectors: change.at.count,
            epoch: self.epoch,
            dirty_blocks: gauges.dirty(),
            dirty_blocks_max: settings.dirty_blocks_max,
            debt_blocks: gauges.debt(),
            allowance_blocks: gauges.allowance(),
        });
        // From its first change on, an epoch has an age that the flusher must watch.
        let woken = first_of_epoch && !planted(Bug::SleepingKeeper);
        let start = woken || gauges.has_much_to_write(limits);
        Admit::Absorbed { start, throttle_blocks, has_run }
    }

    /// Records absorbed blocks. Returns whether a run is ready for an idle device.
    fn note_run(&mut self, gauges: &Gauges, limits: DirtyLimits, first: u64, blocks: u32) -> bool {
        let run = self.ready.note_absorbed(first, blocks);
        let run = run.filter(|_| limits.has_some_to_write(gauges.open()));
        run.inspect(|run| self.ready.push(*run)).is_some()
    }

    /// Copies a change's data of one block into a fresh slot, merges it with the other held sectors
    /// of the block, and publishes it as the current version.
    ///
    /// `skipped`: the change is not admitted. A block of it that is not cached yet is the first to
    /// be evicted once it is durable.
    fn absorb_block(
        &mut self,
        gauges: &Gauges,
        change: &Change,
        block: u64,
        sequence: u64,
        skipped: Option<&Candidate>,
    ) {
        let (sector, sectors, skip) = share(&change.at, block);
        let mask = bits(sector, sectors);
        self.fills.touch(block, mask);
        self.outdate_compressed(block);
        if planted(Bug::OverwriteInFlight)
            && let Some((old, header)) = self.current(block)
            && header.state == State::Writing
        {
            return self.fill_slot(old, change.source, sector, skip, sectors);
        }
        let is_held = self.presence(block) != 0;
        // A block that was cached stays cached, however long the stream is.
        let bypasses = skipped.is_some_and(|candidate| {
            !Candidate { is_kept: self.is_kept(block), ..*candidate }.is_admitted()
        });
        if !bypasses {
            self.accessed(block, 1, u32::from(!is_held), Access::Absorb);
        }
        // Taking a slot may evict a clean copy of this same block: look for it afterwards.
        let slot = self.take_slot(block).expect("room was asked for");
        self.ahead.set_bypassed(slot, bypasses);
        if planted(Bug::PublishBeforeFill) {
            let epoch = self.epoch as u16;
            let state = State::Dirty;
            let early = Header { block, mask, epoch, sequence, state, shadowed: false };
            self.arena.publish(self.base + slot, &early);
        }
        let source = match planted(Bug::DiscardFreeSpace) && self.policy.never_admits(block) {
            true => Source::Zeros { may_unmap: true, discard: true },
            false => change.source,
        };
        self.fill_slot(slot, source, sector, skip, sectors);
        let old = self.current(block);
        let mut held = mask;
        if let Some((old, header)) = &old {
            let rest = header.mask & !mask;
            stretches(rest, |first, length| {
                self.arena.copy_sectors(self.base + *old, self.base + slot, first, length);
            });
            held |= rest;
        } else if mask != 0xff && self.zeroes.cover(block) {
            stretches(!mask, |first, length| self.arena.zero(self.base + slot, first, length));
            held = 0xff;
        }
        let header = Header {
            block,
            mask: held,
            epoch: self.epoch as u16,
            sequence,
            state: State::Dirty,
            shadowed: false,
        };
        self.publish_dirty(gauges, slot, header, old);
    }

    /// Publishes the new current version of a block, then handles the one before it.
    fn publish_dirty(
        &mut self,
        gauges: &Gauges,
        slot: u32,
        header: Header,
        old: Option<(u32, Header)>,
    ) {
        if let Some((_, old_header)) = &old {
            self.note_rewritten(old_header);
            self.note_overtaken_copy(gauges, old_header);
        }
        if let Some((old, old_header)) = &old
            && planted(Bug::CoalesceAcrossEpochs)
            && old_header.state == State::Dirty
            && self.is_closing(old_header)
        {
            let header = Header { epoch: old_header.epoch, ..header };
            self.arena.publish(self.base + slot, &header);
            self.retire(gauges, *old, old_header);
            self.index_slot(header.block, slot);
            self.links.push_back(&mut self.closing, slot);
            self.dirty += 1;
            gauges.block_dirtied(Stage::Closing);
            return;
        }
        if !planted(Bug::RetireFirst) {
            self.arena.publish(self.base + slot, &header);
        }
        if let Some((old, old_header)) = &old
            && !old_header.is_ahead()
        {
            self.used(*old, old_header);
            self.policy.succeed(&mut self.links, *old, slot, Held::Dirty);
        } else if self.policy.miss(Hash::of(header.block)) != Verdict::Keep {
            // It is dirty whatever the policy says, and the first to be evicted once it is durable.
            self.ahead.set_bypassed(slot, true);
        }
        match old {
            Some((old, old_header)) if self.is_replaceable(&old_header) => {
                self.counters.blocks_saved.add(u64::from(old_header.state == State::Dirty));
                self.retire(gauges, old, &old_header);
            }
            Some((old, old_header)) => self.shadow(old, &old_header),
            None => {}
        }
        if planted(Bug::RetireFirst) {
            self.arena.publish(self.base + slot, &header);
        }
        self.index_slot(header.block, slot);
        self.links.push_back(&mut self.open, slot);
        self.dirty += 1;
        gauges.block_dirtied(Stage::Open);
        if planted(Bug::DropUnadmitted) && self.policy.never_admits(header.block) {
            self.retire(gauges, slot, &header);
        }
    }

    /// Records that a version is replaced. In the open epoch, its writeback was or would have been
    /// of no use.
    fn note_rewritten(&mut self, header: &Header) {
        if header.state.is_dirty() && self.is_open(header) {
            self.ready.note_rewritten();
        }
    }

    /// Whether a newer version may replace this one immediately: no client was promised this
    /// version.
    fn is_replaceable(&self, header: &Header) -> bool {
        match header.state {
            State::Clean => true,
            State::Dirty | State::Written => self.is_open(header),
            State::Writing | State::Free => false,
        }
    }

    fn fill_slot(&mut self, slot: u32, source: Source, sector: u32, skip: u32, sectors: u32) {
        match source {
            Source::Data(from) => self.arena.put(self.base + slot, sector, from, skip, sectors),
            Source::Zeros { .. } => self.arena.zero(self.base + slot, sector, sectors),
        }
    }

    /// Absorbs zeros: whole blocks become a pending range, the edges are absorbed as blocks.
    fn absorb_zeros(
        &mut self,
        gauges: &Gauges,
        change: &Change,
        sequence: u64,
        may_unmap: bool,
        discard: bool,
    ) {
        let (first, blocks) = blocks_of(&change.at);
        // The range is published before the blocks are dropped that it replaces: after a kill in
        // between, these blocks count as newer than a range of their epoch, as if this change had
        // not yet begun for them.
        let early = !planted(Bug::RangeAfterBlocks);
        if early {
            self.publish_range(change, sequence, may_unmap);
        }
        if let Some((whole, count)) = whole_blocks_of(&change.at) {
            self.zero_blocks(gauges, whole..whole + u64::from(count));
        }
        let last = first + u64::from(blocks) - 1;
        let ends = [first, last].into_iter().take(if first == last { 1 } else { 2 });
        for block in ends.filter(|block| share(&change.at, *block).1 < BLOCK_SECTORS) {
            if !(discard && planted(Bug::KeepDiscardedEdges)) {
                self.absorb_block(gauges, change, block, sequence, None);
            }
        }
        if !early {
            self.publish_range(change, sequence, may_unmap);
        }
    }

    fn publish_range(&mut self, change: &Change, sequence: u64, may_unmap: bool) {
        if let Some((first, blocks)) = whole_blocks_of(&change.at) {
            let epoch = self.epoch;
            let range = ExtentHeader { first, blocks, may_unmap, epoch, sequence };
            self.zeroes.admit(&self.arena, range);
        }
    }

    /// Replaces the versions of blocks of one region by a pending range of zeros.
    fn zero_blocks(&mut self, gauges: &Gauges, blocks: Range<u64>) {
        self.fills.touch_blocks(&blocks);
        self.outdate_all_compressed(blocks.clone());
        if self.regions.may_have(blocks.start) {
            blocks.for_each(|block| self.zero_block(gauges, block));
        }
    }

    fn zero_block(&mut self, gauges: &Gauges, block: u64) {
        let Some((slot, header)) = self.current(block) else {
            return;
        };
        self.note_rewritten(&header);
        let dropped = planted(Bug::DiscardDropsFlushed) && header.state == State::Dirty;
        if self.is_replaceable(&header) || dropped {
            self.counters.blocks_saved.add(u64::from(header.state == State::Dirty));
            self.note_overtaken_copy(gauges, &header);
            self.retire(gauges, slot, &header);
        } else {
            self.shadow(slot, &header);
        }
    }
}
