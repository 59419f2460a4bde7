//! The compressed tier in the decisions of a shard: which evicted blocks enter it, and when they
//! leave it.

use super::{Fetch, Look, Shard};
use crate::admission::{Candidate, Origin, Rules};
use crate::arena::{Header, State};
use crate::blocks::{bits, share};
use crate::compressed::decoder::Decoder;
use crate::compressed::{Copies, Encoded, FoundPage, OldPlace, Ticket};
use crate::planted::{Bug, planted};
use alloc::vec::Vec;
use block::Extent;
use core::ops::Range;
use core::sync::atomic::Ordering;
use policy::Hash;

/// Maximum number of pages that are turned to store one block.
const TURNS_MAX: u32 = 4;

/// Blocks that are copied out to be compressed.
pub(crate) struct Batch {
    pub(crate) tickets: Vec<Ticket>,
    /// Their bytes, one behind the other.
    pub(crate) data: Vec<u8>,
}

impl Batch {
    /// Makes an empty one with room for this many blocks.
    pub(crate) fn of(blocks: usize, block_bytes: usize) -> Batch {
        Batch {
            tickets: Vec::with_capacity(blocks),
            data: Vec::with_capacity(blocks * block_bytes),
        }
    }

    /// Returns each block's ticket and bytes.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (Ticket, &[u8])> {
        let block_bytes = self.data.len().checked_div(self.tickets.len()).unwrap_or(1);
        self.tickets.iter().copied().zip(self.data.chunks_exact(block_bytes.max(1)))
    }
}

impl Shard {
    /// Free slots that are kept for misses while blocks are compressed.
    fn free_wanted(&self) -> u32 {
        self.sampling.tier_share().free_wanted(self.slots)
    }

    /// Notes whether blocks should be evicted ahead of need, and compressed.
    #[inline]
    pub(super) fn note_free_slots(&self) {
        let is_due = self.tier.is_open() && self.free.length < self.free_wanted().div_ceil(2);
        self.compression_due.store(is_due, Ordering::Relaxed);
    }

    /// Free slots that a block may take without evicting another one.
    #[inline]
    pub(super) fn free_slots(&self) -> u32 {
        match self.tier.is_open() {
            true => self.free.length.saturating_sub(self.free_wanted()),
            false => self.free.length,
        }
    }

    /// Maximum number of slots for the tier.
    fn compressed_pages_max(&self) -> u32 {
        self.sampling.tier_share().pages_max(self.available())
    }

    /// Releases the oldest page of a tier that is not used any more. Returns whether there was one.
    pub(crate) fn shrink_tier(&mut self) -> bool {
        let shrinks = self.yield_page();
        if !shrinks && self.tier.is_open() {
            self.tier.close();
            self.sampling.close_tier();
            self.turned = Copies::default();
            self.count_tier();
        }
        shrinks
    }

    /// Drops all compressed blocks, because all clean blocks are about to be dropped, slot by slot.
    /// Until [`Shard::end_drop`] no block moves to the tier or back into a slot that was visited.
    pub(crate) fn begin_drop(&mut self) {
        self.is_dropping = true;
        self.fills.bar_all();
        self.drop_compressed();
    }

    /// Ends the drop of all clean blocks.
    pub(crate) fn end_drop(&mut self) {
        self.is_dropping = false;
        self.drop_compressed();
    }

    /// Drops all compressed blocks: they may differ from the backing.
    fn drop_compressed(&mut self) {
        self.tier.drop_all();
        self.return_pages();
    }

    /// Removes a block from the tier, because it is cached uncompressed.
    #[inline]
    pub(super) fn forget_compressed(&mut self, block: u64) {
        if !self.tier.is_idle() {
            self.tier.forget(block);
            self.return_pages();
        }
    }

    /// Removes a block from the tier, because it is changed.
    #[inline]
    pub(super) fn outdate_compressed(&mut self, block: u64) {
        if !planted(Bug::KeepCompressed) {
            self.forget_compressed(block);
        }
    }

    /// Removes blocks of one region from the tier, because they are changed.
    pub(super) fn outdate_all_compressed(&mut self, blocks: Range<u64>) {
        if !self.tier.is_idle() && !planted(Bug::KeepCompressed) {
            self.tier.forget_all(blocks);
            self.return_pages();
        }
    }

    /// Puts the slots that the tier has released into the list of free ones.
    fn return_pages(&mut self) {
        while let Some(slot) = self.tier.take_released() {
            self.links.push_back(&mut self.free, slot);
        }
        self.count_tier();
    }

    fn count_tier(&self) {
        self.note_free_slots();
        self.counters.blocks_held.set(self.held().into());
        self.counters.compressed_blocks.set(self.tier.held().into());
        self.counters.compressed_slots.set(self.tier.pages().into());
    }

    fn open_tier(&mut self) {
        if !self.tier.is_open() {
            self.tier.open();
            self.turned = Copies::for_page(self.arena.slot_bytes());
        }
        self.sampling.open_tier();
    }

    /// Takes over the compressed blocks in these pages, except those of which a version was taken
    /// over. Called after all of these. `is_zeroed`: whether a range of zeros covers this position.
    pub(crate) fn recover_compressed(
        &mut self,
        found: Vec<FoundPage>,
        is_zeroed: impl Fn(u64) -> bool,
    ) {
        if found.is_empty() {
            return;
        }
        self.open_tier();
        self.tier.restore(found);
        let is_older = |block: &u64| self.holds(*block) || is_zeroed(self.position_of(*block));
        let older: Vec<u64> = self.tier.blocks().filter(is_older).collect();
        older.into_iter().for_each(|block| self.tier.forget(block));
        self.return_pages();
        self.counters.compressed_retained.add(self.tier.held().into());
    }

    /// Evicts up to `blocks_max` clean blocks ahead of need, and copies those that may be
    /// compressed into an empty batch. They are stored or given up by [`Shard::store_compressed`].
    /// Returns the number of evicted blocks.
    pub(crate) fn begin_compression(&mut self, blocks_max: usize, batch: &mut Batch) -> usize {
        if self.is_dropping {
            return 0;
        }
        self.open_tier();
        self.adapt();
        let mut evicted = 0;
        while self.free.length < self.free_wanted() && evicted < blocks_max {
            let Some(slot) = self.take_least_wanted().or_else(|| self.take_copied(batch)) else {
                break;
            };
            self.links.push_back(&mut self.free, slot);
            evicted += 1;
        }
        self.count_tier();
        evicted
    }

    /// Takes the slot that the policy evicts, in no list and empty. Its block is copied into the
    /// batch, if it may be compressed.
    fn take_copied(&mut self, batch: &mut Batch) -> Option<u32> {
        // No block is about to be cached: none is compared with the victim.
        let slot = self.next_victim(Hash::of(u64::MAX))?;
        if let Some(ticket) = self.begin_evicted(&self.header(slot)) {
            batch.tickets.push(ticket);
            let start = batch.data.len();
            batch.data.resize(start + self.arena.slot_bytes(), 0);
            self.arena.read_bytes(self.base + slot, 0, &mut batch.data[start..]);
        }
        self.evict(slot);
        Some(slot)
    }

    /// Begins the compression of a block that is about to be evicted. None: it is not compressed,
    /// which is counted.
    fn begin_evicted(&mut self, header: &Header) -> Option<Ticket> {
        let is_stored = self.sampling.tier_share().stores_rejected || !self.policy.has_rejected();
        if !is_stored {
            self.counters.compressed_rejected.add(1);
            return None;
        }
        if !self.may_compress(header) {
            self.counters.compressed_unfit.add(1);
            return None;
        }
        if !self.is_to_try(header.block) {
            return None;
        }
        let ticket = self.tier.begin(header.block);
        if ticket.is_none() {
            self.counters.compressed_skipped.add(1);
        }
        ticket
    }

    /// Counts a block that is evicted uncompressed, because a request needs its slot.
    pub(super) fn count_uncompressed_eviction(&self) {
        if self.tier.is_open() && self.free_wanted() > 0 {
            self.counters.compressed_skipped.add(1);
        }
    }

    /// Whether a slot has all of its block, equal to the backing and durable there: not while the
    /// backing may show a change of it that is not answered, nor while a failed flush may lose it.
    fn may_compress(&self, header: &Header) -> bool {
        header.state == State::Clean
            && header.mask == 0xff
            && !self.arena.is_unflushed(header)
            && !self.write_through.meet(header.block, 1)
    }

    /// Whether to compress a block. Counts it if not.
    fn is_to_try(&mut self, block: u64) -> bool {
        let is_to_try = self.tier.is_to_try(block);
        if !is_to_try {
            self.counters.compressed_untried.add(1);
            self.sampling.record_compressed(block, None);
        }
        is_to_try
    }

    /// Ends the compression of a block: stores it, unless it did not become small enough, or a
    /// change has cancelled it, or it is cached again.
    pub(crate) fn store_compressed(
        &mut self,
        ticket: Ticket,
        encoded: Option<Encoded>,
        took_ns: u64,
    ) {
        self.counters.compression_ns.add(took_ns);
        let Some(block) = self.tier.end(ticket) else {
            return self.counters.compressed_unfit.add(1);
        };
        self.tier.note_trial(block, encoded.is_some());
        self.sampling.record_compressed(block, encoded.as_ref().map(|encoded| encoded.data.len()));
        let Some(encoded) = encoded else {
            return self.counters.compressed_refused.add(1);
        };
        if !self.make_compressed_room(encoded.data.len()) {
            return self.counters.compressed_full.add(1);
        }
        self.tier.store(&encoded.of_block(block), encoded.data);
        self.counters.compressed_stored.add(1);
        // The page before it may have been filled, without a live object.
        self.return_pages();
    }

    /// Makes room for an object of this many bytes. Returns false if there is none: the blocks of
    /// the pages that were turned have all been read, and are of more use than a new one.
    fn make_compressed_room(&mut self, bytes: usize) -> bool {
        for _ in 0..TURNS_MAX {
            if self.grow_tier(bytes) {
                return true;
            }
            if !self.turn_oldest_page() {
                return false;
            }
        }
        self.grow_tier(bytes)
    }

    /// Adds a page to the tier, if an object of this many bytes needs one. Returns whether the
    /// object can be stored.
    fn grow_tier(&mut self, bytes: usize) -> bool {
        while !self.tier.is_full() && self.tier.needs_page(bytes) {
            if !self.may_add_page() || !self.add_page() {
                return false;
            }
        }
        !self.tier.is_full()
    }

    /// Whether the tier may have another page.
    fn may_add_page(&self) -> bool {
        self.tier.pages() < self.compressed_pages_max()
    }

    fn add_page(&mut self) -> bool {
        let Some(slot) = self.links.pop_front(&mut self.free) else { return false };
        self.tier.add_page(slot);
        true
    }

    /// Releases the oldest page, and stores those of its blocks again that were read since they
    /// were stored, as far as the tier may be that large: they can need two pages, because the last
    /// one goes on in the next page. Returns false if there is no page.
    fn turn_oldest_page(&mut self) -> bool {
        let held = self.tier.held();
        let mut again = core::mem::take(&mut self.turned);
        again.clear();
        let turned = self.tier.evict_oldest(Some(&mut again));
        self.return_pages();
        let mut left = held - self.tier.held();
        for (object, data) in again.iter() {
            if !self.grow_tier(data.len()) {
                break;
            }
            self.tier.store(&object, data);
            self.counters.compressed_renewed.add(1);
            left -= 1;
        }
        self.counters.compressed_evicted.add(left.into());
        self.return_pages();
        self.turned = again;
        turned
    }

    /// Releases the oldest page, because its slot is needed. Returns whether there was one.
    fn yield_page(&mut self) -> bool {
        let held = self.tier.held();
        let yields = self.tier.evict_oldest(None);
        self.counters.compressed_yielded.add((held - self.tier.held()).into());
        self.return_pages();
        yields
    }

    /// Takes the slot of the tier's oldest page, in no list and empty.
    pub(super) fn take_page(&mut self) -> Option<u32> {
        self.yield_page();
        self.pop_free()
    }

    /// Takes the slot of a page of a tier that is larger than it may be, because more slots are
    /// dirty than before.
    pub(super) fn take_excess_page(&mut self) -> Option<u32> {
        let is_too_large = self.tier.pages() > self.compressed_pages_max();
        if is_too_large { self.take_page() } else { None }
    }

    /// Decides about a read whose missing blocks, from the first to the last, are all in the tier,
    /// and that [`Shard::try_hit`] has not answered: it is a fetch that the tier answers. Blocks
    /// are cached uncompressed again at their second read.
    pub(super) fn look_compressed(
        &mut self,
        rules: Rules,
        at: &Extent,
        from: u64,
        to: u64,
        present: bool,
    ) -> Look {
        let (mut is_hot, mut used) = (false, 0);
        for block in from..=to {
            if self.tier.has(block) {
                is_hot |= self.tier.note_use(block);
                used += 1;
            }
        }
        self.count_compressed_hit(at, used);
        let span = (to - from + 1) as u32;
        let keep = is_hot && !self.write_through.meet(from, span) && {
            let mut candidate = Candidate::new(rules, Origin::Read);
            candidate.is_wanted = self.policy_admits_any(from..=to);
            candidate.is_admitted()
        };
        let mut fetch = self.begin_fetch(at, from, to, keep);
        fetch.is_compressed = true;
        if present {
            self.mark_held(&fetch, from..=to);
        }
        Look::Fetch(fetch)
    }

    /// Copies the bytes of a block of a read to the decoder, after those of `before` blocks, if the
    /// tier has it and it was not read since it was stored.
    #[inline]
    pub(super) fn try_compressed(&mut self, block: u64, before: u64, decoder: &Decoder) -> bool {
        if self.tier.held() == 0 || !self.tier.is_unused(block) {
            return false;
        }
        let mut copies = if before == 0 { decoder.begin() } else { decoder.copies() };
        self.tier.note_use(block);
        let is_copied = self.tier.copy(block, &mut copies);
        if !is_copied {
            // Its page was damaged.
            self.forget_compressed(block);
        }
        is_copied
    }

    /// Counts a read of which all is held, and some blocks only in the tier.
    pub(super) fn count_compressed_hit(&mut self, at: &Extent, blocks: u64) {
        let _ = self.count_hit(at);
        self.counters.compressed_hits.add(1);
        self.counters.compressed_used.add(blocks);
    }

    /// Copies the compressed blocks of a fetch. Returns false if one is neither there nor in memory
    /// any more, or its page was damaged.
    pub(crate) fn copy_compressed(
        &mut self,
        fetch: &Fetch,
        blocks: Range<u64>,
        into: &mut Copies,
    ) -> bool {
        blocks.into_iter().all(|block| {
            let (sector, sectors, _) = share(&fetch.at, block);
            let wanted = bits(sector, sectors);
            let is_copied = self.tier.copy(block, into);
            if !is_copied {
                self.forget_compressed(block);
            }
            is_copied || self.fills.mark(fetch.id, block, wanted) == wanted
        })
    }

    /// Planted bug: finds the slots of compressed blocks, to copy them in a later section.
    pub(crate) fn compressed_slots(&self, blocks: Range<u64>) -> Vec<OldPlace> {
        blocks.filter_map(|block| self.tier.slots_of(block)).collect()
    }

    /// Planted bug: copies blocks from where they were.
    pub(crate) fn copy_compressed_from(&self, places: &[OldPlace], into: &mut Copies) {
        places.iter().for_each(|place| self.tier.copy_from(place, into));
    }

    /// Whether the tier has this block, or is about to.
    pub(super) fn is_compressed(&self, block: u64) -> bool {
        !self.tier.is_idle() && self.tier.has_or_awaits(block)
    }

    /// Checks the tier. For the laboratory.
    pub(super) fn check_tier(&self) {
        self.tier.check(|block| self.current(block).is_some());
        for block in self.tier.blocks() {
            assert!(!self.zeroes.cover(block), "block {block} is compressed and zeroed");
        }
    }
}
