//! What is fetched ahead of a stream: from the moment it is asked for until it is read, or given
//! up.
//!
//! ```text
//!   begin_readahead --> fetch --> unread --- read ---> the policy's, as if it had been fetched for that read
//!                         |         |  '---- read ---> passed, where the stream is too long to be kept
//!                  changed meanwhile|                     |
//!                         |         | too many, too old   | the first to be given up
//!                         v         v                     v
//!                       (not kept)            free
//! ```
//!
//! It takes the place of nothing hotter: unread and passed blocks together have a part of the
//! shard's slots, and beyond that replace each other.

use super::Shard;
use crate::BLOCK_SECTORS;
use crate::admission::{Candidate, Origin, Rules};
use crate::arena::{Clean, Header, State};
use crate::blocks::blocks_of;
use crate::dirty::gauges::Gauges;
use crate::planted::{Bug, planted};
use crate::shard::Fetch;
use crate::slots::bits::Bits;
use block::{Buf, Extent};
use core::ops::Range;
use policy::{Cause, Hash, List, NIL};

/// Of so many slots, one may hold what is fetched ahead, of one stream or two ...
const SLOTS_ONE_IN: u32 = 4;
/// ... and one of so many, where the volume has as much of it as it may.
const SHARE_ONE_IN: u32 = 8;
/// Blocks that were passed last stay while others can be had: requests that end inside blocks come
/// back to them.
const PASSED_MIN: u32 = 8;
/// What is unread makes room for what is to be fetched ahead when so many times as much as is
/// unread was asked for since it came. Where streams go on alike, each block is read before as much
/// again has been asked for.
const OLD: u64 = 4;

/// What begins with a piece.
pub(crate) enum Begin {
    /// Blocks of it are to be fetched.
    Fetch(Fetch),
    /// Nothing: what may be fetched of it is held, or is being fetched.
    Nothing,
    /// Nothing: there is no room for it.
    Full,
}

/// The slots of a shard that hold what was fetched ahead.
pub(super) struct Ahead {
    /// Not read yet, the oldest first.
    pub(super) unread: List,
    /// Read by a stream that is not kept, the oldest first.
    pub(super) passed: List,
    /// Blocks that are being fetched.
    coming: u32,
    /// Blocks that were evicted, asked for ahead whether there was room or not, or read and not
    /// kept: what is unread grows old by it.
    pub(super) clock: u64,
    /// The dirty slots of streams of writes that are too long to be kept.
    passing: Bits,
    /// What the request has found that is being looked at.
    found: FoundAhead,
}

/// What a request has found that was fetched ahead of it.
#[derive(Clone, Copy, Default)]
pub(super) struct FoundAhead {
    /// Blocks that were read for the first time by it.
    pub(super) blocks: u32,
    /// Those of them that are kept from now on.
    pub(super) kept: u32,
    /// Some belong to a stream that is not kept.
    pub(super) passing: bool,
}

impl Ahead {
    pub(super) fn new(slots: u32) -> Ahead {
        Ahead {
            unread: List::EMPTY,
            passed: List::EMPTY,
            coming: 0,
            clock: 0,
            passing: Bits::new(slots),
            found: FoundAhead::default(),
        }
    }

    /// Whether a dirty slot belongs to a stream that is too long to be kept.
    pub(super) fn is_passing(&self, slot: u32) -> bool {
        self.passing.get(slot)
    }

    /// The same is so from now on, or is not.
    pub(super) fn set_passing(&mut self, slot: u32, to: bool) {
        self.passing.set(slot, to);
    }

    /// Slots that hold what was fetched ahead: all of them can be had.
    pub(super) fn slots(&self) -> u32 {
        self.unread.length + self.passed.length
    }

    /// Blocks that were fetched ahead, or are being, and were not read yet.
    pub(super) fn unread_or_coming(&self) -> u32 {
        self.unread.length + self.coming
    }

    /// The shard has evicted a block.
    pub(super) fn evicted(&mut self) {
        self.clock += 1;
    }

    /// The lists, each with what a header in it may say.
    pub(super) fn lists(&self) -> [(&List, &'static [Clean]); 2] {
        [(&self.unread, &[Clean::Unread, Clean::UnreadPassing]), (&self.passed, &[Clean::Passed])]
    }

    /// Whether the request that is looked at has found anything that was fetched ahead.
    #[inline]
    pub(super) fn has_found(&self) -> bool {
        self.found.passing | (self.found.blocks > 0)
    }

    /// What the request has found that was looked at.
    #[inline]
    pub(super) fn take_found(&mut self) -> FoundAhead {
        core::mem::take(&mut self.found)
    }
}

impl Shard {
    /// Begins to fetch blocks of a piece, which lies in one region and is not longer than a run:
    /// the first ones that are missing together. A fetch of this is as any other: changes mark it,
    /// reads may join it.
    pub(crate) fn begin_readahead(&mut self, at: &Extent) -> Begin {
        // The other half is for what clients wait for.
        if self.fills.free() * 2 <= self.fills.most() {
            return Begin::Full;
        }
        let (first, blocks) = blocks_of(at);
        let is_missing = |block: &u64| self.is_missing(*block) && !self.fills.has(*block);
        let mut all = first..first + u64::from(blocks);
        let Some(from) = all.find(is_missing) else { return Begin::Nothing };
        let to = all.take_while(is_missing).last().unwrap_or(from);
        let span = (to - from + 1) as u32;
        if self.write_through.meet(from, span) {
            return Begin::Nothing;
        }
        self.ahead.clock += u64::from(span);
        if !self.make_room(span) {
            return Begin::Full;
        }
        self.ahead.coming += span;
        let sectors = u64::from(BLOCK_SECTORS);
        let at = Extent::new(from * sectors, span * BLOCK_SECTORS);
        self.streams.will_be_unread(span);
        self.counters.readahead_issued += u64::from(span);
        Begin::Fetch(Fetch { id: self.fills.begin_ahead(from, span), at, skip: 0 })
    }

    /// Whether so many blocks more may be fetched ahead: others that have waited for too long make
    /// room. Streams that have ended leave what nothing reads: it must not stay for as long as what
    /// is kept does.
    fn make_room(&mut self, blocks: u32) -> bool {
        let one_in = if self.streams.is_full() { SHARE_ONE_IN } else { SLOTS_ONE_IN };
        let most = (self.slots / one_in).max(blocks);
        let old = OLD * u64::from(self.ahead.unread_or_coming());
        while self.ahead.unread_or_coming() + blocks > most {
            match self.take_unread_older_than(old) {
                Some(slot) => self.give_slot(slot),
                None => return false,
            }
        }
        true
    }

    /// Whether nothing is held of a block, or a part of what the backing has of it.
    fn is_missing(&self, block: u64) -> bool {
        match self.current(block) {
            Some((_, header)) => header.state == State::Clean && header.mask != 0xff,
            None => !self.zeroes.cover(block),
        }
    }

    /// A fetch of a piece has failed: nothing of it comes.
    pub(crate) fn fail_readahead(&mut self, gauges: &Gauges, fetch: &Fetch) {
        let (_, blocks) = blocks_of(&fetch.at);
        self.ahead.coming -= blocks;
        self.streams.not_unread(blocks);
        self.end_fetch(gauges, fetch);
    }

    /// Keeps what has come of these blocks of a fetch, where no change has touched it. From here on
    /// they are no longer coming: they are unread, or not there.
    pub(crate) fn keep_readahead(
        &mut self,
        gauges: &Gauges,
        fetch: &Fetch,
        from: &Buf,
        blocks: Range<u64>,
        passing: bool,
    ) {
        let first = blocks_of(&fetch.at).0;
        let mut lost = 0;
        self.ahead.coming -= (blocks.end - blocks.start) as u32;
        for block in blocks {
            let is_changed =
                self.fills.mark(fetch.id, block, 0xff) != 0 || !self.fills.keeps(fetch.id);
            let may_keep = !is_changed || planted(Bug::KeepOvertakenReadahead);
            let skip = (block - first) as u32 * BLOCK_SECTORS;
            let is_kept = may_keep && self.install_ahead(gauges, block, from, skip, passing);
            lost += u32::from(!is_kept);
        }
        self.streams.not_unread(lost);
    }

    fn install_ahead(
        &mut self,
        gauges: &Gauges,
        block: u64,
        from: &Buf,
        skip: u32,
        passing: bool,
    ) -> bool {
        if !self.is_missing(block) {
            return false;
        }
        let candidate = Candidate {
            is_long_stream: passing,
            free: self.free.length,
            ..Candidate::new(Rules::KEEP, Origin::Ahead)
        };
        let passing = !candidate.is_admitted();
        let Some(slot) = self.take_slot_ahead(block) else { return false };
        self.arena.put(self.base + slot, 0, from, skip, BLOCK_SECTORS);
        // The part that was held, if it is not the victim, is in there, too.
        if let Some((old, header)) = self.current(block) {
            self.note_lost_copy(&header);
            self.retire(gauges, old, &header);
        }
        let clean = if passing { Clean::UnreadPassing } else { Clean::Unread };
        let header = Header::of_clean(block, 0xff, clean, self.ahead.clock);
        self.arena.publish(self.base + slot, &header);
        self.index.insert(Hash::of(block), slot);
        self.links.push_back(&mut self.ahead.unread, slot);
        true
    }

    /// A slot for what is fetched ahead, in no list and holding nothing.
    fn take_slot_ahead(&mut self, block: u64) -> Option<u32> {
        let most = (self.slots / SLOTS_ONE_IN).max(1);
        if let Some(slot) = self.links.pop_front(&mut self.free) {
            return Some(slot);
        }
        let passed = if self.ahead.slots() < most { PASSED_MIN } else { 0 };
        self.take_passed_durable(passed).or_else(|| self.take_victim(block))
    }

    /// The slot that was passed first, if there are more than so many.
    pub(super) fn take_passed(&mut self, least: u32) -> Option<u32> {
        if self.ahead.passed.length <= least {
            return None;
        }
        let slot = self.links.pop_front(&mut self.ahead.passed)?;
        Some(self.emptied(slot))
    }

    /// The same, unless the backing has not been flushed since its block went past the cache.
    fn take_passed_durable(&mut self, least: u32) -> Option<u32> {
        let head = self.ahead.passed.head;
        let is_held = head != NIL && self.arena.is_unflushed(&self.header(head));
        if is_held { None } else { self.take_passed(least) }
    }

    /// The slot that has been unread for longest.
    pub(super) fn take_unread(&mut self) -> Option<u32> {
        let slot = self.links.pop_front(&mut self.ahead.unread)?;
        self.was_wasted(self.arena.block(self.base + slot));
        Some(self.emptied(slot))
    }

    /// A slot whose block is of less use than any other: it was passed, or has been unread for as
    /// long as a block that is not read stays.
    pub(super) fn take_passed_or_stale(&mut self) -> Option<u32> {
        let unread_max = self.slots.into();
        self.take_passed_durable(PASSED_MIN).or_else(|| self.take_unread_older_than(unread_max))
    }

    /// The slot that has been unread for longest, if that is longer than this.
    fn take_unread_older_than(&mut self, age: u64) -> Option<u32> {
        if self.has_unread_older_than(age) { self.take_unread() } else { None }
    }

    pub(super) fn has_unread_older_than(&self, age: u64) -> bool {
        let head = self.ahead.unread.head;
        head != NIL && self.ahead.clock.saturating_sub(self.header(head).came()) > age
    }

    /// A slot that has left its list holds nothing any more.
    fn emptied(&mut self, slot: u32) -> u32 {
        self.note_lost_copy(&self.header(slot));
        let hash = self.hash_at(slot);
        self.unindex(hash, slot);
        self.arena.free(self.base + slot);
        slot
    }

    fn was_wasted(&mut self, block: u64) {
        self.counters.readahead_wasted += 1;
        self.streams.wasted(block);
    }

    /// Takes a slot that was fetched ahead out of its list.
    pub(super) fn unlink_ahead(&mut self, slot: u32, header: &Header) {
        match header.clean() {
            Clean::Kept => unreachable!("it is the policy's"),
            Clean::Unread | Clean::UnreadPassing => {
                self.links.remove(&mut self.ahead.unread, slot);
                self.was_wasted(header.block);
            }
            Clean::Passed => self.links.remove(&mut self.ahead.passed, slot),
        }
    }

    /// A block that was fetched ahead is read.
    #[cold]
    pub(super) fn found_ahead(&mut self, slot: u32, header: &Header) {
        let found = &mut self.ahead.found;
        match header.clean() {
            Clean::Kept => unreachable!("it is the policy's"),
            Clean::Passed => return found.passing = true,
            Clean::UnreadPassing => {
                found.passing = true;
                self.links.remove(&mut self.ahead.unread, slot);
                self.links.push_back(&mut self.ahead.passed, slot);
                self.arena.publish(self.base + slot, &header.becomes(Clean::Passed));
            }
            Clean::Unread => {
                found.kept += 1;
                self.links.remove(&mut self.ahead.unread, slot);
                self.arena.publish(self.base + slot, &header.becomes(Clean::Kept));
                let hash = Hash::of(header.block);
                let _ = self.policy.miss(hash);
                self.policy.admit(&mut self.links, slot, hash, Cause::Fetch);
            }
        }
        self.ahead.found.blocks += 1;
        self.counters.readahead_used += 1;
    }
}
