//! Changes on their way past the cache: what they drop when they begin, and what they leave.

use super::{Change, Keeps, Shard, Source};
use crate::BLOCK_SECTORS;
use crate::arena::{Clean, Header, State};
use crate::blocks::{bits, blocks_of, share, stretches};
use crate::dirty::gauges::Gauges;
use crate::planted::{Bug, planted};
use crate::shard::held_copies::Copy;
use block::{Buf, Extent};
use core::ops::Range;
use lane::atomic::Ordering;
use policy::{Access, Hash, Held};

/// How a passing change ended.
#[derive(Clone, Copy)]
pub(crate) struct WriteThroughEnd {
    /// It succeeded.
    pub(crate) good: bool,
    /// It is durable by itself: FUA, or the backing needs no flush.
    pub(crate) durable: bool,
    /// Whether a copy may be kept for reading.
    pub(crate) keeps: Keeps,
    /// How many blocks may be held until they are durable.
    pub(crate) holds_max: u32,
    /// Whether blocks are held that are not kept for reading.
    pub(crate) copies: bool,
}

/// What the planted bugs do that send changes past what they should wait for, or join: true with them.
fn is_careless() -> bool {
    planted(Bug::BypassInFlight) || planted(Bug::AsideIgnoresDirty)
}

impl Shard {
    /// Returns whether a copy of any of it was held. The sectors of it that the change does not touch stay readable, and
    /// the copy keeps its place with the policy.
    pub(super) fn begin_write_through(&mut self, at: &Extent) -> bool {
        let (first, blocks) = blocks_of(at);
        let mut held = false;
        self.write_through.begin(*at);
        self.fills.forget(first, blocks);
        for block in first..first + u64::from(blocks) {
            // The backing may show the change before it is answered. A client that has read it there must
            // not find the copy from before here.
            if let Some((slot, header)) = self.current(block)
                && header.state == State::Clean
                && !planted(Bug::KeepBehindPass)
            {
                held = true;
                let (sector, sectors, _) = share(at, block);
                let passed = if planted(Bug::ReadBesidePass) { 0 } else { bits(sector, sectors) };
                if self.arena.is_unflushed(&header) {
                    // A whole copy answers all reads, but for those under way: none sees the
                    // backing. It stays until the change is answered: a successor may have to write
                    // it again.
                    if header.mask == 0xff && !self.fills.has(block) {
                        continue;
                    }
                    if header.mask & passed != 0 {
                        self.arena.note_unheld();
                    }
                }
                let mask = header.mask & !passed;
                if mask == header.mask {
                    continue;
                }
                // Free between the two stores: a header's place may not change while it is published.
                self.arena.free(self.base + slot);
                self.arena.publish(self.base + slot, &Header { mask, ..header });
            }
        }
        held
    }

    /// A passing change has ended, of which these blocks are looked at: those it overtook are
    /// dropped, copies are kept where they may be. The last blocks end it. Returns whether the
    /// closing epoch lost a block that way.
    pub(crate) fn write_through_done(
        &mut self,
        gauges: &Gauges,
        change: &Change,
        blocks: Range<u64>,
        end: WriteThroughEnd,
    ) -> bool {
        let before = gauges.remaining.load(Ordering::SeqCst);
        // What would have been kept, if the cache did not step aside, is seen all the same.
        let tells = matches!(end.keeps, Keeps::Bypass | Keeps::BypassAll)
            && matches!(change.source, Source::Data(_));
        let passes = end.keeps != Keeps::No && self.passes_write(&change.at);
        let (first, all) = blocks_of(&change.at);
        let is_last = blocks.end == first + u64::from(all);
        for block in blocks {
            let (sector, sectors, _) = share(&change.at, block);
            self.fills.suspect(block, bits(sector, sectors));
            if end.good {
                // What was held keeps its place, however long the stream is.
                let keeps = end.keeps == Keeps::Yes && (!passes || self.is_kept(block));
                self.overtake(gauges, change, block, keeps, end);
                if tells && !passes {
                    self.accessed(block, 1, 1, Access::Pass);
                }
            } else {
                self.doubt(gauges, block);
            }
        }
        if is_last {
            self.write_through.end(change.at);
        }
        gauges.remaining.load(Ordering::SeqCst) != before
    }

    /// A pass has failed: it is not known what the backing holds of a block now. A copy must not be
    /// taken for the same, and what is written but not durable must not become one. What is still
    /// to be written settles it, and is next where a flush waits for that.
    fn doubt(&mut self, gauges: &Gauges, block: u64) {
        if self.is_due(block) {
            self.write_through.owe(block);
        }
        match self.current(block) {
            Some((slot, header)) if header.state == State::Clean => {
                self.note_lost_copy(&header);
                self.retire(gauges, slot, &header);
            }
            Some((_, header)) if header.state == State::Written => self.doubtful.push(block),
            _ => {}
        }
    }

    fn overtake(
        &mut self,
        gauges: &Gauges,
        change: &Change,
        block: u64,
        keeps: bool,
        end: WriteThroughEnd,
    ) {
        if planted(Bug::KeepBehindPass) {
            return;
        }
        let is_whole = share(&change.at, block).1 == BLOCK_SECTORS;
        // Beside what is dirty it does not pass in part, nor beside a run.
        let meets = self.dirty > 0
            && (self.is_under_way(block) || !is_whole && self.not_durable(block).is_some());
        if meets {
            return assert!(is_careless(), "a pass met a dirty block in part, or a run");
        }
        // The stamp of an older copy of which a part is still not durable after this change; 0:
        // none.
        let before = match self.current(block) {
            Some((_, header)) if !(end.durable && is_whole) => self.stamp_of(&header),
            _ => 0,
        };
        let copies = keeps || end.copies;
        let holds = !end.durable && copies && (before != 0 || gauges.hold(end.holds_max));
        let stamp = if holds { self.arena.round_stamp() } else { before };
        let copy = if keeps { Some(Copy::Kept) } else { holds.then_some(Copy::Held) };
        if let (Source::Data(from), Some(copy)) = (change.source, copy) {
            if !end.durable && !holds {
                self.arena.note_unheld();
            }
            return self.keep_copy(gauges, change, block, from, copy, stamp);
        }
        // First: killed in between, a successor would believe that nothing is lost.
        if !end.durable || before != 0 {
            self.arena.note_unheld();
        }
        self.retire_not_durable(gauges, block);
        if let Some((slot, header)) = self.current(block) {
            self.retire(gauges, slot, &header);
        }
    }

    /// Gives up versions that a change of the whole block has overtaken.
    fn retire_not_durable(&mut self, gauges: &Gauges, block: u64) {
        while let Some((slot, header)) = self.not_durable(block) {
            self.retire(gauges, slot, &header);
        }
    }

    /// A version of a block that is still to become durable, an older one first.
    fn not_durable(&self, block: u64) -> Option<(u32, Header)> {
        let current = || self.current(block).filter(|(_, header)| header.state != State::Clean);
        self.shadowed(block).or_else(current)
    }

    /// Keeps sectors of a block that have gone past, beside what is held of the rest.
    fn keep_copy(
        &mut self,
        gauges: &Gauges,
        change: &Change,
        block: u64,
        from: &Buf,
        copy: Copy,
        stamp: u32,
    ) {
        let (sector, sectors, skip) = share(&change.at, block);
        let is_overtaking = self.dirty > 0 && self.not_durable(block).is_some();
        let is_held = !is_overtaking && self.current(block).is_some();
        if copy == Copy::Kept {
            self.accessed(block, 1, u32::from(!is_held), Access::Pass);
        }
        let Some(slot) = self.take_slot(block) else {
            if stamp != 0 {
                self.arena.note_unheld();
            }
            self.retire_not_durable(gauges, block);
            // A copy from before would be stale; it is clean, so that its own slot could have been had.
            return assert!(self.current(block).is_none(), "a stale copy stays");
        };
        let mask = if planted(Bug::WidenPassed) { 0xff } else { bits(sector, sectors) };
        self.arena.put(self.base + slot, sector, from, skip, sectors);
        if is_overtaking {
            // Published before the older versions go: killed in between, a successor finds one.
            let header = Header::of_copy(block, mask, Clean::Kept, stamp);
            self.arena.publish(self.base + slot, &header);
            self.retire_not_durable(gauges, block);
        }
        // Taking the slot may have evicted what was held.
        let Some((old, header)) = self.current(block) else {
            return self.publish_copy(slot, block, mask, stamp, copy);
        };
        stretches(header.mask & !mask, |first, length| {
            self.arena.carry(self.base + old, self.base + slot, first, length);
        });
        let mask = header.mask | mask;
        if header.is_ahead() {
            self.unlink_ahead(old, &header);
            // Published before the old copy goes: that may be held for an earlier change.
            self.publish_copy(slot, block, mask, stamp, copy);
            self.unindex(Hash::of(block), old);
            return self.give_slot(old);
        }
        // It keeps its place with the policy.
        self.used(old, &header);
        self.policy.succeed(&mut self.links, old, slot, Held::Clean);
        let hash = Hash::of(block);
        let header = Header { mask, sequence: u64::from(stamp) << 2, ..header };
        self.arena.publish(self.base + slot, &header);
        self.index.insert(hash, slot);
        self.unindex(hash, old);
        self.give_slot(old);
    }
}
