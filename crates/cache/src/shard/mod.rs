//! A shard: everything about its blocks, under one lock. Nothing here waits; every function is one
//! decision over plain data.
//!
//! Where a slot is linked follows from its header:
//!
//! ```text
//!  Free --> Clean (policy) <------------------------------ Written (written)
//!    \                        backing flushed                ^   |
//!     \                                           run done   |   | backing's flush failed
//!      --> Dirty, open --> Dirty, closed --> Dirty, being written out --> Writing (with its run)
//!          (open)     close    (chain)  begin       (closing)        next_run
//! ```
//!
//! (`early.rs` draws the way of those that are written out before their epoch is closed.)
//!
//! At most one *current* version of a block exists; older ones, one an epoch, may stand beside it,
//! *shadowed*, until they are durable.

mod change;
mod discard;
mod early;
mod pass;
mod read;
mod rebuild;
mod status;
#[cfg(test)]
mod tests;
mod write_out;

use crate::BLOCK_SECTORS;
use crate::arena::{Arena, Header, State};
use crate::counters::{Counters, Saving};
use crate::fills::Fills;
use crate::index::{Hash, Hints, Index};
use crate::lists::{Links, List, NIL};
use crate::order::CHAIN_MAX;
use crate::passes::Passes;
use crate::planted::{Bug, planted};
use crate::policy::Policy;
use crate::recovery;
use crate::settings::{Geometry, Settings};
use crate::worth::Worth;
use crate::zeroes::Zeroes;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use block::Extent;
use core::sync::atomic::{AtomicBool, AtomicI64, AtomicU32, AtomicU64, Ordering};
use early::Early;

pub(crate) use change::{Admit, Change, Reason, Source};
pub(crate) use pass::Passed;
pub(crate) use read::{Fetch, Glance, Keeps, Look};
pub(crate) use status::Known;
pub(crate) use write_out::{Next, Run};

/// What all shards share: counts and measurements that are read inside sections.
#[derive(Debug)]
pub(crate) struct Gauges {
    /// The next admission number.
    pub(crate) sequence: AtomicU64,
    /// Dirty blocks of all epochs.
    pub(crate) dirty: AtomicU32,
    /// Dirty blocks of the open epoch.
    pub(crate) open: AtomicU32,
    /// Blocks and zeroed ranges of the epoch that is being written out that are not written yet.
    pub(crate) remaining: AtomicI64,
    /// When the open epoch's first change was admitted, plus one; 0: it has none.
    pub(crate) open_since: AtomicU64,
    /// The same of the oldest closed epoch that is not durable.
    pub(crate) closing_since: AtomicU64,
    /// Epochs that are closed, or are being closed, and not durable.
    pub(crate) closed: AtomicU32,
    /// What is closed has been promised to be durable before anything that is sent now: changes that
    /// pass wait for it, and somebody writes it out (`ordered`, and until the last epoch closed in that
    /// mode is durable).
    pub(crate) ordered: AtomicBool,
    /// A change has passed the cache since the open epoch began (`ordered`: it belongs to that epoch).
    pub(crate) passed: AtomicBool,
    /// C13: blocks that may wait to be written out, at the measured drain rate.
    pub(crate) allowance: AtomicU32,
    /// Measured latency of the backing's reads in nanoseconds; `u64::MAX`: not measured yet.
    pub(crate) backing_read_ns: AtomicU64,
    /// What a hit takes, as sampled, in nanoseconds; 0: not sampled yet.
    pub(crate) hit_ns: AtomicU64,
    /// A change waits for room: write out, whatever the level.
    pub(crate) urgent: AtomicBool,
    /// The buffer was full, and has not found room since.
    pub(crate) full: AtomicBool,
    /// The crew may write out blocks of the open epoch ...
    pub(crate) early: AtomicBool,
    /// ... while it has more than so many.
    pub(crate) early_floor: AtomicU32,
    /// Blocks that are being written out early, while their epoch is not begun.
    pub(crate) under_way: AtomicU32,
    /// Blocks that were written out early and are not known to be durable, while their epoch is not begun.
    pub(crate) settling: AtomicU32,
    /// The open epoch may hold ranges of zeros.
    pub(crate) has_ranges: AtomicBool,
}

impl Gauges {
    /// Whether what is closed goes before what passes.
    #[inline]
    pub(crate) fn is_ordered(&self) -> bool {
        self.ordered.load(Ordering::SeqCst)
    }

    /// Blocks up to which the buffer may fill, whatever becomes of them (C6).
    pub(crate) fn dirty_limit(&self, settings: &Settings) -> u32 {
        match planted(Bug::IgnoreDirtyLimit) {
            true => u32::MAX / 4,
            false => settings.dirty_blocks_max,
        }
    }

    /// Blocks that may wait to be written out (C13).
    pub(crate) fn debt_limit(&self, settings: &Settings) -> u32 {
        let hard = self.dirty_limit(settings);
        match planted(Bug::IgnoreDirtyLimit) || planted(Bug::IgnoreDebt) {
            true => hard,
            false => hard.min(self.allowance.load(Ordering::Relaxed)),
        }
    }

    /// Blocks that the open epoch may hold: nearly half of what may be dirty, so that it can fill while the
    /// closing one is written out. (An eighth of it may be on the backing already, and not durable.)
    pub(crate) fn open_limit(&self, settings: &Settings) -> u32 {
        let most = self.dirty_limit(settings);
        (most / 16 * 7 + (most % 16 * 7).div_ceil(16)).min(self.debt_limit(settings))
    }

    /// Blocks that a flush would have to write out. What is written, and only waits for the backing's own
    /// flush, is none of them; of a chain of epochs nobody counts that apart.
    pub(crate) fn debt(&self) -> u32 {
        let open = self.open.load(Ordering::Relaxed);
        match self.is_ordered() {
            true => self.dirty.load(Ordering::Relaxed).max(open),
            false => {
                let remaining = self.remaining.load(Ordering::SeqCst).max(0) as u32;
                open + self.under_way.load(Ordering::SeqCst) + remaining
            }
        }
    }

    /// What a read that is answered from memory saves at the moment; 0: not measured yet.
    fn saved_per_hit_ns(&self) -> u64 {
        match self.backing_read_ns.load(Ordering::Relaxed) {
            u64::MAX => 0,
            backing_ns => backing_ns.saturating_sub(self.hit_ns.load(Ordering::Relaxed)),
        }
    }

    /// Age of the oldest dirty data, in nanoseconds.
    pub(crate) fn age(&self, now_ns: u64) -> u64 {
        let since = |gauge: &AtomicU64| match gauge.load(Ordering::Relaxed) {
            0 => now_ns,
            since => since - 1,
        };
        now_ns.saturating_sub(since(&self.open_since).min(since(&self.closing_since)))
    }
}

/// A shard of the cache.
pub(crate) struct Shard {
    arena: Arena,
    /// The arena's number of our first slot; inside, slots are counted from 0.
    base: u32,
    slots: u32,
    run_blocks: u32,
    region_blocks: u64,
    /// The open epoch.
    epoch: u64,
    /// The epoch that is being written out, or was last. Those between it and the open one are closed
    /// and wait in the chain.
    closing_epoch: u64,
    index: Index,
    links: Links,
    policy: Policy,
    free: List,
    open: List,
    /// Closed epochs that wait to be written out, the oldest first.
    chain: VecDeque<List>,
    closing: List,
    written: List,
    early: Early,
    /// Slots that are dirty in any way.
    dirty: u32,
    zeroes: Zeroes,
    fills: Fills,
    passes: Passes,
    worth: Worth,
    /// Written blocks that a pass has failed over since: see [`Shard::passed`].
    doubtful: Vec<u64>,
    /// Some blocks of the closing list, sorted, the last one next.
    plan: Vec<(u64, u32)>,
    pub(crate) counters: Counters,
    saving: Saving,
}

/// The bits of `sectors` sectors from `sector` on.
#[inline]
pub(crate) fn bits(sector: u32, sectors: u32) -> u8 {
    ((((1u32 << sectors) - 1) << sector) & 0xff) as u8
}

/// Calls `each` with the first sector and the length of every stretch of set bits.
pub(crate) fn stretches(mask: u8, mut each: impl FnMut(u32, u32)) {
    let mut rest = u32::from(mask);
    while rest != 0 {
        let first = rest.trailing_zeros();
        let length = (rest >> first).trailing_ones();
        each(first, length);
        rest &= !(((1 << length) - 1) << first);
    }
}

/// The blocks that an extent touches: the first, and how many.
#[inline]
pub(crate) fn blocks_of(at: &Extent) -> (u64, u32) {
    let first = at.first / u64::from(BLOCK_SECTORS);
    let end = at.end().div_ceil(u64::from(BLOCK_SECTORS));
    (first, (end - first) as u32)
}

/// The blocks that an extent covers whole: the first, and how many.
pub(crate) fn whole_blocks_of(at: &Extent) -> Option<(u64, u32)> {
    let first = at.first.div_ceil(u64::from(BLOCK_SECTORS));
    let end = at.end() / u64::from(BLOCK_SECTORS);
    (end > first).then(|| (first, (end - first) as u32))
}

/// What an extent touches of one of its blocks: the first sector in the block, how many, and where
/// they stand in the extent.
#[inline]
pub(crate) fn share(at: &Extent, block: u64) -> (u32, u32, u32) {
    let start = block * u64::from(BLOCK_SECTORS);
    let first = at.first.max(start);
    let end = at.end().min(start + u64::from(BLOCK_SECTORS));
    ((first - start) as u32, (end - first) as u32, (first - at.first) as u32)
}

impl Shard {
    pub(crate) fn new(arena: Arena, number: u32, geometry: &Geometry) -> Shard {
        let slots = geometry.slots_per_shard();
        let extents = number * geometry.extents..(number + 1) * geometry.extents;
        let mut shard = Shard {
            arena,
            base: number * slots,
            slots,
            run_blocks: geometry.run_blocks,
            region_blocks: u64::from(geometry.region_blocks),
            epoch: recovery::FIRST,
            closing_epoch: recovery::FIRST - 1,
            index: Index::new(slots),
            links: Links::new(slots),
            policy: Policy::lru(),
            free: List::EMPTY,
            open: List::EMPTY,
            chain: VecDeque::with_capacity(CHAIN_MAX + 1),
            closing: List::EMPTY,
            written: List::EMPTY,
            early: Early::NONE,
            dirty: 0,
            zeroes: Zeroes::new(extents),
            fills: Fills::new(geometry.fills, geometry.run_blocks),
            passes: Passes::new(),
            worth: Worth::default(),
            doubtful: Vec::new(),
            plan: Vec::with_capacity(write_out::PLAN),
            counters: Counters::default(),
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

    /// The newest version of a block that is held.
    #[inline]
    fn current(&self, block: u64) -> Option<(u32, Header)> {
        self.current_after(block, |_| ())
    }

    /// The same; `named` hears of every slot that the index names for it, before its header is
    /// looked at.
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

    /// A version of a block that is still to become durable though a newer one exists.
    fn shadowed(&self, block: u64) -> Option<(u32, Header)> {
        let slot = self.index.find(Hash::of(block), |slot| {
            let found = self.header(slot);
            found.block == block && found.shadowed
        })?;
        Some((slot, self.header(slot)))
    }

    /// Which sectors of a block can be answered from here.
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

    /// Whether a dirty version belongs to the epoch that is being written out.
    #[inline]
    fn is_closing(&self, header: &Header) -> bool {
        header.epoch == self.closing_epoch as u16
    }

    /// Where the epoch of a dirty version stands in the chain.
    fn link_of(&self, header: &Header) -> usize {
        usize::from(header.epoch.wrapping_sub(self.closing_epoch as u16 + 1))
    }

    /// Slots that can be had: free, or clean.
    fn available(&self) -> u32 {
        self.free.length + self.policy.held()
    }

    /// A slot that holds nothing, in no list; evicts if it must.
    fn take_slot(&mut self) -> Option<u32> {
        if let Some(slot) = self.links.pop_front(&mut self.free) {
            return Some(slot);
        }
        let slot = self.policy.victim()?;
        self.policy.remove(&mut self.links, slot);
        let hash = self.hash_at(slot);
        self.unindex(hash, slot);
        self.arena.free(self.base + slot);
        self.counters.evictions += 1;
        Some(slot)
    }

    fn give_slot(&mut self, slot: u32) {
        self.arena.free(self.base + slot);
        self.links.push_back(&mut self.free, slot);
    }

    fn unindex(&mut self, hash: Hash, slot: u32) {
        let (arena, base) = (&self.arena, self.base);
        self.index.remove(hash, slot, |other| Hash::of(arena.block(base + other)));
    }

    /// Takes a slot out of the list that its header says it is in. A dirty one stops to count.
    fn unlink(&mut self, gauges: &Gauges, slot: u32, header: &Header) {
        let list = match header.state {
            State::Clean => return self.policy.remove(&mut self.links, slot),
            State::Dirty if self.is_open(header) => {
                gauges.open.fetch_sub(1, Ordering::Relaxed);
                &mut self.open
            }
            State::Dirty if self.is_closing(header) => {
                gauges.remaining.fetch_sub(1, Ordering::SeqCst);
                &mut self.closing
            }
            State::Dirty => {
                let link = self.link_of(header);
                &mut self.chain[link]
            }
            State::Written if self.is_closing(header) => &mut self.written,
            State::Written => {
                self.unlink_early(gauges, slot);
                self.dirty -= 1;
                gauges.dirty.fetch_sub(1, Ordering::Relaxed);
                return;
            }
            State::Writing | State::Free => panic!("a {:?} slot is in no list", header.state),
        };
        self.links.remove(list, slot);
        self.dirty -= 1;
        gauges.dirty.fetch_sub(1, Ordering::Relaxed);
    }

    /// Forgets a version: its slot is free afterwards.
    fn retire(&mut self, gauges: &Gauges, slot: u32, header: &Header) {
        self.unlink(gauges, slot, header);
        self.unindex(Hash::of(header.block), slot);
        self.give_slot(slot);
    }

    /// Marks a version as overtaken by a newer one; it stays until it is durable.
    fn shadow(&mut self, slot: u32, header: &Header) {
        self.arena.publish(self.base + slot, &Header { shadowed: true, ..*header });
    }

    /// Publishes a clean slot that holds these sectors of a block nobody else holds.
    fn publish_clean(&mut self, slot: u32, block: u64, mask: u8) {
        let header =
            Header { block, mask, epoch: 0, sequence: 0, state: State::Clean, shadowed: false };
        self.arena.publish(self.base + slot, &header);
        self.index.insert(Hash::of(block), slot);
        self.policy.admit(&mut self.links, slot);
    }

    /// The slots that this shard's lists, and its runs in flight, hold.
    pub(crate) fn held(&self) -> u32 {
        self.slots - self.free.length
    }

    /// Brings the time saved up to date.
    #[inline]
    pub(crate) fn settle(&mut self, gauges: &Gauges) {
        self.saving.settle(&mut self.counters, gauges.saved_per_hit_ns());
    }

    /// What may be looked at without the lock.
    pub(crate) fn hints(&self) -> Nearer {
        let (cells, links) = (self.index.hints(), self.links.clone());
        Nearer { cells, links, arena: self.arena.clone(), base: self.base }
    }

    /// Dirty slots that are in a list; the others are on their way to the backing.
    fn listed(&self) -> u32 {
        let waiting: u32 = self.chain.iter().map(|list| list.length).sum();
        let written = self.written.length + self.early.written.length;
        self.open.length + waiting + self.closing.length + written
    }

    /// Checks every invariant of this shard's data. For the laboratory: it walks everything.
    ///
    /// # Panics
    /// If one does not hold.
    pub(crate) fn check(&self, gauges: &Gauges) -> (u32, u32, u32) {
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
        let Policy::Lru(clean) = &self.policy;
        walk(clean, &|header| header.state == State::Clean && !header.shadowed);
        let idle = self.free.length + clean.length;
        let writing = self.slots - idle - self.listed();
        let dirty = self.listed() + writing;
        assert_eq!(dirty, self.dirty, "dirty slots are counted wrongly");
        for slot in 0..self.slots {
            let header = self.header(slot);
            if header.state == State::Free {
                continue;
            }
            // One current version, and one of each epoch, beside one of it that is under way.
            let mut found = [0; 2];
            self.index.find(Hash::of(header.block), |other| {
                let (mine, other) = (other == slot, self.header(other));
                let under_way = |one: &Header| one.shadowed && one.state == State::Writing;
                let alike = !header.shadowed && !other.shadowed
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
        assert!(gauges.dirty.load(Ordering::Relaxed) >= self.dirty);
        (self.dirty, self.open.length, self.early.writing)
    }
}

/// Brings nearer what reads will touch, without the lock: a locked instruction would end the overlap
/// of the waits for memory that this is for. What it sees may be a moment old; it only prefetches.
pub(crate) struct Nearer {
    cells: Hints,
    links: Links,
    arena: Arena,
    base: u32,
}

impl Nearer {
    /// First a block's place in the index ...
    #[inline]
    pub(crate) fn place(&self, block: u64) {
        self.cells.prefetch(Hash::of(block));
    }

    /// ... then its header, its bytes and its links; returns the slot ...
    #[inline]
    pub(crate) fn slot(&self, block: u64) -> Option<u32> {
        let slot = self.cells.slot(Hash::of(block))?;
        self.arena.prefetch(self.base + slot);
        self.links.prefetch(slot);
        Some(slot)
    }

    /// ... then the links beside it.
    #[inline]
    pub(crate) fn neighbours(&self, slot: u32) {
        self.links.prefetch_neighbours(slot);
    }
}
