//! Changes on their way past the cache: what they drop when they begin, and what they leave.

use super::{Change, Shard, Source};
use crate::BLOCK_SECTORS;
use crate::arena::State;
use crate::blocks::{bits, blocks_of, share};
use crate::dirty::gauges::Gauges;
use crate::planted::{Bug, planted};
use block::Extent;
use lane::atomic::Ordering;
use policy::Cause;

/// How a passing change ended.
#[derive(Clone, Copy)]
pub(crate) struct WriteThroughEnd {
    /// It succeeded.
    pub(crate) good: bool,
    /// A copy may be kept for reading.
    pub(crate) keep: bool,
}

/// What the planted bugs do that send changes past what they should wait for, or join: true with them.
fn is_careless() -> bool {
    planted(Bug::BypassInFlight) || planted(Bug::AsideIgnoresDirty)
}

impl Shard {
    /// Returns whether a copy of any of it was held.
    pub(super) fn begin_write_through(&mut self, gauges: &Gauges, at: &Extent) -> bool {
        let (first, blocks) = blocks_of(at);
        let mut held = false;
        self.write_through.begin(*at);
        self.fills.forget(first, blocks);
        for block in first..first + u64::from(blocks) {
            // The backing may show the change before it is answered. A client that has read it there must
            // not find the copy from before here, nor one half of a block here and one there.
            if let Some((slot, header)) = self.current(block)
                && header.state == State::Clean
                && !planted(Bug::KeepBehindPass)
            {
                self.retire(gauges, slot, &header);
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
        for block in first..first + u64::from(blocks) {
            let (sector, sectors, _) = share(&change.at, block);
            self.fills.suspect(block, bits(sector, sectors));
            if end.good {
                self.overtake(gauges, change, block, end.keep);
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
            while let Some((slot, header)) = self.shadowed(block).or_else(|| self.current(block)) {
                if header.state == State::Writing {
                    assert!(is_careless(), "a pass and a run on one block");
                    break;
                }
                self.retire(gauges, slot, &header);
            }
        }
        // Of what it has changed in part nothing is held: what was clean has gone when it began, beside
        // what is dirty it does not pass, and what is fetched meanwhile is not kept.
        let is_held = self.current(block).is_some();
        assert!(!is_held || is_careless(), "a pass met a dirty block in part");
        if let Source::Data(from) = change.source
            && keep
            && !is_held
            && let Some(slot) = self.take_slot(block)
        {
            self.arena.put(self.base + slot, sector, from, skip, sectors);
            self.publish_clean(slot, block, bits(sector, sectors), Cause::WriteThrough);
        }
    }
}
