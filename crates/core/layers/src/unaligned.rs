//! The layer `unaligned`: requests that begin or end inside a block.
//!
//! It is on top of a stack, below all exports. A read of a part of a block reads the block. A
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
use alloc::sync::Arc;
use block::{Buf, Extent, Layer, Limits, Padding, Request, Result, Stack};
use core::sync::atomic::{AtomicU64, Ordering};
use lane::{Event, Lock};

/// The part that all lanes share.
pub struct UnalignedShared {
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
    pub fn new(below: &Limits) -> Arc<UnalignedShared> {
        let sectors = RANGES_MAX as u32 * 2 * below.block_sectors();
        Arc::new(UnalignedShared {
            announced: AtomicU64::new(0),
            unlisted: AtomicU64::new(0),
            ranges: Lock::new(Ranges::new()),
            changed: Event::new(),
            scratch: Buf::new(sectors, below.grain),
        })
    }

    /// Counts a change of whole blocks that takes no range. Returns false if it must take its
    /// range; it is not counted then.
    #[inline]
    fn enter(&self) -> bool {
        // Counted before the check: if a request announces itself and then reads a count of 0, no
        // change is between its count and its check.
        self.unlisted.fetch_add(1, Ordering::SeqCst);
        if self.announced.load(Ordering::SeqCst) > 0 && !planted(Bug::PassMerge) {
            self.leave();
            return false;
        }
        true
    }

    #[inline]
    fn leave(&self) {
        let last = self.unlisted.fetch_sub(1, Ordering::SeqCst) == 1;
        if last && self.announced.load(Ordering::SeqCst) > 0 {
            self.changed.notify();
        }
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
}

/// One lane's handle.
pub struct Unaligned {
    shared: Arc<UnalignedShared>,
    below: Stack,
    pub(crate) limits: Limits,
}

impl Unaligned {
    /// Creates one lane's handle on the layer, on top of `below`.
    pub fn attach(shared: &Arc<UnalignedShared>, below: Stack) -> Unaligned {
        let limits = Limits { unaligned: true, ..below.limits().clone() };
        Unaligned { shared: shared.clone(), below, limits }
    }

    pub(crate) fn now(&self) -> Since {
        Since::now(&self.below)
    }

    pub(crate) fn still_wanted(&self, since: Since) -> Result {
        since.still_wanted(&self.below)
    }

    /// Serves a request of whole blocks in the stack below. A change that arrived at `since` is
    /// refused if its client may have an error by now: checked after each wait, because a stall may
    /// begin and end during one.
    pub(crate) async fn serve_whole(&self, request: Request, since: Since) -> Result {
        let check = || if request.is_change() { self.still_wanted(since) } else { Ok(()) };
        self.below.lane().turn().await;
        check()?;
        if let Some(result) = self.below.try_now(&request) {
            return result;
        }
        self.below.lane().turn().await;
        check()?;
        self.below.run(request).await
    }

    /// Takes a range, after those that came before. `merges`: for a part of a block, which also
    /// waits for changes without a range.
    async fn take(&self, at: Extent, merges: bool, since: Since) -> Result<RangeIndex> {
        let shared = &self.shared;
        let mut index = None;
        loop {
            let seen = shared.changed.seen();
            self.below.lane().turn().await;
            let is_first = shared.ranges.with(|ranges| {
                index = index.or_else(|| ranges.add(at));
                index.is_some_and(|index| ranges.is_first(index))
            });
            if let Err(error) = self.still_wanted(since) {
                if let Some(index) = index {
                    self.release(index).await;
                }
                return Err(error);
            }
            let is_first = is_first || merges && planted(Bug::MergeBeside);
            match index {
                Some(index) if is_first && (!merges || shared.all_listed()) => return Ok(index),
                _ => shared.changed.after(seen).await,
            }
        }
    }

    async fn release(&self, index: RangeIndex) {
        self.below.lane().turn().await;
        self.shared.ranges.with(|ranges| ranges.remove(index));
        self.shared.changed.notify();
    }

    /// Serves a change of whole blocks while parts of blocks are being changed.
    async fn change_listed(&self, at: Extent, request: Request) -> Result {
        let since = self.now();
        let index = self.take(at, false, since).await?;
        let result = self.serve_whole(request, since).await;
        self.release(index).await;
        result
    }

    async fn change_part(&self, at: Extent, request: Request, padding: Padding) -> Result {
        let since = self.now();
        let index = self.take(at, true, since).await?;
        let scratch = self.shared.scratch(index);
        let result = self.merge(at, request, padding, &scratch, since).await;
        self.release(index).await;
        result
    }

    /// Separate, so that [`Layer::try_now`] is a single jump for requests that change nothing.
    #[inline(never)]
    fn try_change(&self, request: &Request) -> Option<Result> {
        if !self.shared.enter() {
            return None;
        }
        let answer = self.below.try_now(request);
        self.shared.leave();
        answer
    }
}

impl Layer for Unaligned {
    fn lower(&self) -> &Stack {
        &self.below
    }

    fn limits(&self) -> &Limits {
        &self.limits
    }

    #[inline]
    fn try_now(&self, request: &Request) -> Option<Result> {
        if request.is_change() { self.try_change(request) } else { self.below.try_now(request) }
    }

    async fn serve(&self, request: Request, padding: Padding) -> Result {
        let is_whole = padding == Padding::NONE;
        let at = match request.extent() {
            Some(at) if request.is_change() => at,
            Some(_) if !is_whole => return self.send(&request, self.now()).await,
            _ => return self.below.run(request).await,
        };
        if is_whole {
            if !self.shared.enter() {
                return self.change_listed(at, request).await;
            }
            let result = self.below.run(request).await;
            self.shared.leave();
            return result;
        }
        self.shared.announced.fetch_add(1, Ordering::SeqCst);
        let result = self.change_part(at, request, padding).await;
        self.shared.announced.fetch_sub(1, Ordering::SeqCst);
        result
    }
}
