//! Requests that begin or end inside a block: which of them exclude each other.
//!
//! This is a part of the [top layer](crate::Top). A read of a part of a block reads the block. A
//! change of a part of a block reads the block, merges the two and writes the block
//! (read-modify-write, `merge.rs`). During that time no other change of the block may be in flight,
//! or one of the two would be lost; so changes take the ranges of the volume that they affect.
//!
//! While no part of a block is being changed, changes of whole blocks take no range and are only
//! counted. A request that changes a part of a block first announces itself; from then on all
//! changes take ranges. It then waits until all changes without a range have ended.

use crate::planted::{Bug, planted};
use crate::ranges::{RANGES_MAX, RangeIndex, Ranges};
use crate::wanted::Since;
use block::{Buf, Extent, Limits, Result, Stack};
use core::sync::atomic::{AtomicU64, Ordering};
use lane::{Event, Lane, Lock};

/// The part that all lanes share.
pub(crate) struct UnalignedShared {
    /// Number of changes of parts of blocks: while it is not 0, all changes take their ranges.
    announced: AtomicU64,
    /// Number of changes below that have not taken a range.
    unlisted: AtomicU64,
    ranges: Lock<Ranges>,
    /// Notified when a range was released, or the last change without a range has ended.
    changed: Event,
    /// Two blocks per range.
    scratch: Buf,
}

impl UnalignedShared {
    /// For a stack with these limits.
    pub(crate) fn new(below: &Limits) -> UnalignedShared {
        let sectors = RANGES_MAX as u32 * 2 * below.block_sectors();
        UnalignedShared {
            announced: AtomicU64::new(0),
            unlisted: AtomicU64::new(0),
            ranges: Lock::new(Ranges::new()),
            changed: Event::new(),
            scratch: Buf::new(sectors, below.grain),
        }
    }

    /// Counts a change of whole blocks that takes no range. Returns false if it must take its
    /// range; it is not counted then.
    #[inline]
    pub(crate) fn enter(&self) -> bool {
        // Counted before the check: a request that announces itself and then reads a count of 0 can
        // be sure that no other is between the two steps.
        self.unlisted.fetch_add(1, Ordering::SeqCst);
        if self.announced.load(Ordering::SeqCst) > 0 && !planted(Bug::PassMerge) {
            self.leave();
            return false;
        }
        true
    }

    #[inline]
    pub(crate) fn leave(&self) {
        let last = self.unlisted.fetch_sub(1, Ordering::SeqCst) == 1;
        if last && self.announced.load(Ordering::SeqCst) > 0 {
            self.changed.notify();
        }
    }

    /// Announces a change of a part of a block: from now on all changes take their ranges.
    pub(crate) fn announce(&self) {
        self.announced.fetch_add(1, Ordering::SeqCst);
    }

    /// Ends a change that was announced.
    pub(crate) fn withdraw(&self) {
        self.announced.fetch_sub(1, Ordering::SeqCst);
    }

    /// Whether all changes in flight have taken their ranges.
    fn all_listed(&self) -> bool {
        self.unlisted.load(Ordering::SeqCst) == 0 || planted(Bug::MergeAtOnce)
    }

    /// The two scratch blocks of a range.
    pub(crate) fn scratch(&self, index: RangeIndex) -> Buf {
        let sectors = self.scratch.sectors() / RANGES_MAX as u32;
        self.scratch.part(index as u32 * sectors, sectors)
    }

    /// Takes a range, after those that came before. `merges`: for a part of a block, which also
    /// waits for changes without a range.
    pub(crate) async fn take(
        &self,
        below: &Stack,
        at: Extent,
        merges: bool,
        since: Since,
    ) -> Result<RangeIndex> {
        let mut index = None;
        loop {
            let seen = self.changed.seen();
            below.lane().turn().await;
            let is_first = self.ranges.with(|ranges| {
                index = index.or_else(|| ranges.add(at));
                index.is_some_and(|index| ranges.is_first(index))
            });
            if let Err(error) = since.still_wanted(below) {
                if let Some(index) = index {
                    self.give(below.lane(), index).await;
                }
                return Err(error);
            }
            let is_first = is_first || merges && planted(Bug::MergeBeside);
            match index {
                Some(index) if is_first && (!merges || self.all_listed()) => return Ok(index),
                _ => self.changed.after(seen).await,
            }
        }
    }

    /// Releases a range.
    pub(crate) async fn give(&self, lane: &Lane, index: RangeIndex) {
        lane.turn().await;
        self.ranges.with(|ranges| ranges.remove(index));
        self.changed.notify();
    }
}
