//! A shard: all state of its blocks, under one lock. Nothing here waits; every function is one
//! decision over plain data.
//!
//! The list in which a slot is linked follows from its header:
//!
//! ```text
//!  Free --> Clean (policy) <------------------------------ Written (written)
//!    \                        backing flushed                ^   |
//!     \                                           run done   |   | backing's flush failed
//!      --> Dirty, open --> Dirty, closed --> Dirty, being written back --> Writing (with its run)
//!          (open)     close    (chain)  begin       (closing)        next_run
//! ```
//!
//! (`early_writeback.rs` draws the states of blocks that are written back before their epoch is
//! closed.)
//!
//! A block has at most one *current* version. Older versions, one per epoch, may exist beside it,
//! *shadowed*, until they are durable.

mod compressed;
mod direct;
mod discard_dirty;
mod early_writeback;
pub(crate) mod fetches;
mod file_hints;
mod held_copies;
mod listed;
mod long_streams;
mod observe;
pub(crate) mod ranking;
mod read;
mod readahead;
mod ready_runs;
mod rebuild;
pub(crate) mod rests;
mod retained;
pub(crate) mod shards;
mod status;
#[cfg(test)]
mod tests;
mod write;
mod write_through;
pub(crate) mod write_through_queue;
mod writeback;
pub(crate) mod zero_ranges;
mod zero_writeback;

use crate::arena::{Arena, Clean, Header, State};
use crate::compressed::{Copies, Tier};
use crate::dirty::gauges::{Gauges, Stage};
use crate::epochs::{self, CHAIN_MAX};
use crate::geometry::Geometry;
use crate::sampling::{Counted, Samplers, Sampling};
use crate::shard::fetches::Fills;
use crate::shard::write_through_queue::WriteThroughQueue;
use crate::shard::zero_ranges::Zeroes;
use crate::slots::index::{Hints, Index};
use crate::slots::regions::RegionCounts;
use crate::stats::counters::{LiveCounters, Saving};
use crate::streams::Streams;
use alloc::collections::VecDeque;
use alloc::sync::Arc;
use alloc::vec::Vec;
use core::sync::atomic::AtomicBool;
use early_writeback::Early;
use policy::{Access, Cause, Hash, Held, Kind, Links, List, NIL, Policy};
use readahead::Ahead;
use ready_runs::ReadyRuns;
use retained::RetainedBlocks;

pub(crate) use crate::dirty::decision::Reason;
pub(crate) use compressed::Batch;
pub(crate) use direct::DirectWrite;
pub(crate) use file_hints::HELD_POSITIONS_A_SLOT;
pub use file_hints::HeldBlock;
pub(crate) use read::{Fetch, Fetched, Look, QuickRead, Reader};
pub(crate) use readahead::{AheadOf, Begin};
pub(crate) use status::Known;
pub(crate) use write::{Admit, Change, Source};
pub(crate) use write_through::{WriteThroughBegun, WriteThroughCopies, WriteThroughEnd};
pub(crate) use writeback::{Load, Next, Run};
pub(crate) use zero_writeback::ZeroRun;

/// A shard's part of the sums that its volume keeps over all shards, in blocks.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Checked {
    /// Dirty blocks.
    pub(crate) dirty: u32,
    /// Dirty blocks of the open epoch.
    pub(crate) open: u32,
    /// Blocks that are being written back early.
    pub(crate) under_way: u32,
    /// Blocks fetched ahead, or being fetched ahead, and not read yet.
    pub(crate) unread: u32,
}

/// A shard of the cache.
pub(crate) struct Shard {
    arena: Arena,
    /// The arena's number of the shard's first slot; inside the shard, slots are counted from 0.
    base: u32,
    slots: u32,
    run_blocks: u32,
    region_blocks: u64,
    /// The open epoch.
    epoch: u64,
    /// The epoch that is being written back, or was written back last. The epochs between it and
    /// the open one are closed and wait in the chain.
    closing_epoch: u64,
    index: Index,
    /// The regions of the slots in the index.
    regions: RegionCounts,
    links: Links,
    policy: Policy,
    free: List,
    open: List,
    /// Closed epochs that wait for writeback, the oldest first.
    chain: VecDeque<List>,
    closing: List,
    written: List,
    early: Early,
    ready: ReadyRuns,
    ahead: Ahead,
    tier: Tier,
    /// Whether blocks should be evicted ahead of need, and compressed.
    compression_due: Arc<AtomicBool>,
    /// Blocks that are stored in the tier again.
    turned: Copies,
    /// Whether all clean blocks are being dropped.
    is_dropping: bool,
    retained: RetainedBlocks,
    /// Slots that are dirty in any state.
    dirty: u32,
    /// Slots with copies of changes that were sent to the backing and are not answered yet.
    unanswered: u32,
    zeroes: Zeroes,
    fills: Fills,
    write_through: WriteThroughQueue,
    sampling: Arc<Sampling>,
    samplers: Samplers,
    streams: Arc<Streams>,
    /// The counters at the last report to a sampler.
    reported: Counted,
    /// Written blocks for which a write-through failed afterwards: see
    /// [`Shard::write_through_done`].
    doubtful: Vec<u64>,
    /// Some blocks of the closing list, sorted; the last one is next.
    plan: Vec<(u64, u32)>,
    /// Changed under the shard's lock, and read without it.
    pub(crate) counters: Arc<LiveCounters>,
    saving: Saving,
}

impl Shard {
    /// Makes a shard that holds nothing.
    pub(crate) fn new(
        kind: Kind,
        sampling: Arc<Sampling>,
        streams: Arc<Streams>,
        arena: Arena,
        number: u32,
        geometry: &Geometry,
    ) -> Shard {
        let slots = geometry.slots_per_shard();
        let base = geometry.first_slot(number);
        let tier = Tier::new(geometry, arena.clone(), base);
        let mut shard = Shard {
            arena,
            base,
            slots,
            run_blocks: geometry.run_blocks,
            region_blocks: u64::from(geometry.region_blocks),
            epoch: epochs::FIRST,
            closing_epoch: epochs::FIRST - 1,
            index: Index::new(slots),
            regions: RegionCounts::new(geometry),
            links: Links::new(slots),
            policy: Policy::new(kind, slots),
            free: List::EMPTY,
            open: List::EMPTY,
            chain: VecDeque::with_capacity(CHAIN_MAX + 1),
            closing: List::EMPTY,
            written: List::EMPTY,
            early: Early::NONE,
            ready: ReadyRuns::new(geometry.run_blocks),
            ahead: Ahead::new(slots),
            tier,
            compression_due: Arc::default(),
            turned: Copies::default(),
            is_dropping: false,
            retained: RetainedBlocks::NONE,
            dirty: 0,
            unanswered: 0,
            zeroes: Zeroes::new(number, geometry),
            fills: Fills::new(geometry.fills, geometry.run_blocks),
            write_through: WriteThroughQueue::new(),
            samplers: sampling.samplers(),
            sampling,
            streams,
            reported: Counted::default(),
            doubtful: Vec::new(),
            plan: Vec::with_capacity(writeback::PLAN),
            counters: Arc::default(),
            saving: Saving::default(),
        };
        for slot in 0..slots {
            shard.links.push_back(&mut shard.free, slot);
        }
        shard
    }

    #[inline]
    fn header(&self, slot: u32) -> Header {
        self.arena.header(self.base + slot)
    }

    #[inline]
    fn hash_at(&self, slot: u32) -> Hash {
        Hash::of(self.arena.block(self.base + slot))
    }

    /// Returns the newest held version of a block.
    #[inline]
    fn current(&self, block: u64) -> Option<(u32, Header)> {
        self.current_after(block, |_| ())
    }

    /// [`Shard::current`], which calls `named` with every slot that the index names for the block,
    /// before it reads the slot's header.
    #[inline]
    fn current_after(&self, block: u64, named: impl Fn(u32)) -> Option<(u32, Header)> {
        let mut header = None;
        let slot = self.index.find(Hash::of(block), |slot| {
            named(slot);
            let found = self.header(slot);
            let is_it = found.block == block && !found.shadowed;
            if is_it {
                header = Some(found);
            }
            is_it
        })?;
        Some((slot, header?))
    }

    /// Returns a version of a block that must still become durable although a newer one exists.
    fn shadowed(&self, block: u64) -> Option<(u32, Header)> {
        let slot = self.index.find(Hash::of(block), |slot| {
            let found = self.header(slot);
            found.block == block && found.shadowed && found.state.is_dirty()
        })?;
        Some((slot, self.header(slot)))
    }

    /// Returns the sectors of a block that memory can answer.
    #[inline]
    fn presence(&self, block: u64) -> u8 {
        match self.current(block) {
            Some((_, header)) => header.mask,
            None if self.zeroes.cover(block) => 0xff,
            None => 0,
        }
    }

    #[inline]
    fn is_open(&self, header: &Header) -> bool {
        header.epoch == self.epoch as u16
    }

    /// Whether a dirty version belongs to the epoch that is being written back.
    #[inline]
    fn is_closing(&self, header: &Header) -> bool {
        header.epoch == self.closing_epoch as u16
    }

    /// Returns the index in the chain of the epoch of a dirty version.
    fn link_of(&self, header: &Header) -> usize {
        usize::from(header.epoch.wrapping_sub(self.closing_epoch as u16 + 1))
    }

    /// Counts accesses to blocks, of which `missed` were not held, and reports them to the
    /// samplers.
    #[inline]
    fn accessed(&mut self, first: u64, blocks: u32, missed: u32, access: Access) {
        self.counters.block_accesses.add(u64::from(blocks));
        self.counters.block_misses.add(u64::from(missed));
        if access == Access::Read {
            self.counters.block_read_misses.add(u64::from(missed));
        }
        for block in first..first + u64::from(blocks) {
            let hash = Hash::of(block);
            if self.samplers.take(hash) {
                let accesses = self.counters.block_accesses.get();
                let now = Counted { accesses, misses: self.counters.block_misses.get() };
                self.sampling.access(hash, access, &mut self.reported, now);
                if access == Access::Read {
                    self.streams.note_read(hash);
                }
            }
        }
    }

    /// Passes the window's share to the policy.
    fn adapt(&mut self) {
        if let Some(share) = self.sampling.window_share() {
            self.policy.set_window_share(share);
        }
    }

    /// Slots that can be taken: free, clean, or with compressed blocks.
    fn available(&self) -> u32 {
        self.free.length + self.policy.clean() + self.ahead.slots() + self.tier.pages()
    }

    /// Takes a slot for a block, in no list and empty; evicts a block if necessary.
    fn take_slot(&mut self, block: u64) -> Option<u32> {
        self.adapt();
        if let Some(slot) = self.pop_free() {
            return Some(slot);
        }
        self.take_least_wanted()
            .or_else(|| self.take_victim(block))
            .or_else(|| self.take_bypassed(0))
            .or_else(|| self.take_unread())
            .or_else(|| self.take_page())
    }

    /// Takes a slot that goes before all blocks of the policy, in no list and empty.
    fn take_least_wanted(&mut self) -> Option<u32> {
        self.take_bypassed_or_stale()
            .or_else(|| self.take_listed())
            .or_else(|| self.take_excess_page())
    }

    /// Takes the slot that the policy evicts, in no list and empty.
    fn take_victim(&mut self, block: u64) -> Option<u32> {
        let slot = self.next_victim(Hash::of(block))?;
        self.count_uncompressed_eviction();
        self.evict(slot);
        Some(slot)
    }

    /// Returns the slot that the policy evicts next. `candidate`: the block that would take it.
    fn next_victim(&mut self, candidate: Hash) -> Option<u32> {
        self.policy.set_room(self.slots - self.tier.pages(), self.free.length);
        let (arena, base) = (&self.arena, self.base);
        let hash_of = |slot| Hash::of(arena.block(base + slot));
        self.policy.victim(&mut self.links, candidate, hash_of)
    }

    /// Evicts the block of a slot of the policy: the slot is in no list and empty afterwards.
    fn evict(&mut self, slot: u32) {
        self.prefetch_victims_after(slot);
        self.policy.forget(&mut self.links, slot, Held::Clean);
        self.note_lost_copy(&self.header(slot));
        let hash = self.hash_at(slot);
        self.unindex(hash, slot);
        self.arena.free(self.base + slot);
        self.counters.blocks_retained_wasted.add(self.retained.remove(slot).into());
        self.counters.evictions.add(1);
        self.ahead.evicted();
    }

    /// Prefetches the memory that the next evictions will touch, if the policy evicts the slots
    /// behind this one in its list: of the next slot its cell in the index, of the slot behind that
    /// one its header and links, from which the next call reads.
    fn prefetch_victims_after(&self, slot: u32) {
        let next = self.links.after(slot);
        if next == NIL {
            return;
        }
        self.index.prefetch(self.hash_at(next));
        let second = self.links.after(next);
        if second != NIL {
            self.arena.prefetch_header(self.base + second);
            block::prefetch(self.links.link(second));
        }
    }

    /// Takes a free slot, in no list and empty.
    #[inline]
    fn pop_free(&mut self) -> Option<u32> {
        let slot = self.links.pop_front(&mut self.free);
        // Also without a free slot: the tier may have just got its first share.
        self.note_free_slots();
        if slot.is_some() {
            self.counters.blocks_held.set(self.held().into());
        }
        slot
    }

    fn free_slot(&mut self, slot: u32) {
        self.arena.free(self.base + slot);
        self.counters.blocks_retained_wasted.add(self.retained.remove(slot).into());
        // A clean slot was removed from the policy when it left its list.
        self.policy.forget(&mut self.links, slot, Held::Dirty);
        self.links.push_back(&mut self.free, slot);
        self.counters.blocks_held.set(self.held().into());
    }

    fn index_slot(&mut self, block: u64, slot: u32) {
        self.forget_compressed(block);
        self.index.insert(Hash::of(block), slot);
        self.regions.add(block);
    }

    fn unindex(&mut self, hash: Hash, slot: u32) {
        let (arena, base) = (&self.arena, self.base);
        self.regions.remove(arena.block(base + slot));
        self.index.remove(hash, slot, |other| Hash::of(arena.block(base + other)));
    }

    /// Removes a slot from the list that its header names. A dirty slot is no longer counted.
    fn unlink(&mut self, gauges: &Gauges, slot: u32, header: &Header) {
        let (list, stage) = match header.state {
            State::Clean if header.is_ahead() => return self.unlink_ahead(slot, header),
            State::Clean => {
                return self.policy.forget(&mut self.links, slot, Held::Clean);
            }
            State::Dirty if self.is_open(header) => (&mut self.open, Stage::Open),
            State::Dirty if self.is_closing(header) => (&mut self.closing, Stage::Closing),
            State::Dirty => {
                let link = self.link_of(header);
                (&mut self.chain[link], Stage::Closed)
            }
            State::Written if self.is_closing(header) => (&mut self.written, Stage::Written),
            State::Written => {
                self.unlink_early(slot);
                self.dirty -= 1;
                return gauges.block_dropped(Stage::Settling);
            }
            State::Writing | State::Free => panic!("a {:?} slot is in no list", header.state),
        };
        self.links.remove(list, slot);
        self.dirty -= 1;
        gauges.block_dropped(stage);
    }

    /// Drops a version: its slot is free afterwards.
    fn retire(&mut self, gauges: &Gauges, slot: u32, header: &Header) {
        self.unlink(gauges, slot, header);
        self.unindex(Hash::of(header.block), slot);
        self.free_slot(slot);
    }

    /// Marks a version as shadowed by a newer one; it stays until it is durable.
    fn shadow(&mut self, slot: u32, header: &Header) {
        self.arena.publish(self.base + slot, &Header { shadowed: true, ..*header });
    }

    /// Publishes a clean slot with these sectors of a block that is in no other slot. `stamp`: see
    /// [`Shard::stamp_of`].
    fn publish_clean(&mut self, slot: u32, block: u64, mask: u8, stamp: u32, cause: Cause) {
        let header = Header::of_copy(block, mask, Clean::Kept, stamp);
        self.arena.publish(self.base + slot, &header);
        let hash = Hash::of(block);
        self.index_slot(block, slot);
        self.policy.admit(&mut self.links, slot, hash, cause);
    }

    /// The lengths of the policy's lists.
    pub(crate) fn queues(&self) -> impl Iterator<Item = u32> {
        self.policy.lists().iter().map(|list| list.length)
    }

    /// The number of slots that hold a block.
    pub(crate) fn held(&self) -> u32 {
        self.slots - self.free.length - self.tier.pages()
    }

    /// Whether a block can be cached without evicting another one.
    pub(crate) fn has_room(&self) -> bool {
        self.free_slots() > 0
    }

    /// Brings the counter of saved time up to date.
    #[inline]
    pub(crate) fn settle(&mut self, gauges: &Gauges) {
        self.saving.settle(&self.counters, gauges.saved_per_hit_ns());
    }

    /// Whether blocks should be evicted ahead of need, to read without the lock.
    pub(crate) fn compression_due(&self) -> Arc<AtomicBool> {
        self.compression_due.clone()
    }

    /// The data that may be read without the lock.
    pub(crate) fn hints(&self) -> Prefetcher {
        let (cells, links) = (self.index.hints(), self.links.clone());
        Prefetcher { cells, links, arena: self.arena.clone(), base: self.base }
    }

    /// The number of dirty slots in a list; the others are in flight to the backing.
    fn listed(&self) -> u32 {
        let waiting: u32 = self.chain.iter().map(|list| list.length).sum();
        let written = self.written.length + self.early.written.length;
        self.open.length + waiting + self.closing.length + written
    }

    /// Checks every invariant of this shard's data. For the laboratory: it walks everything.
    ///
    /// # Panics
    /// If one does not hold.
    pub(crate) fn check(&self, gauges: &Gauges) -> Checked {
        let walk = |list: &List, is_it: &dyn Fn(&Header) -> bool| {
            let mut slot = list.head;
            let mut length = 0;
            while slot != NIL {
                let header = self.header(slot);
                assert!(is_it(&header), "slot {slot} is in the wrong list: {header:?}");
                let verified = self.arena.verified(self.base + slot);
                assert!(header.state == State::Free || verified == Some(header), "{header:?}");
                length += 1;
                slot = self.links.after(slot);
            }
            assert_eq!(length, list.length);
        };
        walk(&self.free, &|header| header.state == State::Free);
        assert_eq!(self.counters.blocks_held.get(), u64::from(self.held()), "slots that are held");
        walk(&self.open, &|header| {
            header.state == State::Dirty && self.is_open(header) && !header.shadowed
        });
        walk(&self.closing, &|header| header.state == State::Dirty && self.is_closing(header));
        assert_eq!(self.chain.len() as u64, self.epoch - self.closing_epoch - 1, "links missing");
        for (link, list) in self.chain.iter().enumerate() {
            let is_its = |header: &Header| self.link_of(header) == link && !self.is_open(header);
            walk(list, &|header| header.state == State::Dirty && is_its(header));
        }
        walk(&self.written, &|header| header.state == State::Written && self.is_closing(header));
        walk(&self.early.written, &|header| {
            let is_first = || self.link_of(header) == 0;
            header.state == State::Written && (self.is_open(header) || is_first())
        });
        for clean in self.policy.lists() {
            let is_it = |header: &Header| header.state == State::Clean && !header.shadowed;
            walk(clean, &|header| is_it(header) && !header.is_ahead());
        }
        for (list, held) in self.ahead.lists() {
            walk(list, &|header| header.is_ahead() && held.contains(&header.clean()));
        }
        let idle = self.available();
        let writing = self.slots - idle - self.listed() - self.unanswered;
        let dirty = self.listed() + writing;
        assert_eq!(dirty, self.dirty, "dirty slots are counted wrongly");
        assert_eq!(self.regions.sum(), self.held(), "slots of regions are counted wrongly");
        for slot in 0..self.slots {
            let header = self.header(slot);
            if header.state == State::Free {
                continue;
            }
            assert!(self.regions.may_have(header.block), "{header:?} is in no region");
            // One current version, and one of each epoch, besides a version of it in flight.
            let mut found = [0; 2];
            self.index.find(Hash::of(header.block), |other| {
                let (mine, other) = (other == slot, self.header(other));
                let under_way = |one: &Header| one.shadowed && one.state == State::Writing;
                let alike = !header.shadowed && !other.shadowed
                    || header.is_unanswered() && other.is_unanswered()
                    || header.state.is_dirty()
                        && other.state.is_dirty()
                        && other.epoch == header.epoch
                        && (mine || !under_way(&header) && !under_way(&other));
                found[0] += u32::from(mine);
                found[1] += u32::from(other.block == header.block && alike);
                false
            });
            assert_eq!(found, [1, 1], "{header:?} is held twice, or not named");
        }
        self.check_tier();
        assert!(gauges.dirty() >= self.dirty);
        let unread = self.ahead.unread_or_coming();
        Checked { dirty: self.dirty, open: self.open.length, under_way: self.early.writing, unread }
    }
}

/// Prefetches the memory that reads will touch, without the lock: a locked instruction would end
/// the overlap of the memory accesses. The data that it reads may be slightly outdated; it is used
/// for prefetching only.
pub(crate) struct Prefetcher {
    cells: Hints,
    links: Links,
    arena: Arena,
    base: u32,
}

impl Prefetcher {
    /// First a block's entry in the index ...
    #[inline]
    pub(crate) fn prefetch_cell(&self, block: u64) {
        self.cells.prefetch(Hash::of(block));
    }

    /// ... then its header, its bytes and its links; returns the slot ...
    #[inline]
    pub(crate) fn prefetch_slot(&self, block: u64) -> Option<u32> {
        let slot = self.cells.slot(Hash::of(block))?;
        self.arena.prefetch(self.base + slot);
        block::prefetch(self.links.link(slot));
        Some(slot)
    }

    /// ... then the links beside it.
    #[inline]
    pub(crate) fn prefetch_neighbours(&self, slot: u32) {
        self.links.neighbours(slot).for_each(block::prefetch);
    }
}
