//! A member's journal after an interruption.

use crate::format::Head;
use crate::layout::Layout;
use crate::slots::Slots;
use alloc::vec;
use alloc::vec::Vec;
use block::{Result, Stack};

/// A member's journal: the headers of its blocks by position, and its valid part.
pub(crate) struct Journal {
    heads: Vec<Option<Head>>,
    /// The first block that is needed, and the last block that follows it without a gap.
    pub(crate) chain: Option<(u64, Head)>,
    /// The highest life of all blocks.
    pub(crate) life: u32,
}

impl Journal {
    /// Reads the journal of the member `number`.
    pub(crate) async fn scan(
        member: &Stack,
        number: usize,
        pool: u128,
        layout: &Layout,
    ) -> Result<Journal> {
        let mut heads = vec![None; layout.journal as usize];
        let note = |slot: u32, bytes: &[u8]| {
            let position = slot - 1;
            heads[position as usize] = Head::decode(bytes, pool, position, layout);
            true
        };
        Slots::of(member).read(1, layout.journal, note).await?;
        Ok(Journal::of(heads, number))
    }

    fn of(heads: Vec<Option<Head>>, number: usize) -> Journal {
        let newest = heads.iter().flatten().max_by_key(|head| (head.life, head.sequence)).copied();
        let mut journal = Journal { heads, chain: None, life: newest.map_or(0, |head| head.life) };
        // A member whose newest block marks it absent was being rewritten completely.
        let newest = newest.filter(|newest| newest.absent >> number & 1 == 0);
        journal.chain = newest.and_then(|newest| journal.follow(newest.tail));
        journal
    }

    fn at(&self, sequence: u64) -> Option<&Head> {
        let head = self.heads[(sequence % self.heads.len() as u64) as usize].as_ref();
        head.filter(|head| head.sequence == sequence)
    }

    /// Returns the range from block `first` to the last block that follows it without a gap. Blocks
    /// after a gap were never acknowledged.
    fn follow(&self, first: u64) -> Option<(u64, Head)> {
        let mut last = *self.at(first)?;
        while let Some(next) = self.at(last.sequence + 1).filter(|next| last.is_followed_by(next)) {
            last = *next;
        }
        Some((first, last))
    }

    /// Whether `end`, the end of another member's chain, is a block of this member, or the block
    /// just before its first: earlier changes are in the map pages of all members.
    pub(crate) fn contains(&self, end: &Head) -> bool {
        let Some((first, last)) = self.chain else { return false };
        if end.sequence + 1 == first {
            return self.at(first).is_some_and(|head| head.previous == end.sum);
        }
        let inside = (first..=last.sequence).contains(&end.sequence);
        inside && self.at(end.sequence).is_some_and(|head| head.sum == end.sum)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(sequence: u64, life: u32, previous: u64, tail: u64) -> Head {
        let sum = sequence * 1000 + u64::from(life);
        Head { life, sequence, tail, previous, absent: 0, count: 0, sum }
    }

    fn journal(blocks: &[Head]) -> Journal {
        let mut heads = vec![None; 16];
        blocks.iter().for_each(|block| heads[(block.sequence % 16) as usize] = Some(*block));
        Journal::of(heads, 3)
    }

    #[test]
    fn a_chain_ends_at_a_gap_and_at_what_an_earlier_life_has_left() {
        let (a, b) = (head(20, 1, 0, 20), head(21, 1, 20_001, 20));
        let behind_gap = head(23, 1, 22_001, 20);
        let torn = journal(&[a, b, behind_gap]);
        assert_eq!(torn.chain, Some((20, b)));
        let again = head(22, 2, 21_001, 22);
        let gone_on = journal(&[a, b, again, behind_gap]);
        assert_eq!(gone_on.chain, Some((22, again)), "23 follows on another 22");
        assert!(torn.contains(&a) && !torn.contains(&behind_gap));
        assert!(gone_on.contains(&b) && !gone_on.contains(&a), "right before it, and earlier");
        let unlike = Head { sum: 9, ..b };
        assert!(!gone_on.contains(&unlike), "it did not go on from there");
        let renewed = Head { absent: 1 << 3, ..head(30, 3, 0, 30) };
        assert_eq!(journal(&[a, b, again, renewed]).chain, None, "it was being renewed");
        assert_eq!(journal(&[]).chain, None);
        assert_eq!(journal(&[behind_gap]).chain, None, "its tail is not there");
    }
}
