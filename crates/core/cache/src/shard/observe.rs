//! Reads by the program itself, which leave no trace in policy, streams and statistics.

use super::Look;
use super::Shard;
use crate::blocks::{bits, blocks_of, share};
use block::{Buf, Extent};

impl Shard {
    /// Decides about an observer's read, and copies its held part, as [`Shard::look`] for clients.
    /// The fetch admits nothing; it is registered, so that changes mark it.
    pub(crate) fn observe(&mut self, at: &Extent, into: &Buf) -> Look {
        let (first, blocks) = blocks_of(at);
        let (mut missing, mut present): (Option<(u64, u64)>, bool) = (None, false);
        let mut is_compressed = true;
        for block in first..first + u64::from(blocks) {
            let (sector, sectors, skip) = share(at, block);
            if self.copy_marked(block, bits(sector, sectors), into, skip, sector) {
                present = true;
                continue;
            }
            missing = Some((missing.map_or(block, |(from, _)| from), block));
            let held = self.presence(block) != 0;
            present |= held;
            is_compressed &= !held && self.tier.has(block);
        }
        let Some((from, to)) = missing else { return Look::Hit };
        let span = (to - from + 1) as u32;
        if self.fills.covers(from, span).is_some() || self.fills.is_full() {
            return Look::Wait;
        }
        let mut fetch = self.begin_fetch(at, from, to, false);
        fetch.is_observed = true;
        // Of all its blocks: the decoder returns nothing but what the tier has.
        fetch.is_compressed = is_compressed;
        if present {
            self.mark_held(&fetch, from..=to);
        }
        Look::Fetch(fetch)
    }
}
