//! Changes on their way past the cache: what they drop when they begin, and what they leave.

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

/// Which copies of a passing change are made.
#[derive(Clone, Copy)]
pub(crate) struct WriteThroughCopies {
    /// It is durable once it is answered: FUA, or the backing needs no flush.
    pub(crate) durable: bool,
    /// What the guard and the write mode let the cache keep.
    pub(crate) rules: Rules,
    /// Whether a copy may be kept for reading where some of it is cached ...
    pub(crate) keeps_old: bool,
    /// ... and where nothing of it is.
    pub(crate) keeps_new: bool,
    /// How many blocks may be held until they are durable.
    pub(crate) holds_max: u32,
    /// Whether blocks are held that are not kept for reading.
    pub(crate) holds_unkept: bool,
}

/// The state of a passing change that can be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct WriteThroughBegun {
    /// There is a copy of all of it.
    pub(crate) is_held: bool,
    /// Whether samplers see its blocks though none is kept.
    pub(crate) is_sampled: bool,
}

/// How a passing change ended.
#[derive(Clone, Copy)]
pub(crate) struct WriteThroughEnd {
    /// It succeeded.
    pub(crate) good: bool,
    /// See [`WriteThroughCopies`].
    pub(crate) durable: bool,
    /// See [`WriteThroughBegun`].
    pub(crate) is_sampled: bool,
}

/// What the planted bugs do that send changes past what they should wait for, or join: true with
/// them.
fn is_careless() -> bool {
    planted(Bug::BypassInFlight) || planted(Bug::AsideIgnoresDirty)
}

impl Shard {
    /// A change passes from now on: nothing else of its blocks begins until its end.
    pub(super) fn begin_write_through(&mut self, at: &Extent) {
        let (first, blocks) = blocks_of(at);
        self.write_through.begin(*at);
        self.fills.forget(first, blocks);
    }

    /// A passing change is about to be sent, of which these blocks are looked at: makes its copies,
    /// and drops what reads must not see any more.
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
        let is_aside = match candidate.admission() {
            Admission::Skip(SkipReason::NoCopy | SkipReason::Mode) => false,
            before => {
                candidate = self.follow_write(&change.at, candidate);
                before != Admission::Keep
            }
        };
        let passes = candidate.would_pollute();
        let mut is_held = true;
        for block in blocks {
            // What was cached keeps its place, however long the stream is.
            let is_kept = passes && self.is_kept(block);
            let keeps = Candidate { is_kept, ..candidate }.is_admitted();
            let has_copy = self.begin_copy(gauges, change, block, keeps, copies);
            self.hide_overwritten(&change.at, block, has_copy);
            is_held &= has_copy;
        }
        // What would have been kept, if the cache did not step aside, is seen all the same.
        let is_sampled = is_aside && !passes && matches!(change.source, Source::Data(_));
        WriteThroughBegun { is_held, is_sampled }
    }

    /// Hides the sectors of a clean copy that a change is about to overwrite. The others stay
    /// readable, and the copy keeps its place with the policy. `has_copy`: the change has a copy.
    fn hide_overwritten(&mut self, at: &Extent, block: u64, has_copy: bool) {
        // The backing may show the change before it is answered. A client that has read it there
        // must not find the copy from before here.
        let Some((slot, header)) = self.current(block) else { return };
        if header.state != State::Clean || planted(Bug::KeepBehindPass) {
            return;
        }
        let (sector, sectors, _) = share(at, block);
        let passed = if planted(Bug::ReadBesidePass) { 0 } else { bits(sector, sectors) };
        let mask = header.mask & !passed;
        let is_unflushed = self.arena.is_unflushed(&header);
        // A whole copy answers all reads, but for those under way: none sees the backing. It stays
        // until the change is answered: a successor may have to write it again.
        let stays = is_unflushed && header.mask == 0xff && !self.fills.has(block);
        if stays || mask == header.mask {
            return;
        }
        if is_unflushed && !has_copy {
            self.arena.note_unheld();
        }
        // Free between the two stores: a header's place may not change while it is published.
        self.arena.free(self.base + slot);
        self.arena.publish(self.base + slot, &Header { mask, ..header });
    }

    /// A passing change has ended, of which these blocks are looked at: those it overtook are
    /// dropped, its copies can be read. The last blocks end it. Returns whether the closing epoch
    /// lost a block that way.
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
            if end.good {
                self.overtake(gauges, change, block, end);
                if end.is_sampled {
                    self.accessed(block, 1, 1, Access::Pass);
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

    /// A pass has failed: it is not known what the backing holds of a block now. A copy must not be
    /// taken for the same, and what is written but not durable must not become one. What is still
    /// to be written settles it, and is next where a flush waits for that.
    fn doubt(&mut self, gauges: &Gauges, block: u64) {
        // Whatever the backing has of it, nothing here could write that again.
        self.arena.note_unheld();
        if let Some((slot, _)) = self.take_unanswered(block) {
            self.give_slot(slot);
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
        // Beside what is dirty it does not pass in part, nor beside a run.
        let meets = self.dirty > 0
            && (self.is_under_way(block) || !is_whole && self.not_durable(block).is_some());
        if meets {
            assert!(is_careless(), "a pass met a dirty block in part, or a run");
            return copy.into_iter().for_each(|(slot, _)| self.give_slot(slot));
        }
        // The stamp of an older copy of which a part is still not durable after this change; 0:
        // none.
        let before = match self.current(block) {
            Some((_, header)) if !(end.durable && is_whole) => self.stamp_of(&header),
            _ => 0,
        };
        // Before the old version goes: killed in between, a successor would believe that nothing is
        // lost.
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

    /// Gives up versions that a change of the whole block has overtaken.
    pub(super) fn retire_not_durable(&mut self, gauges: &Gauges, block: u64) {
        while let Some((slot, header)) = self.not_durable(block) {
            self.retire(gauges, slot, &header);
        }
    }

    /// A version of a block that is still to become durable, an older one first.
    pub(super) fn not_durable(&self, block: u64) -> Option<(u32, Header)> {
        let current = || self.current(block).filter(|(_, header)| header.state != State::Clean);
        self.shadowed(block).or_else(current)
    }
}
