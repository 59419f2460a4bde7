//! Write-throughs: the copies that they drop when they begin, and the copies that they leave.

use super::{Change, Shard, Source};
use crate::BLOCK_SECTORS;
use crate::admission::{Admission, Candidate, Origin, Rules, SkipReason};
use crate::arena::{Header, State};
use crate::blocks::{bits, blocks_of, share};
use crate::dirty::gauges::Gauges;
use crate::planted::{Bug, planted};
use block::Extent;
use core::ops::Range;
use policy::Access;

/// Rules for the copies of a write-through.
#[derive(Clone, Copy)]
pub(crate) struct WriteThroughCopies {
    /// The change is durable when it is answered: FUA, or the backing needs no flush.
    pub(crate) durable: bool,
    /// The admission rules of the guard and the write mode.
    pub(crate) rules: Rules,
    /// Whether a copy may be admitted for reads where part of the block is cached ...
    pub(crate) keeps_old: bool,
    /// ... and where nothing of it is cached.
    pub(crate) keeps_new: bool,
    /// Maximum number of blocks held until they are durable.
    pub(crate) holds_max: u32,
    /// Whether blocks are held that are not admitted for reads.
    pub(crate) holds_unkept: bool,
}

/// The state of a write-through that can be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WriteThroughBegun {
    /// True if there is a copy of all its blocks.
    pub(crate) is_held: bool,
    /// Whether samplers see its blocks although none is admitted.
    pub(crate) is_sampled: bool,
}

/// The result of a write-through.
#[derive(Clone, Copy)]
pub(crate) struct WriteThroughEnd {
    /// It succeeded.
    pub(crate) good: bool,
    /// See [`WriteThroughCopies`].
    pub(crate) durable: bool,
    /// See [`WriteThroughBegun`].
    pub(crate) is_sampled: bool,
}

/// Whether a bug is planted with which changes do not wait for requests that they overlap, or do
/// not join dirty data.
fn is_careless() -> bool {
    planted(Bug::BypassInFlight) || planted(Bug::AsideIgnoresDirty)
}

impl Shard {
    /// Begins a write-through: no other request for its blocks begins until its end.
    pub(super) fn begin_write_through(&mut self, at: &Extent) {
        let (first, blocks) = blocks_of(at);
        self.write_through.begin(*at);
        self.fills.bar_admission(first, blocks);
        self.note_map_write(first, blocks);
    }

    /// Prepares these blocks of a write-through that is about to be sent: makes their copies, and
    /// drops sectors that reads must not see any more.
    pub(crate) fn begin_copies(
        &mut self,
        gauges: &Gauges,
        change: &Change,
        blocks: Range<u64>,
        copies: WriteThroughCopies,
    ) -> WriteThroughBegun {
        let is_cached = |block| {
            let current: Option<(u32, Header)> = self.current(block);
            current.is_some_and(|(_, header)| header.state == State::Clean)
        };
        let keeps_some = copies.keeps_new || copies.keeps_old && blocks.clone().any(is_cached);
        let origin = Origin::WriteThrough { copies: keeps_some };
        let mut candidate = Candidate::new(copies.rules, origin);
        let is_bypassed = match candidate.admission() {
            Admission::Skip(SkipReason::NoCopy | SkipReason::Mode) => false,
            before => {
                candidate = self.follow_write(&change.at, candidate);
                before != Admission::Keep
            }
        };
        let pollutes = candidate.would_pollute();
        let mut is_held = true;
        for block in blocks {
            // A block that was cached stays cached, however long the stream is.
            let is_kept = pollutes && self.is_kept(block);
            let keeps = Candidate { is_kept, ..candidate }.is_admitted();
            let (sector, sectors, _) = share(&change.at, block);
            self.fills.suspect(block, bits(sector, sectors));
            self.outdate_compressed(block);
            let has_copy = self.begin_copy(gauges, change, block, keeps, copies);
            self.hide_overwritten(&change.at, block, has_copy);
            is_held &= has_copy;
        }
        // The samplers also see blocks that would have been admitted without the bypass.
        let is_sampled = is_bypassed && !pollutes && matches!(change.source, Source::Data(_));
        WriteThroughBegun { is_held, is_sampled }
    }

    /// Hides the sectors of a clean copy that a change is about to overwrite. The others stay
    /// readable, and the copy stays with the policy. `has_copy`: the change has a copy.
    fn hide_overwritten(&mut self, at: &Extent, block: u64, has_copy: bool) {
        // The backing may show the change before it is answered. A client that has read it there
        // must not find the older copy here.
        let Some((slot, header)) = self.current(block) else { return };
        if header.state != State::Clean || planted(Bug::KeepBehindPass) {
            return;
        }
        let (sector, sectors, _) = share(at, block);
        let overwritten = if planted(Bug::ReadBesidePass) { 0 } else { bits(sector, sectors) };
        let mask = header.mask & !overwritten;
        let is_unflushed = self.arena.is_unflushed(&header);
        // A whole copy answers all reads except those in flight, so no read sees the backing. It
        // stays until the change is answered: a successor may have to write it again.
        let stays = is_unflushed && header.mask == 0xff && !self.fills.has(block);
        if stays {
            // A flush may make it durable before the change is answered.
            return self.arena.publish(self.base + slot, &header.under_write_through());
        }
        if mask == header.mask {
            return;
        }
        if is_unflushed && !has_copy {
            self.arena.note_unheld();
        }
        // Free between the two stores: the `place` word, which has the mask, may not change while
        // the slot is published.
        self.arena.free(self.base + slot);
        self.arena.publish(self.base + slot, &Header { mask, ..header });
    }

    /// Ends a write-through for these blocks: versions that it overtook are dropped, and its copies
    /// become readable. The last blocks end the whole change. Returns whether the closing epoch
    /// lost a block by that.
    pub(crate) fn write_through_done(
        &mut self,
        gauges: &Gauges,
        change: &Change,
        blocks: Range<u64>,
        end: WriteThroughEnd,
    ) -> bool {
        let before = gauges.remaining();
        let (first, all) = blocks_of(&change.at);
        let is_last = blocks.end == first + u64::from(all);
        for block in blocks {
            let (sector, sectors, _) = share(&change.at, block);
            self.fills.suspect(block, bits(sector, sectors));
            self.outdate_compressed(block);
            if end.good {
                self.overtake(gauges, change, block, end);
                if end.is_sampled {
                    self.accessed(block, 1, 1, Access::WriteThrough);
                }
            } else {
                self.doubt(gauges, block);
            }
        }
        if is_last {
            self.write_through.end(change.at);
        }
        gauges.remaining() != before
    }

    /// Handles a failed write-through of a block: the backing's content is unknown now. A clean
    /// copy must not be used as equal to it, and a version that is written but not durable must not
    /// become clean. A version that is still to be written settles the doubt, and is written next
    /// if a flush may wait for it.
    fn doubt(&mut self, gauges: &Gauges, block: u64) {
        // No data here could restore the block on the backing.
        self.arena.note_unheld();
        if let Some((slot, _)) = self.take_unanswered(block) {
            self.free_slot(slot);
        }
        if self.is_due(block) {
            self.write_through.owe(block);
        }
        match self.current(block) {
            Some((slot, header)) if header.state == State::Clean => {
                self.retire(gauges, slot, &header);
            }
            Some((_, header)) if header.state == State::Written => self.doubtful.push(block),
            _ => {}
        }
    }

    fn overtake(&mut self, gauges: &Gauges, change: &Change, block: u64, end: WriteThroughEnd) {
        if planted(Bug::KeepBehindPass) {
            return;
        }
        let copy = self.take_unanswered(block);
        let is_whole = share(&change.at, block).1 == BLOCK_SECTORS;
        // A write-through of part of a block is not sent while a version is dirty, and none is sent
        // while a run writes the block.
        let meets = self.dirty > 0
            && (self.is_under_way(block) || !is_whole && self.not_durable(block).is_some());
        if meets {
            assert!(is_careless(), "a write-through met a dirty block in part, or a run");
            return copy.into_iter().for_each(|(slot, _)| self.free_slot(slot));
        }
        // The stamp of an older copy that is still not completely durable after this change; 0:
        // none.
        let before = match self.current(block) {
            Some((_, header)) if !(end.durable && is_whole) => self.stamp_of(&header),
            _ => 0,
        };
        // Before the old version is dropped: after a kill in between, a successor would assume that
        // nothing is lost.
        let holds = copy.is_some_and(|(_, header)| header.stamp() != 0);
        let loses = !end.durable && !holds || copy.is_none() && before != 0;
        if loses {
            self.arena.note_unheld();
        }
        let Some((slot, header)) = copy else {
            self.retire_not_durable(gauges, block);
            if let Some((slot, header)) = self.current(block) {
                self.retire(gauges, slot, &header);
            }
            return;
        };
        let stamp = if holds { self.arena.round_stamp() } else { before };
        if holds && !self.arena.is_unflushed_stamp(header.stamp()) {
            gauges.hold_on();
        }
        self.finish_copy(gauges, slot, &header, stamp);
    }

    /// Drops versions that a change of the whole block has overtaken.
    pub(super) fn retire_not_durable(&mut self, gauges: &Gauges, block: u64) {
        while let Some((slot, header)) = self.not_durable(block) {
            self.retire(gauges, slot, &header);
        }
    }

    /// Returns a version of a block that must still become durable, an older one first.
    pub(super) fn not_durable(&self, block: u64) -> Option<(u32, Header)> {
        let current = || self.current(block).filter(|(_, header)| header.state != State::Clean);
        self.shadowed(block).or_else(current)
    }
}
