//! The status of a volume's blocks, without reading them (C14).
//!
//! The cache checks its own blocks first, and queries the backing for the rest afterwards. In the
//! other order, data could be missed: the backing is queried while a block is still dirty here and
//! zero there; then the block is written back and becomes clean, and the check here finds nothing
//! that decides. In this order, a block that is undecided here is on the backing at that moment,
//! and the backing's later answer describes that block, or a newer write of a client.

use crate::backing::in_flight::RequestKind;
use crate::blocks::{blocks_of, share};
use crate::handle::Handle;
use crate::planted::{Bug, planted};
use crate::shard::Known;
use alloc::vec::Vec;
use block::{Extent, Result, Stretch};
use core::future::poll_fn;
use core::pin::Pin;
use core::task::Poll;

/// Blocks that are looked up in one section.
const SLICE: u64 = 256;
/// Maximum number of blocks that one answer covers: longer answers end early, and the client asks
/// again for the rest.
const BLOCKS_MAX: u64 = 16_384;

/// Sectors that have the same status, as far as the cache can decide.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Part {
    known: Known,
    sectors: u64,
}

impl Handle {
    /// See `Block::status`.
    pub(crate) async fn status(&self, at: Extent) -> Result<Vec<Stretch>> {
        let most = BLOCKS_MAX * u64::from(crate::BLOCK_SECTORS);
        let at = Extent::new(at.first, u64::from(at.count).min(most) as u32);
        let early = match planted(Bug::StatusBelowFirst) {
            true => Some(self.status_below(at).await?),
            false => None,
        };
        let parts = self.look_over(&at).await;
        let mut stretches = Vec::new();
        let mut first = at.first;
        for Part { known, sectors } in parts {
            let part = Extent::new(first, sectors as u32);
            first += sectors;
            match (known, &early) {
                (Known::Data, _) => Stretch::push(&mut stretches, Stretch::data(sectors)),
                (Known::Zeros { may_unmap: hole }, _) => {
                    Stretch::push(&mut stretches, Stretch { sectors, hole, zero: true });
                }
                (Known::Nothing, None) => {
                    for stretch in self.status_below(part).await? {
                        Stretch::push(&mut stretches, stretch);
                    }
                }
                (Known::Nothing, Some(early)) => {
                    clip(early, part.first - at.first, sectors, &mut stretches);
                }
            }
        }
        Ok(stretches)
    }

    /// Returns the status that the cache can decide alone, block by block, in stretches that cover
    /// `at`.
    async fn look_over(&self, at: &Extent) -> Vec<Part> {
        let mut parts: Vec<Part> = Vec::new();
        let mut push = |known: Known, sectors: u64| match parts.last_mut() {
            Some(last) if last.known == known => last.sectors += sectors,
            _ => parts.push(Part { known, sectors }),
        };
        let mut first = at.first;
        while first < at.end() {
            // One shard at a time, in short sections.
            let slice = SLICE * u64::from(crate::BLOCK_SECTORS);
            let count = self.shared.shards.stretch(first).min(slice).min(at.end() - first) as u32;
            let part = Extent::new(first, count);
            let (block, blocks) = blocks_of(&part);
            self.lane.turn().await;
            self.shared.shards.of(block).shard.with(|shard| {
                if shard.knows_nothing() {
                    return push(Known::Nothing, u64::from(count));
                }
                for block in block..block + u64::from(blocks) {
                    push(shard.known(block), u64::from(share(&part, block).1));
                }
            });
            first = part.end();
            if first < at.end() && blocks > 1 {
                self.lane.rest().await;
            }
        }
        parts
    }

    /// Returns the backing's status of exactly these sectors. While the backing hangs, they are
    /// reported as data.
    async fn status_below(&self, at: Extent) -> Result<Vec<Stretch>> {
        let mut stretches = Vec::new();
        let mut first = at.first;
        while first < at.end() {
            let rest = Extent::new(first, (at.end() - first) as u32);
            let Some(answer) = self.query_status(rest).await else {
                Stretch::push(&mut stretches, Stretch::data(rest.count));
                break;
            };
            let answer = answer?;
            let covered = answer.iter().map(|stretch| stretch.sectors).sum::<u64>();
            let covered = covered.min(u64::from(rest.count));
            if covered == 0 {
                Stretch::push(&mut stretches, Stretch::data(rest.count));
                break;
            }
            clip(&answer, 0, covered, &mut stretches);
            first += covered;
        }
        Ok(stretches)
    }

    /// Queries the backing once. Returns None if it does not answer.
    async fn query_status(&self, at: Extent) -> Option<Result<Vec<Stretch>>> {
        let stall = self.shared.backing.stall.clone();
        if stall.is_on() {
            return None;
        }
        let (below, shared) = (self.below.clone(), self.shared.clone());
        let mut running = self.lane.pin(async move {
            let sent = shared.backing.in_flight.note_sent(RequestKind::Read);
            let result = below.status(at).await;
            shared.backing.in_flight.note_answered(sent);
            if result.is_err() {
                shared.backing.health.count_read_error();
            }
            result
        });
        let answer = poll_fn(|context| match Pin::new(&mut running).poll(context) {
            Poll::Pending if stall.is_on() => Poll::Ready(None),
            running => running.map(Some),
        })
        .await;
        if answer.is_none() {
            // If the lane has no room for the task, the request is dropped and the watchdog no
            // longer tracks it: nothing waits for it.
            let left_behind = async move { _ = running.await };
            let _ = self.lane.spawn(left_behind);
        }
        answer
    }
}

/// Appends `sectors` sectors of a list, starting at sector `skip`.
fn clip(list: &[Stretch], skip: u64, sectors: u64, into: &mut Vec<Stretch>) {
    let (mut at, end) = (0, skip + sectors);
    for stretch in list {
        let from = at.max(skip);
        at += stretch.sectors;
        let to = at.min(end);
        if from < to {
            Stretch::push(into, stretch.resized(to - from));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    #[test]
    fn lists_are_clipped_on_both_sides() {
        let hole = Stretch { sectors: 8, hole: true, zero: true };
        let list = [Stretch::data(8u32), hole, Stretch::data(4u32)];
        let mut clipped = vec![Stretch::data(1u32)];
        clip(&list, 6, 12, &mut clipped);
        assert_eq!(clipped, [Stretch::data(3u32), hole, Stretch::data(2u32)]);
        clip(&list, 8, 3, &mut clipped);
        assert_eq!(clipped.last(), Some(&hole.resized(3)));
        clip(&list, 8, 0, &mut clipped);
        assert_eq!(clipped.len(), 4);
    }
}
