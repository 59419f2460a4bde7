//! Changes on their way past the cache: what they drop when they begin, and what they leave.

use super::{Change, Keeps, Shard, Source};
use crate::BLOCK_SECTORS;
use crate::arena::{Header, State};
use crate::blocks::{bits, blocks_of, share, stretches};
use crate::dirty::gauges::Gauges;
use crate::planted::{Bug, planted};
use block::{Buf, Extent};
use lane::atomic::Ordering;
use policy::{Access, Cause, Hash, Held};

/// How a passing change ended.
#[derive(Clone, Copy)]
pub(crate) struct WriteThroughEnd {
    /// It succeeded.
    pub(crate) good: bool,
    /// Whether a copy may be kept for reading.
    pub(crate) keeps: Keeps,
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
                let (sector, sectors, _) = share(at, block);
                let passed = if planted(Bug::ReadBesidePass) { 0 } else { bits(sector, sectors) };
                let mask = header.mask & !passed;
                // Free between the two stores: a header's place may not change while it is published.
                self.arena.free(self.base + slot);
                self.arena.publish(self.base + slot, &Header { mask, ..header });
                held = true;
            }
        }
        held
    }

    /// A passing change has ended. What it overtook is dropped; a copy is kept where it may be.
    /// Returns whether the closing epoch lost a block that way.
    pub(crate) fn write_through_done(
        &mut self,
        gauges: &Gauges,
        change: &Change,
        end: WriteThroughEnd,
    ) -> bool {
        let before = gauges.remaining.load(Ordering::SeqCst);
        let (first, blocks) = blocks_of(&change.at);
        // What would have been kept, if the cache did not step aside, is seen all the same.
        let tells = matches!(end.keeps, Keeps::Bypass | Keeps::BypassAll)
            && matches!(change.source, Source::Data(_));
        let passes = end.keeps != Keeps::No && self.passes_write(&change.at);
        for block in first..first + u64::from(blocks) {
            let (sector, sectors, _) = share(&change.at, block);
            self.fills.suspect(block, bits(sector, sectors));
            if end.good {
                // What was held keeps its place, however long the stream is.
                let keep = end.keeps == Keeps::Yes && (!passes || self.is_kept(block));
                self.overtake(gauges, change, block, keep);
                if tells && !passes {
                    self.accessed(block, 1, 1, Access::Pass);
                }
            } else {
                self.doubt(gauges, block);
            }
        }
        self.write_through.end(change.at);
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
                self.retire(gauges, slot, &header);
            }
            Some((_, header)) if header.state == State::Written => self.doubtful.push(block),
            _ => {}
        }
    }

    fn overtake(&mut self, gauges: &Gauges, change: &Change, block: u64, keep: bool) {
        if planted(Bug::KeepBehindPass) {
            return;
        }
        let (sector, sectors, skip) = share(&change.at, block);
        if sectors == BLOCK_SECTORS {
            while let Some((slot, header)) = self.not_durable(block) {
                if header.state == State::Writing {
                    assert!(is_careless(), "a pass and a run on one block");
                    break;
                }
                self.retire(gauges, slot, &header);
            }
        }
        // Beside what is dirty it does not pass in part.
        if self.not_durable(block).is_some() {
            return assert!(is_careless(), "a pass met a dirty block in part");
        }
        if let Source::Data(from) = change.source
            && keep
        {
            self.keep_copy(gauges, block, from, sector, skip, sectors);
        } else if let Some((slot, header)) = self.current(block) {
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
        block: u64,
        from: &Buf,
        sector: u32,
        skip: u32,
        sectors: u32,
    ) {
        let is_held = self.current(block).is_some();
        self.accessed(block, 1, u32::from(!is_held), Access::Pass);
        let Some(slot) = self.take_slot(block) else {
            // A copy from before would be stale; it is clean, so that its own slot could have been had.
            return assert!(self.current(block).is_none(), "a stale copy stays");
        };
        let mask = if planted(Bug::WidenPassed) { 0xff } else { bits(sector, sectors) };
        self.arena.put(self.base + slot, sector, from, skip, sectors);
        // Taking the slot may have evicted what was held.
        let Some((old, header)) = self.current(block) else {
            // It is kept anyway; a policy may learn from it.
            let _ = self.policy.miss(Hash::of(block));
            return self.publish_clean(slot, block, mask, Cause::WriteThrough);
        };
        stretches(header.mask & !mask, |first, length| {
            self.arena.carry(self.base + old, self.base + slot, first, length);
        });
        if header.is_ahead() {
            self.retire(gauges, old, &header);
            return self.publish_clean(slot, block, header.mask | mask, Cause::WriteThrough);
        }
        self.used(old, &header);
        self.policy.succeed(&mut self.links, old, slot, Held::Clean);
        let hash = Hash::of(block);
        self.arena.publish(self.base + slot, &Header { mask: header.mask | mask, ..header });
        self.index.insert(hash, slot);
        self.unindex(hash, old);
        self.give_slot(old);
    }
}
