//! The rest of blocks: an admitted read that begins or ends inside a block fetches the whole block,
//! where that pays. Otherwise the next read of another part of the block would miss again.

use super::Shard;
use crate::BLOCK_SECTORS;
use crate::admission::{Candidate, Origin};
use crate::arena::State;
use crate::blocks::{bits, blocks_of, share};
use crate::bypass::balance::{Ends, Reads, completing};
use block::Extent;

/// The rules by which a read of a part of a block fetches the rest as well.
#[derive(Clone, Copy)]
pub(crate) struct RestRules {
    /// The backing has no sectors from this one on.
    pub(crate) end: u64,
    /// The prices of reads.
    pub(crate) reads: Reads,
    /// The expected number of hits of an admitted block.
    pub(crate) hits: f64,
}

impl Shard {
    /// Returns these sectors of an admitted read, whose first and last block are not held, with the
    /// sectors that make these blocks whole. None: the blocks become whole without them, or to
    /// fetch them does not pay. `read`: the properties of the read's blocks.
    pub(super) fn with_rests(
        &self,
        at: &Extent,
        rules: &RestRules,
        read: Candidate,
    ) -> Option<Extent> {
        let (first, blocks) = blocks_of(at);
        let last = first + u64::from(blocks) - 1;
        let before = self.lacks(first) & bits(0, share(at, first).0);
        let (sector, sectors, _) = share(at, last);
        let after = self.lacks(last) & !bits(0, sector + sectors);
        let block_sectors = u64::from(BLOCK_SECTORS);
        let start = match before {
            0 => at.first,
            lacking => first * block_sectors + u64::from(lacking.trailing_zeros()),
        };
        let end = match after {
            0 => at.end(),
            lacking => (last + 1) * block_sectors - u64::from(lacking.leading_zeros()),
        };
        let end = end.min(rules.end);
        let whole = Extent::new(start, (end - start) as u32);
        let (is_longer, is_earlier) = (end > at.end(), start < at.first);
        let completed =
            u32::from(is_earlier) + u32::from(is_longer && !(is_earlier && blocks == 1));
        let rest = whole.count - at.count;
        let ends = Ends { needed: at.count, rest, completed, blocks };
        let pays = rest > 0 && completing(&rules.reads, rules.hits, &ends);
        let candidate = Candidate { origin: Origin::Rest { pays }, ..read };
        candidate.is_admitted().then_some(whole)
    }

    /// Returns the sectors of a block that a fetch could add. None for a dirty block: its slot must
    /// not be changed.
    fn lacks(&self, block: u64) -> u8 {
        match self.current(block) {
            Some((_, header)) if header.state == State::Clean => !header.mask,
            Some(_) => 0,
            None => 0xff,
        }
    }
}
