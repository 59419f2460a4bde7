//! Read-modify-write: a change that covers its first and last block only in part, and the changes
//! of whole blocks that meet one.
//!
//! In a merge, all reads precede all writes, so that a failed read changes nothing.

use crate::planted::{Bug, planted};
use crate::top::Top;
use crate::wanted::Since;
use block::{Buf, Discard, Extent, Limits, Padding, Request, Result};
use core::ops::Range;

/// A block that is changed in part.
struct Edge {
    at: Extent,
    /// A copy of the block.
    block: Buf,
    /// The bytes that are changed.
    own: Range<usize>,
}

impl Edge {
    /// Completes the block at byte `offset` of `buffer`, except for the changed bytes.
    fn pad(&self, buffer: &Buf, offset: usize) {
        let (own, end) = (&self.own, self.block.bytes());
        buffer.copy_bytes_from(offset, &self.block, 0, own.start);
        buffer.copy_bytes_from(offset + own.end, &self.block, own.end, end - own.end);
    }
}

/// Returns the blocks of `at` that are changed in part; `scratch` has room for two.
fn edges(limits: &Limits, at: Extent, padding: Padding, scratch: &Buf) -> [Option<Edge>; 2] {
    let (sectors, bytes) = (limits.block_sectors(), limits.block_bytes() as usize);
    let (head, tail) = (padding.head as usize, padding.tail as usize);
    let one_block = at.count == sectors;
    let first = Edge {
        at: Extent::new(at.first, sectors),
        block: scratch.part(0, sectors),
        own: head..if one_block { bytes - tail } else { bytes },
    };
    let last = Edge {
        at: Extent::new(at.end() - u64::from(sectors), sectors),
        block: scratch.part(sectors, sectors),
        own: 0..bytes - tail,
    };
    let in_part = |edge: &Edge| edge.own != (0..bytes);
    [Some(first).filter(in_part), Some(last).filter(|edge| !one_block && in_part(edge))]
}

/// Returns the blocks of `at` that are changed completely, if there are any.
fn inner(at: Extent, edges: &[Option<Edge>; 2]) -> Option<Extent> {
    let [head, tail] = edges.each_ref().map(|edge| edge.as_ref().map_or(0, |edge| edge.at.count));
    let count = at.count.checked_sub(head + tail).filter(|count| *count > 0)?;
    Some(Extent::new(at.first + u64::from(head), count))
}

/// Returns `count` sectors of a request, from its sector `first` on.
fn piece(request: &Request, first: u32, count: u32) -> Request {
    let part = |at: &Extent| Extent::new(at.first + u64::from(first), count);
    match request {
        Request::Read { at, into } => Request::Read { at: part(at), into: into.part(first, count) },
        Request::Write { at, from, fua } => {
            Request::Write { at: part(at), from: from.part(first, count), fua: *fua }
        }
        other => other.clone(),
    }
}

impl Top {
    /// Serves a change of whole blocks while parts of blocks are being changed.
    pub(crate) async fn change_in_turn(&self, at: Extent, request: Request) -> Result {
        let (unaligned, since) = (&self.shared.unaligned, Since::now(&self.below));
        let place = unaligned.take(&self.below, at, false, since).await?;
        let result = self.serve_whole(request, since).await;
        unaligned.give(self.below.lane(), place).await;
        result
    }

    /// Serves a change of a part of its first or last block.
    pub(crate) async fn change_part(
        &self,
        at: Extent,
        request: Request,
        padding: Padding,
    ) -> Result {
        let unaligned = &self.shared.unaligned;
        unaligned.announce();
        let result = self.change_announced(at, request, padding).await;
        unaligned.withdraw();
        result
    }

    async fn change_announced(&self, at: Extent, request: Request, padding: Padding) -> Result {
        let (unaligned, since) = (&self.shared.unaligned, Since::now(&self.below));
        let place = unaligned.take(&self.below, at, true, since).await?;
        let scratch = unaligned.scratch(place);
        let result = self.merge(at, request, padding, &scratch, since).await;
        unaligned.give(self.below.lane(), place).await;
        result
    }

    /// Serves a request of whole blocks in the stack below. A change that arrived at `since` is
    /// refused if its client may have an error by now: checked after each wait, because a stall may
    /// begin and end during one.
    async fn serve_whole(&self, request: Request, since: Since) -> Result {
        let is_change = request.is_change();
        let check = || if is_change { since.still_wanted(&self.below) } else { Ok(()) };
        self.below.lane().turn().await;
        check()?;
        if let Some(result) = self.try_below(&request) {
            return result;
        }
        self.below.lane().turn().await;
        check()?;
        self.serve_below(request).await
    }

    /// Changes a range that was taken before.
    async fn merge(
        &self,
        at: Extent,
        mut request: Request,
        padding: Padding,
        scratch: &Buf,
        since: Since,
    ) -> Result {
        if let Request::Write { fua, .. } | Request::Zero { fua, .. } = &mut request {
            *fua &= !planted(Bug::MergeWithoutFua);
        }
        let mut edges = edges(&self.limits, at, padding, scratch);
        let ignored = self.limits.discard == Discard::Ignored;
        let inner = inner(at, &edges);
        if matches!(request, Request::Discard { .. }) && ignored {
            // If the device ignores discards, partial blocks stay unchanged too.
            edges = [None, None];
        }
        for edge in edges.iter().flatten() {
            let read = Request::Read { at: edge.at, into: edge.block.clone() };
            let result = self.serve_whole(read, since).await;
            if !planted(Bug::MergeFailedRead) {
                result?;
            }
        }
        let fua = match &request {
            Request::Write { from, .. } => {
                for edge in edges.iter().flatten() {
                    let sectors = (edge.at.first - at.first) as usize;
                    edge.pad(from, sectors * self.limits.grain as usize);
                }
                return self.send(&request, since).await;
            }
            Request::Zero { fua, .. } => *fua,
            _ => false,
        };
        for edge in edges.iter().flatten() {
            edge.block.zero_bytes(edge.own.start, edge.own.len());
            let write = Request::Write { at: edge.at, from: edge.block.clone(), fua };
            self.send(&write, since).await?;
        }
        match (request, inner) {
            (Request::Discard { .. }, Some(at)) => self.send(&Request::Discard { at }, since).await,
            (Request::Zero { may_unmap, .. }, Some(at)) => {
                self.send(&Request::Zero { at, fua, may_unmap }, since).await
            }
            _ => Ok(()),
        }
    }

    /// Sends a request of whole blocks in pieces within the device's limits.
    pub(crate) async fn send(&self, request: &Request, since: Since) -> Result {
        let count = request.extent().map_or(0, |at| at.count);
        let blocks = self.limits.io_max_bytes / self.limits.block_logical_bytes;
        let most = match request {
            Request::Read { .. } | Request::Write { .. } => blocks * self.limits.block_sectors(),
            _ => count,
        };
        let mut done = 0;
        while done < count {
            let next = most.min(count - done);
            self.serve_whole(piece(request, done, next), since).await?;
            done += next;
        }
        Ok(())
    }
}
