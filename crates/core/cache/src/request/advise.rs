//! Advice: sectors that a client says it will need are fetched, like the missing part of a read.
//!
//! A fetch on advice is a read whose data is dropped. Changes mark it, other reads join it, and
//! policy and guard decide whether it is admitted. An error is returned to the client that gave the
//! advice and to no other: a read that has joined looks again and sends its own request to the
//! backing.

use crate::BLOCK_SECTORS;
use crate::admission::{Candidate, Origin};
use crate::blocks::{blocks_of, cut};
use crate::handle::{Advisers, Handle};
use crate::shard::Reader;
use block::{Buf, Extent, Result};

/// Pieces of advice that a lane follows at the same time, each with a buffer and one fetch in
/// progress.
const FOLLOWED_MAX: u32 = 4;

impl Handle {
    /// Fetches the missing part of these sectors, where it would be admitted, in reads that are
    /// small enough to be admitted.
    ///
    /// # Errors
    /// The error of the backing, or that the backing does not answer.
    pub(crate) async fn will_need(&self, at: Extent) -> Result {
        let Advisers { followed, ended } = &self.advisers;
        loop {
            let seen = ended.seen();
            if self.shared.backing.stall.is_on() {
                return Err(self.shared.backing.stall.error());
            }
            if followed.get() < FOLLOWED_MAX {
                break;
            }
            ended.after(seen).await;
        }
        followed.set(followed.get() + 1);
        let result = self.fetch_missing(at).await;
        followed.set(followed.get() - 1);
        ended.notify();
        result
    }

    async fn fetch_missing(&self, at: Extent) -> Result {
        let shared = &self.shared;
        let most = shared.settings.absorb_blocks_max().min(shared.geometry.run_blocks).max(1);
        let scratch = Buf::new(most * BLOCK_SECTORS, shared.limits.grain);
        let mut first = at.first;
        while first < at.end() {
            let count = shared.shards.stretch(first).min(cut(first, most.into()));
            let part = Extent::new(first, count.min(at.end() - first) as u32);
            first = part.end();
            match self.missing(&part).await {
                Some(missing) => {
                    let into = scratch.part(0, missing.count);
                    self.read_part(missing, &into, Reader::Adviser).await?;
                }
                None => self.lane.rest().await,
            }
        }
        Ok(())
    }

    /// Returns the part to fetch of these sectors, which lie in one region.
    async fn missing(&self, part: &Extent) -> Option<Extent> {
        let shared = &self.shared;
        let block = blocks_of(part).0;
        let rules = shared.bypass.rules(shared.settings.write());
        if !Candidate::new(rules, Origin::Ahead).is_admitted() {
            return None;
        }
        self.lane.turn().await;
        shared.shards.of(block).shard.with(|shard| shard.missing(part))
    }
}
