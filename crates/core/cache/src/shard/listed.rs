//! Blocks that the list of hot blocks or the start-up list names: from the start of their fetch
//! until they are read or dropped.
//!
//! ```text
//!   begin_listed --> fetch --> listed --- read ---> the policy's, as if fetched for that read
//!                                |
//!                                '--- no slot is free ---> evicted before every block of this life
//! ```
//!
//! To the policy, such a block has not been accessed until a client reads it. A block of the
//! start-up list is expected soon, so it may take the slot of a hot block that was not read yet,
//! and is evicted after all of these.

use super::Shard;
use crate::BLOCK_SECTORS;
use crate::arena::{Clean, Header, State};
use crate::blocks::blocks_of;
use crate::dirty::gauges::Gauges;
use crate::planted::{Bug, planted};
use crate::shard::{Begin, Fetch};
use crate::slots::bits::Bits;
use crate::warming::{Listed, Source};
use block::{Buf, Extent};
use policy::{Cause, Hash, Links, List};

/// The slots of a shard that hold listed blocks.
pub(super) struct ListedBlocks {
    /// Hot blocks, the coldest first: the hottest are fetched first, and each enters at the front.
    /// Then blocks of the start-up list, the first one first.
    list: List,
    /// The number of the latter.
    of_start_up: u32,
    /// Blocks of pieces that are being fetched: free slots are reserved for them.
    coming: u32,
    /// None while the list is empty.
    marks: Option<Marks>,
}

/// Two bits for each slot of the shard.
struct Marks {
    /// Whether a slot is in the list: the header of a block fetched ahead does not show it.
    is_listed: Bits,
    /// Whether its block belongs to the start-up list.
    is_of_start_up: Bits,
}

impl Marks {
    fn new(slots: u32) -> Marks {
        Marks { is_listed: Bits::new(slots), is_of_start_up: Bits::new(slots) }
    }
}

impl ListedBlocks {
    pub(super) const NONE: ListedBlocks =
        ListedBlocks { list: List::EMPTY, of_start_up: 0, coming: 0, marks: None };

    pub(super) fn list(&self) -> &List {
        &self.list
    }

    /// Notes that these blocks of a piece are not being fetched any more.
    pub(super) fn came(&mut self, blocks: u32) {
        self.coming -= blocks;
    }

    /// Whether a slot holds a listed block that was not read.
    pub(super) fn has(&self, slot: u32) -> bool {
        self.marks.as_ref().is_some_and(|marks| marks.is_listed.get(slot))
    }

    /// The number of hot blocks.
    fn hot(&self) -> u32 {
        self.list.length - self.of_start_up
    }

    /// Adds a slot of a shard with `slots` slots.
    fn insert(&mut self, links: &mut Links, slot: u32, slots: u32, source: Source) {
        let marks = self.marks.get_or_insert_with(|| Marks::new(slots));
        marks.is_listed.set(slot, true);
        match source {
            Source::Ranking => links.push_front(&mut self.list, slot),
            Source::StartUp => {
                links.push_back(&mut self.list, slot);
                self.of_start_up += 1;
                marks.is_of_start_up.set(slot, true);
            }
        }
    }

    /// Removes a slot that is in the list. Returns the list that names its block.
    fn remove(&mut self, links: &mut Links, slot: u32) -> Source {
        links.remove(&mut self.list, slot);
        let marks = self.marks.as_mut().expect("the list has this slot");
        marks.is_listed.set(slot, false);
        let is_of_start_up = marks.is_of_start_up.get(slot);
        marks.is_of_start_up.set(slot, false);
        if self.list.length == 0 {
            self.marks = None;
        }
        if !is_of_start_up {
            return Source::Ranking;
        }
        self.of_start_up -= 1;
        Source::StartUp
    }
}

impl Shard {
    /// Begins to fetch the listed blocks of a piece that memory does not hold, with one request.
    /// Compressed blocks stay compressed.
    pub(super) fn begin_listed(&mut self, at: &Extent, listed: Listed) -> Begin {
        let (first, blocks) = blocks_of(at);
        let is_wanted = |block: &u64| {
            let is_absent = self.current(*block).is_none() && !self.zeroes.cover(*block);
            let is_absent = is_absent && !self.is_compressed(*block);
            listed.has(*block) && is_absent && !self.fills.has(*block)
        };
        let mut wanted = (first..first + u64::from(blocks)).filter(is_wanted);
        let Some(from) = wanted.next() else { return Begin::Nothing };
        let to = wanted.next_back().unwrap_or(from);
        let span = (to - from + 1) as u32;
        if self.write_through.meet(from, span) {
            return Begin::Nothing;
        }
        let evicted = match listed.source {
            Source::Ranking => 0,
            Source::StartUp => self.ahead.listed.hot(),
        };
        if self.free_slots() + evicted < self.ahead.listed.coming + span {
            return Begin::Full;
        }
        let others = (from..=to).filter(|block| !is_wanted(block));
        let others = others.fold(0u64, |bits, block| bits | 1 << (block - from));
        let id = self.fills.begin(from, span, true);
        // The other blocks are only read along. Marked, they are neither cached nor joined.
        for block in (from..=to).filter(|block| others >> (block - from) & 1 != 0) {
            self.fills.set_mark(id, block, 0xff);
        }
        self.ahead.listed.coming += span;
        let sectors = u64::from(BLOCK_SECTORS);
        let at = Extent::new(from * sectors, span * BLOCK_SECTORS);
        Begin::Fetch(Fetch::of(id, at))
    }

    /// Caches a fetched block, if it is still absent and a slot is free.
    pub(super) fn install_listed(
        &mut self,
        gauges: &Gauges,
        block: u64,
        from: &Buf,
        skip: u32,
        source: Source,
    ) -> bool {
        if let Some((old, header)) = self.current(block) {
            if !planted(Bug::WarmOverNewer) || header.state != State::Clean {
                return false;
            }
            self.retire(gauges, old, &header);
        }
        if self.zeroes.cover(block) {
            return false;
        }
        let Some(slot) = self.take_slot_listed(source) else { return false };
        self.arena.put(self.base + slot, 0, from, skip, BLOCK_SECTORS);
        let header = Header::of_clean(block, 0xff, Clean::Unread, self.ahead.clock);
        self.arena.publish(self.base + slot, &header);
        self.index_slot(block, slot);
        self.ahead.listed.insert(&mut self.links, slot, self.slots, source);
        match source {
            Source::Ranking => &self.counters.warm_cached,
            Source::StartUp => &self.counters.start_cached,
        }
        .add(1);
        true
    }

    /// Takes a slot for a listed block, in no list and empty.
    fn take_slot_listed(&mut self, source: Source) -> Option<u32> {
        let free = if self.free_slots() > 0 { self.pop_free() } else { None };
        let may_evict = source == Source::StartUp && self.ahead.listed.hot() > 0;
        free.or_else(|| may_evict.then(|| self.take_listed()).flatten())
    }

    /// Takes the slot of the coldest hot block of the list, or else of the first block of the
    /// start-up list.
    pub(super) fn take_listed(&mut self) -> Option<u32> {
        let List { head, length, .. } = *self.ahead.listed.list();
        if length == 0 {
            return None;
        }
        self.drop_listed(head);
        Some(self.emptied(head))
    }

    /// Takes a slot whose block was not read out of the list.
    pub(super) fn drop_listed(&mut self, slot: u32) {
        match self.ahead.listed.remove(&mut self.links, slot) {
            Source::Ranking => &self.counters.warm_wasted,
            Source::StartUp => &self.counters.start_wasted,
        }
        .add(1);
    }

    /// Hands a listed block to the policy at its first read.
    pub(super) fn found_listed(&mut self, slot: u32, header: &Header) {
        let source = self.ahead.listed.remove(&mut self.links, slot);
        self.arena.publish(self.base + slot, &header.becomes(Clean::Kept));
        let hash = Hash::of(header.block);
        let _ = self.policy.miss(hash);
        self.policy.admit(&mut self.links, slot, hash, Cause::Fetch);
        match source {
            Source::Ranking => &self.counters.warm_used,
            Source::StartUp => &self.counters.start_used,
        }
        .add(1);
        self.ahead.note_found_listed();
    }
}
