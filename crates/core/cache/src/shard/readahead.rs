//! Blocks fetched ahead of a stream: from the start of the fetch until they are read or dropped.
//!
//! ```text
//!   begin_readahead --> fetch --> unread --- read ---> the policy's, as if fetched for that read
//!                         |         |  '---- read ---> passed, where the stream is too long
//!                 changed during it |                     |
//!                         |         | too many, too old   | the first to be evicted
//!                         v         v                     v
//!                       (not kept)            free
//! ```
//!
//! Without a free slot, readahead takes the slots of passed blocks first: of all but the last few,
//! and of those, too, once unread and passed blocks have a quarter of the shard's slots.
//!
//! Blocks of the list of hot blocks and of the start-up list are fetched in the same way. They take
//! free slots, and are in a list of their own until they are read (`listed.rs`).

use super::Shard;
use crate::BLOCK_SECTORS;
use crate::admission::{Candidate, Origin, Rules};
use crate::arena::{Clean, Header, State};
use crate::blocks::blocks_of;
use crate::dirty::gauges::Gauges;
use crate::planted::{Bug, planted};
use crate::shard::Fetch;
use crate::shard::listed::ListedBlocks;
use crate::slots::bits::Bits;
use crate::warming::Listed;
use block::{Buf, Extent};
use core::ops::Range;
use policy::{Cause, Hash, List, NIL, Verdict};

/// Unread blocks have at most one in this number of a shard's slots: enough for one stream or two
/// ...
const SLOTS_ONE_IN: u32 = 4;
/// ... and one in this number, while the volume has its maximum of unread blocks.
const SHARE_ONE_IN: u32 = 8;
/// The blocks that were passed last stay while other slots can be taken: requests that end inside
/// blocks return to them.
const BYPASSED_MIN: u32 = 8;
/// If there are N unread blocks, a block makes room for readahead when this number times N blocks
/// have been requested since it was fetched. If all streams continue at one speed, it is read
/// before N have.
const OLD: u64 = 4;

/// The reason why a piece is fetched.
#[derive(Clone, Copy, Debug)]
pub(crate) enum AheadOf {
    /// A stream will read it.
    Stream {
        /// The stream is too long to be cached.
        bypasses: bool,
    },
    /// The list of hot blocks or the start-up list names these blocks of it.
    List(Listed),
}

/// Result of the start of a piece.
pub(crate) enum Begin {
    /// Blocks of it are to be fetched.
    Fetch(Fetch),
    /// Nothing: the blocks that may be fetched are held, or are being fetched.
    Nothing,
    /// Nothing: there is no room for it.
    Full,
}

/// The slots of a shard that hold blocks fetched ahead.
pub(super) struct Ahead {
    /// Not read yet, the oldest first.
    pub(super) unread: List,
    /// Read by a bypassed stream, the oldest first.
    pub(super) bypassed: List,
    /// Named by the list of hot blocks, and not read yet.
    pub(super) listed: ListedBlocks,
    /// Blocks that are being fetched.
    coming: u32,
    /// Counts blocks that were evicted, requested ahead whether there was room or not, or read and
    /// not admitted. Unread blocks age by it.
    pub(super) clock: u64,
    /// The dirty slots of streams of writes that are too long to be cached.
    bypasses: Bits,
    /// The blocks fetched ahead that the current request has found.
    found: FoundAhead,
}

/// The blocks fetched ahead that a request has found.
#[derive(Clone, Copy, Default)]
pub(super) struct FoundAhead {
    /// Blocks that it was the first to read.
    pub(super) blocks: u32,
    /// Those of them that are cached from now on.
    pub(super) kept: u32,
    /// Some belong to a bypassed stream.
    pub(super) bypasses: bool,
    /// Some were cached because a list names them.
    listed: bool,
}

impl Ahead {
    pub(super) fn new(slots: u32) -> Ahead {
        Ahead {
            unread: List::EMPTY,
            bypassed: List::EMPTY,
            listed: ListedBlocks::NONE,
            coming: 0,
            clock: 0,
            bypasses: Bits::new(slots),
            found: FoundAhead::default(),
        }
    }

    /// Whether a dirty slot belongs to a stream that is too long to be cached.
    pub(super) fn is_bypassed(&self, slot: u32) -> bool {
        self.bypasses.get(slot)
    }

    /// Sets whether a dirty slot belongs to a stream that is too long to be cached.
    pub(super) fn set_bypassed(&mut self, slot: u32, to: bool) {
        self.bypasses.set(slot, to);
    }

    /// The number of slots in these lists: all of them can be taken.
    pub(super) fn slots(&self) -> u32 {
        self.slots_of_streams() + self.listed.list().length
    }

    /// The number of slots that hold blocks of streams.
    fn slots_of_streams(&self) -> u32 {
        self.unread.length + self.bypassed.length
    }

    /// The number of blocks that were fetched ahead, or are being fetched, and were not read yet.
    pub(super) fn unread_or_coming(&self) -> u32 {
        self.unread.length + self.coming
    }

    /// Notes that the shard has evicted a block.
    pub(super) fn evicted(&mut self) {
        self.clock += 1;
    }

    /// The lists, each with the states that a header in it may have.
    pub(super) fn lists(&self) -> [(&List, &'static [Clean]); 3] {
        [
            (&self.unread, &[Clean::Unread, Clean::UnreadBypassed]),
            (&self.bypassed, &[Clean::Bypassed]),
            (self.listed.list(), &[Clean::Unread]),
        ]
    }

    /// Whether the current request has found any block that was fetched ahead.
    #[inline]
    pub(super) fn has_found(&self) -> bool {
        self.found.bypasses | self.found.listed | (self.found.blocks > 0)
    }

    /// Notes that the current request was the first to read a block that a list names.
    pub(super) fn note_found_listed(&mut self) {
        self.found.listed = true;
    }

    /// Returns and resets the blocks that the request has found.
    #[inline]
    pub(super) fn take_found(&mut self) -> FoundAhead {
        core::mem::take(&mut self.found)
    }
}

impl Shard {
    /// Begins to fetch blocks of a piece, which lies in one region and is not longer than a run:
    /// the first contiguous missing ones, or all that the list names. The fetch is like every
    /// other: changes mark it, reads may join it.
    pub(crate) fn begin_ahead(&mut self, at: &Extent, of: AheadOf) -> Begin {
        // Half of the fetches are reserved for fetches for which clients wait.
        if self.fills.free() * 2 <= self.fills.most() {
            return Begin::Full;
        }
        match of {
            AheadOf::Stream { .. } => self.begin_readahead(at),
            AheadOf::List(listed) => self.begin_listed(at, listed),
        }
    }

    fn begin_readahead(&mut self, at: &Extent) -> Begin {
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
        self.counters.readahead_issued.add(u64::from(span));
        let id = self.fills.begin_ahead(from, span);
        Begin::Fetch(Fetch::of(id, at))
    }

    /// Drops blocks that have been unread for too long, until `blocks` more may be fetched ahead.
    /// Returns whether they may. Streams that have ended leave blocks that no request reads: these
    /// must not stay as long as admitted blocks.
    fn make_room(&mut self, blocks: u32) -> bool {
        let one_in = if self.streams.is_full() { SHARE_ONE_IN } else { SLOTS_ONE_IN };
        let most = (self.slots / one_in).max(blocks);
        let old = OLD * u64::from(self.ahead.unread_or_coming());
        while self.ahead.unread_or_coming() + blocks > most {
            match self.take_unread_older_than(old) {
                Some(slot) => self.free_slot(slot),
                None => return false,
            }
        }
        true
    }

    /// Whether a block is not held, or only a part of the backing's data is held.
    pub(super) fn is_missing(&self, block: u64) -> bool {
        match self.current(block) {
            Some((_, header)) => header.state == State::Clean && header.mask != 0xff,
            None => !self.zeroes.cover(block),
        }
    }

    /// Ends a failed fetch of a piece: none of its blocks is cached.
    pub(crate) fn fail_ahead(&mut self, gauges: &Gauges, fetch: &Fetch, of: AheadOf) {
        let (_, blocks) = blocks_of(&fetch.at);
        self.ahead_came(blocks, blocks, of);
        self.end_fetch(gauges, fetch);
    }

    /// Caches these blocks of a fetch, where no change has touched them. From now on they are
    /// unread or absent, and no longer being fetched.
    pub(crate) fn keep_ahead(
        &mut self,
        gauges: &Gauges,
        fetch: &Fetch,
        from: &Buf,
        blocks: Range<u64>,
        of: AheadOf,
    ) {
        let first = blocks_of(&fetch.at).0;
        let (all, mut lost) = ((blocks.end - blocks.start) as u32, 0);
        let is_careless = match of {
            AheadOf::Stream { .. } => planted(Bug::KeepOvertakenReadahead),
            AheadOf::List(_) => planted(Bug::WarmOverNewer),
        };
        for block in blocks {
            let is_changed =
                self.fills.mark(fetch.id, block, 0xff) != 0 || !self.fills.keeps(fetch.id);
            let may_keep = !is_changed || is_careless;
            let skip = (block - first) as u32 * BLOCK_SECTORS;
            let is_kept = may_keep
                && match of {
                    AheadOf::Stream { bypasses } => {
                        self.install_ahead(gauges, block, from, skip, bypasses)
                    }
                    AheadOf::List(listed) => {
                        self.install_listed(gauges, block, from, skip, listed.source)
                    }
                };
            lost += u32::from(!is_kept);
        }
        self.ahead_came(all, lost, of);
    }

    /// Notes that blocks of a piece are not being fetched any more, of which `lost` are not cached.
    fn ahead_came(&mut self, blocks: u32, lost: u32, of: AheadOf) {
        match of {
            AheadOf::Stream { .. } => {
                self.ahead.coming -= blocks;
                self.streams.not_unread(lost);
            }
            AheadOf::List(_) => self.ahead.listed.came(blocks),
        }
    }

    fn install_ahead(
        &mut self,
        gauges: &Gauges,
        block: u64,
        from: &Buf,
        skip: u32,
        bypasses: bool,
    ) -> bool {
        if !self.is_missing(block) {
            return false;
        }
        let candidate = Candidate {
            is_long_stream: bypasses,
            free: self.free_slots(),
            ..Candidate::new(Rules::KEEP, Origin::Ahead)
        };
        let bypasses = !candidate.is_admitted();
        let Some(slot) = self.take_slot_ahead(block) else { return false };
        self.arena.put(self.base + slot, 0, from, skip, BLOCK_SECTORS);
        // The held part, if it is not the victim, is contained in the fetched data.
        if let Some((old, header)) = self.current(block) {
            self.note_lost_copy(&header);
            self.retire(gauges, old, &header);
        }
        let clean = if bypasses { Clean::UnreadBypassed } else { Clean::Unread };
        let header = Header::of_clean(block, 0xff, clean, self.ahead.clock);
        self.arena.publish(self.base + slot, &header);
        self.index_slot(block, slot);
        self.links.push_back(&mut self.ahead.unread, slot);
        true
    }

    /// Takes a slot for readahead, in no list and empty.
    fn take_slot_ahead(&mut self, block: u64) -> Option<u32> {
        let most = (self.slots / SLOTS_ONE_IN).max(1);
        if let Some(slot) = self.pop_free() {
            return Some(slot);
        }
        let bypassed = if self.ahead.slots_of_streams() < most { BYPASSED_MIN } else { 0 };
        self.take_bypassed_durable(bypassed)
            .or_else(|| self.take_listed())
            .or_else(|| self.take_victim(block))
    }

    /// Takes the slot that was passed first, if there are more than `least`.
    pub(super) fn take_bypassed(&mut self, least: u32) -> Option<u32> {
        if self.ahead.bypassed.length <= least {
            return None;
        }
        let slot = self.links.pop_front(&mut self.ahead.bypassed)?;
        Some(self.emptied(slot))
    }

    /// [`Shard::take_bypassed`], unless the first passed block was written through and the backing
    /// has not been flushed since.
    fn take_bypassed_durable(&mut self, least: u32) -> Option<u32> {
        let head = self.ahead.bypassed.head;
        let is_held = head != NIL && self.arena.is_unflushed(&self.header(head));
        if is_held { None } else { self.take_bypassed(least) }
    }

    /// Takes the slot that has been unread for the longest time.
    pub(super) fn take_unread(&mut self) -> Option<u32> {
        let slot = self.links.pop_front(&mut self.ahead.unread)?;
        self.was_wasted(self.arena.block(self.base + slot));
        Some(self.emptied(slot))
    }

    /// Takes a slot whose block is less useful than any other: it was passed, or has been unread
    /// for as long as an admitted block stays without a read.
    pub(super) fn take_bypassed_or_stale(&mut self) -> Option<u32> {
        let unread_max = self.slots.into();
        self.take_bypassed_durable(BYPASSED_MIN).or_else(|| self.take_unread_older_than(unread_max))
    }

    /// Takes the slot that has been unread for the longest time, if that is longer than this.
    fn take_unread_older_than(&mut self, age: u64) -> Option<u32> {
        if self.has_unread_older_than(age) { self.take_unread() } else { None }
    }

    pub(super) fn has_unread_older_than(&self, age: u64) -> bool {
        let head = self.ahead.unread.head;
        head != NIL && self.ahead.clock.saturating_sub(self.header(head).filled_at()) > age
    }

    /// Empties a slot that has left its list.
    pub(super) fn emptied(&mut self, slot: u32) -> u32 {
        self.note_lost_copy(&self.header(slot));
        let hash = self.hash_at(slot);
        self.unindex(hash, slot);
        self.arena.free(self.base + slot);
        self.counters.blocks_retained_wasted.add(self.retained.remove(slot).into());
        slot
    }

    fn was_wasted(&mut self, block: u64) {
        self.counters.readahead_wasted.add(1);
        self.streams.wasted(block);
    }

    /// Takes a slot that was fetched ahead out of its list.
    pub(super) fn unlink_ahead(&mut self, slot: u32, header: &Header) {
        match header.clean() {
            Clean::Kept => unreachable!("it is the policy's"),
            Clean::Unread if self.ahead.listed.has(slot) => self.drop_listed(slot),
            Clean::Unread | Clean::UnreadBypassed => {
                self.links.remove(&mut self.ahead.unread, slot);
                self.was_wasted(header.block);
            }
            Clean::Bypassed => self.links.remove(&mut self.ahead.bypassed, slot),
        }
    }

    /// Handles a read of a block that was fetched ahead.
    #[cold]
    pub(super) fn found_ahead(&mut self, slot: u32, header: &Header) {
        if self.ahead.listed.has(slot) {
            return self.found_listed(slot, header);
        }
        let found = &mut self.ahead.found;
        match header.clean() {
            Clean::Kept => unreachable!("it is the policy's"),
            Clean::Bypassed => {
                self.counters.blocks_retained_used.add(u64::from(self.retained.remove(slot)));
                return found.bypasses = true;
            }
            Clean::UnreadBypassed => {
                found.bypasses = true;
                self.links.remove(&mut self.ahead.unread, slot);
                self.links.push_back(&mut self.ahead.bypassed, slot);
                self.arena.publish(self.base + slot, &header.becomes(Clean::Bypassed));
            }
            Clean::Unread => {
                found.kept += 1;
                self.links.remove(&mut self.ahead.unread, slot);
                self.admit_found(slot, header);
            }
        }
        self.ahead.found.blocks += 1;
        self.counters.readahead_used.add(1);
    }

    /// Hands a block that was fetched ahead to the policy at its first read. A block that the
    /// policy does not admit is the first to be evicted.
    fn admit_found(&mut self, slot: u32, header: &Header) {
        let hash = Hash::of(header.block);
        let is_admitted = self.policy.miss(hash) == Verdict::Keep;
        let clean = if is_admitted { Clean::Kept } else { Clean::Bypassed };
        self.arena.publish(self.base + slot, &header.becomes(clean));
        match is_admitted {
            true => self.policy.admit(&mut self.links, slot, hash, Cause::Fetch),
            false => self.links.push_back(&mut self.ahead.bypassed, slot),
        }
    }
}
