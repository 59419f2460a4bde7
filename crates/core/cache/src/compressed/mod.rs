//! The compressed tier of a shard: clean blocks that the policy has evicted, compressed, in slots
//! that they share.
//!
//! ```text
//!   pages: slots in the order in which they are filled
//!
//!   | 7: oldest              | 8          | 9                      | 10: newest             |
//!   | (dead) object | object | (released) | object | object | obje  | ct | object | room ... |
//!                                                                                 ^ cursor
//! ```
//!
//! New objects are appended at the cursor, so no space is lost between them. A page without a live
//! object is released at once. If the tier is full, the oldest page is released: objects that were
//! read since they were stored are appended again, the others are dropped. So the order of the
//! pages is the policy of the tier (FIFO with a second chance), and the release of the oldest page
//! is also its compaction.
//!
//! An object equals the backing, like a clean slot: each change of its block removes it, in the
//! same section in which the change marks the fetches in flight. Readers copy an object's bytes
//! under the lock and decode them after it, so nothing has to be pinned.
//!
//! The headers of the pages' slots say that they are free: a successor finds none of the objects.

pub(crate) mod decoder;
mod economics;
mod pending;
#[cfg(test)]
mod tests;

use crate::arena::Arena;
use crate::bypass::balance::{Pressure, Reads};
use crate::geometry::Geometry;
use crate::slots::index::{self, Index};
use crate::slots::regions::RegionCounts;
use crate::stats::counters::Counters;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use block::Compress;
use economics::Economics;
use lane::atomic::{AtomicBool, Ordering};
use lane::{Event, Lock};
use packing::{Encoding, Incompressible};
use pending::Pending;
use policy::{Hash, NIL};

pub(crate) use pending::Ticket;

/// Minimum length of an object: a repeated word.
const BYTES_MIN: usize = 8;
/// Maximum number of objects, for each slot of the shard.
const OBJECTS_PER_SLOT: u32 = 2;

/// Slots that usually become free at a time.
const RELEASED_ROOM: usize = 64;

/// A compressed block: 20 bytes.
#[derive(Clone, Copy)]
struct Object {
    /// The block's number, in two parts. `block_high` is [`DEAD`] if there is no block.
    block_low: u32,
    block_high: u8,
    encoding: Encoding,
    /// Whether it was read since it was stored.
    is_used: bool,
    /// The offset in its page, in bytes.
    at: u16,
    /// The length in bytes; it may go on in the next page.
    bytes: u16,
    /// The number of the page in which it begins.
    page: u32,
    /// The next object that begins in this page; in a free object, the next free one.
    next: u32,
}

/// Blocks have 40 bits, and no volume has the last ones.
const DEAD: u8 = 0xff;

impl Object {
    fn block(&self) -> u64 {
        u64::from(self.block_high) << 32 | u64::from(self.block_low)
    }

    fn is_dead(&self) -> bool {
        self.block_high == DEAD
    }
}

/// A slot with objects.
struct Page {
    /// [`NIL`]: released.
    slot: u32,
    /// The last stored object that begins here.
    first: u32,
    /// Live objects that have bytes here.
    live: u32,
}

/// An object that is copied out.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Copied {
    pub(crate) block: u64,
    pub(crate) encoding: Encoding,
    pub(crate) bytes: usize,
}

/// Objects that are copied out, one behind the other.
#[derive(Default)]
pub(crate) struct Copies {
    pub(crate) objects: Vec<Copied>,
    pub(crate) data: Vec<u8>,
}

impl Copies {
    /// Makes an empty one with room for this many objects and bytes.
    pub(crate) fn with_capacity(objects: usize, bytes: usize) -> Copies {
        Copies { objects: Vec::with_capacity(objects), data: Vec::with_capacity(bytes) }
    }

    /// Makes an empty one with room for all objects of a page, of which the last may go on in the
    /// next one.
    pub(crate) fn for_page(page_bytes: usize) -> Copies {
        Copies::with_capacity(page_bytes / BYTES_MIN, 2 * page_bytes)
    }

    pub(crate) fn clear(&mut self) {
        self.objects.clear();
        self.data.clear();
    }

    /// Returns each object with its bytes.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (Copied, &[u8])> {
        let mut rest = &self.data[..];
        self.objects.iter().map(move |object| {
            let (bytes, behind) = rest.split_at(object.bytes);
            rest = behind;
            (*object, bytes)
        })
    }
}

/// The part of compression that a volume's lanes share.
pub(crate) struct Compression {
    /// Notified when there may be blocks to compress, or pages to release.
    pub(crate) work: Event,
    economics: Lock<Economics>,
    /// It does not pay at the moment.
    paused: AtomicBool,
}

impl Compression {
    /// Makes the shared part of a cache of this many slots.
    pub(crate) fn new(slots: u32) -> Compression {
        let economics = Lock::new(Economics::new(slots));
        Compression { work: Event::new(), economics, paused: AtomicBool::new(false) }
    }

    /// Whether blocks are compressed at the moment, with this setting.
    #[inline]
    pub(crate) fn is_on(&self, setting: Compress) -> bool {
        match setting {
            Compress::Off => false,
            Compress::Auto => !self.paused.load(Ordering::Relaxed),
            Compress::Lz4 | Compress::Zstd => true,
        }
    }

    /// Judges the time since the last call: see [`Economics::judge`].
    pub(crate) fn judge(
        &self,
        counters: &Counters,
        reads: &Reads,
        pressure: Pressure,
        now_ns: u64,
    ) {
        let pays =
            self.economics.with(|economics| economics.judge(counters, reads, pressure, now_ns));
        if self.paused.swap(!pays, Ordering::Relaxed) == pays {
            self.work.notify();
        }
    }
}

/// The compressed tier of a shard.
pub(crate) struct Tier {
    slots: u32,
    page_bytes: usize,
    objects: Vec<Object>,
    objects_max: u32,
    /// The first free object.
    free: u32,
    index: Index,
    /// The regions of the live objects.
    regions: RegionCounts,
    /// Pages from the oldest on.
    pages: VecDeque<Page>,
    /// The number of the oldest page.
    oldest: u32,
    /// The number of the page in which the next object begins, and the offset in it.
    cursor_page: u32,
    cursor: usize,
    /// Pages that have a slot.
    pages_held: u32,
    /// Slots that have become free.
    released: Vec<u32>,
    held: u32,
    pending: Pending,
    incompressible: Incompressible,
}

impl Tier {
    /// Makes a tier that has no memory until [`Tier::open`].
    pub(crate) fn new(geometry: &Geometry, slot_bytes: usize) -> Tier {
        Tier {
            slots: geometry.slots_per_shard(),
            page_bytes: slot_bytes,
            objects: Vec::new(),
            objects_max: 0,
            free: NIL,
            index: Index::new(0),
            regions: RegionCounts::new(geometry),
            pages: VecDeque::new(),
            oldest: 0,
            cursor_page: 0,
            cursor: 0,
            pages_held: 0,
            released: Vec::new(),
            held: 0,
            pending: Pending::new(),
            incompressible: Incompressible::new(0),
        }
    }

    /// Allocates the tables, if that was not done. Until then nothing can be stored.
    pub(crate) fn open(&mut self) {
        if self.objects_max > 0 {
            return;
        }
        self.objects_max = self.slots.saturating_mul(OBJECTS_PER_SLOT).min(index::SLOTS_MAX);
        self.objects.reserve_exact(self.objects_max as usize);
        self.index = Index::new(self.objects_max);
        self.pages.reserve_exact(self.slots as usize);
        self.released.reserve_exact(RELEASED_ROOM);
        self.incompressible = Incompressible::new(self.slots);
    }

    /// Whether blocks can be stored.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.objects_max > 0
    }

    /// Releases the tables of an empty tier.
    pub(crate) fn close(&mut self) {
        debug_assert_eq!((self.held, self.pages_held), (0, 0));
        (self.objects, self.objects_max, self.free) = (Vec::new(), 0, NIL);
        (self.index, self.pages) = (Index::new(0), VecDeque::new());
        self.incompressible = Incompressible::new(0);
    }

    /// Number of blocks in it.
    #[inline]
    pub(crate) fn held(&self) -> u32 {
        self.held
    }

    /// Number of slots that it uses.
    #[inline]
    pub(crate) fn pages(&self) -> u32 {
        self.pages_held
    }

    /// Whether a change need not be reported to it.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.held == 0 && self.pending.is_empty()
    }

    fn find(&self, block: u64) -> Option<u32> {
        if self.held == 0 {
            return None;
        }
        self.index.find(Hash::of(block), |number| self.objects[number as usize].block() == block)
    }

    /// Whether it has this block.
    #[inline]
    pub(crate) fn has(&self, block: u64) -> bool {
        self.find(block).is_some()
    }

    /// Whether it has this block, or is about to.
    pub(crate) fn has_or_awaits(&self, block: u64) -> bool {
        self.has(block) || self.pending.has(block)
    }

    /// Whether it has this block, and the block was not read since it was stored.
    pub(crate) fn is_unused(&self, block: u64) -> bool {
        self.find(block).is_some_and(|number| !self.objects[number as usize].is_used)
    }

    /// Whether it has this block, and the block was read since it was stored.
    pub(crate) fn was_read(&self, block: u64) -> bool {
        self.find(block).is_some_and(|number| self.objects[number as usize].is_used)
    }

    /// Notes a read of a block. Returns whether an earlier one was noted.
    pub(crate) fn note_use(&mut self, block: u64) -> bool {
        let Some(number) = self.find(block) else { return false };
        core::mem::replace(&mut self.objects[number as usize].is_used, true)
    }

    /// Whether to try to compress a block: not while its region was found to be incompressible. A
    /// region that has compressed blocks is always tried. Its other blocks are evicted more often,
    /// so a count of failures alone would take it for an incompressible one.
    pub(crate) fn is_to_try(&mut self, block: u64) -> bool {
        self.regions.may_have(block) || self.incompressible.is_to_try(block)
    }

    /// Notes whether a block became small enough.
    pub(crate) fn note_trial(&mut self, block: u64, is_compressible: bool) {
        self.incompressible.record(block, is_compressible);
    }

    /// Begins the compression of a block: a change cancels it. None: too many are under way.
    pub(crate) fn begin(&mut self, block: u64) -> Option<Ticket> {
        self.pending.begin(block)
    }

    /// Ends the compression of a block. Returns the block, unless a change has cancelled it.
    pub(crate) fn end(&mut self, ticket: Ticket) -> Option<u64> {
        self.pending.end(ticket)
    }

    /// Removes a block, because it is changed or cached uncompressed.
    pub(crate) fn forget(&mut self, block: u64) {
        self.pending.cancel(block..block + 1);
        if let Some(number) = self.find(block) {
            self.kill(number);
        }
    }

    /// Removes blocks of one region, because they are changed.
    pub(crate) fn forget_all(&mut self, blocks: core::ops::Range<u64>) {
        self.pending.cancel(blocks.clone());
        if self.held > 0 && self.regions.may_have(blocks.start) {
            blocks.for_each(|block| self.forget(block));
        }
    }

    /// Returns a slot that has become free.
    #[inline]
    pub(crate) fn take_released(&mut self) -> Option<u32> {
        self.released.pop()
    }

    /// Appends a copy of a block's bytes. Returns false if it has no such block.
    pub(crate) fn copy(&self, arena: &Arena, base: u32, block: u64, into: &mut Copies) -> bool {
        let Some(number) = self.find(block) else { return false };
        self.copy_object(arena, base, &self.objects[number as usize], into);
        true
    }

    fn copy_object(&self, arena: &Arena, base: u32, object: &Object, into: &mut Copies) {
        let (start, bytes) = (into.data.len(), usize::from(object.bytes));
        into.data.resize(start + bytes, 0);
        let data = &mut into.data[start..];
        let near = bytes.min(self.page_bytes - usize::from(object.at));
        let slot = |page| base + self.page(page).slot;
        arena.read_bytes(slot(object.page), object.at.into(), &mut data[..near]);
        if near < bytes {
            arena.read_bytes(slot(object.page.wrapping_add(1)), 0, &mut data[near..]);
        }
        let Object { encoding, .. } = *object;
        into.objects.push(Copied { block: object.block(), encoding, bytes });
    }

    /// Bytes that can be stored without another page.
    fn room(&self) -> usize {
        if self.pages.is_empty() {
            return 0;
        }
        let newest = self.oldest.wrapping_add(self.pages.len() as u32);
        let pages = newest.wrapping_sub(self.cursor_page) as usize;
        (pages * self.page_bytes).saturating_sub(self.cursor)
    }

    /// Whether an object of this many bytes needs another page first.
    pub(crate) fn needs_page(&self, bytes: usize) -> bool {
        self.room() < bytes
    }

    /// Whether another object can be stored only if one is dropped.
    pub(crate) fn is_full(&self) -> bool {
        let has_object = self.free != NIL || self.objects.len() < self.objects_max as usize;
        !has_object || self.pages.len() + 2 > self.pages.capacity()
    }

    /// Adds a slot.
    pub(crate) fn add_page(&mut self, slot: u32) {
        if self.pages.is_empty() {
            (self.oldest, self.cursor) = (self.cursor_page, 0);
        }
        self.pages.push_back(Page { slot, first: NIL, live: 0 });
        self.pages_held += 1;
    }

    /// Stores a block that it does not have.
    ///
    /// # Panics
    /// If [`Tier::needs_page`] or [`Tier::is_full`].
    pub(crate) fn store(
        &mut self,
        arena: &Arena,
        base: u32,
        block: u64,
        encoding: Encoding,
        data: &[u8],
    ) {
        assert!(!self.needs_page(data.len()) && !data.is_empty());
        if self.cursor == self.page_bytes {
            self.advance();
        }
        let (page, at) = (self.cursor_page, self.cursor);
        let near = data.len().min(self.page_bytes - at);
        arena.write_bytes(base + self.page(page).slot, at, &data[..near]);
        self.cursor = at + near;
        let object = Object {
            block_low: block as u32,
            block_high: (block >> 32) as u8,
            encoding,
            is_used: false,
            at: at as u16,
            bytes: data.len() as u16,
            page,
            next: self.page(page).first,
        };
        let number = self.take_object(object);
        let first = self.page_mut(page);
        (first.first, first.live) = (number, first.live + 1);
        if near < data.len() {
            self.advance();
            let rest = self.page_mut(self.cursor_page);
            rest.live += 1;
            arena.write_bytes(base + rest.slot, 0, &data[near..]);
            self.cursor = data.len() - near;
        }
        self.index.insert(Hash::of(block), number);
        self.regions.add(block);
        self.held += 1;
    }

    /// Moves the cursor to the next page.
    fn advance(&mut self) {
        let filled = self.cursor_page;
        (self.cursor_page, self.cursor) = (filled.wrapping_add(1), 0);
        self.release_if_dead(filled);
    }

    /// Drops the objects of the oldest page that is filled, and releases it. `again`: receives
    /// those that were read since they were stored. Returns false if there is no such page.
    pub(crate) fn evict_oldest(
        &mut self,
        arena: &Arena,
        base: u32,
        mut again: Option<&mut Copies>,
    ) -> bool {
        if self.pages_held == 0 {
            return false;
        }
        if self.oldest == self.cursor_page {
            // Nothing is stored behind it yet.
            let Some(page) = self.pages.front() else { return false };
            if page.live == 0 {
                return self.release_all();
            }
        }
        let mut next = self.pages[0].first;
        while next != NIL {
            let object = self.objects[next as usize];
            if !object.is_dead() {
                if object.is_used
                    && let Some(again) = again.as_deref_mut()
                {
                    self.copy_object(arena, base, &object, again);
                }
                self.kill(next);
            }
            // Unless the page was released, with its list.
            next = if self.pages_begin_at(object.page) { object.next } else { NIL };
        }
        if self.oldest == self.cursor_page && self.pages.front().is_some_and(|page| page.live == 0)
        {
            self.release_all();
        }
        true
    }

    fn pages_begin_at(&self, page: u32) -> bool {
        !self.pages.is_empty() && self.oldest == page
    }

    /// Releases all pages, which have no live object.
    fn release_all(&mut self) -> bool {
        while let Some(page) = self.pages.front() {
            let slot = page.slot;
            self.free_objects(0);
            self.pages.pop_front();
            if slot != NIL {
                self.pages_held -= 1;
                self.released.push(slot);
            }
        }
        (self.cursor_page, self.cursor) = (self.cursor_page.wrapping_add(1), 0);
        self.oldest = self.cursor_page;
        true
    }

    fn page(&self, number: u32) -> &Page {
        &self.pages[number.wrapping_sub(self.oldest) as usize]
    }

    fn page_mut(&mut self, number: u32) -> &mut Page {
        &mut self.pages[number.wrapping_sub(self.oldest) as usize]
    }

    fn take_object(&mut self, object: Object) -> u32 {
        if self.free == NIL {
            assert!(self.objects.len() < self.objects_max as usize, "asked is_full before");
            self.objects.push(object);
            return self.objects.len() as u32 - 1;
        }
        let number = self.free;
        self.free = self.objects[number as usize].next;
        self.objects[number as usize] = object;
        number
    }

    /// Makes a live object a dead one. Releases its pages if they have no live object any more.
    fn kill(&mut self, number: u32) {
        let object = self.objects[number as usize];
        let objects = &self.objects;
        self.index.remove(Hash::of(object.block()), number, |other| {
            Hash::of(objects[other as usize].block())
        });
        self.regions.remove(object.block());
        self.held -= 1;
        self.objects[number as usize].block_high = DEAD;
        let goes_on = usize::from(object.at) + usize::from(object.bytes) > self.page_bytes;
        if goes_on {
            let next = object.page.wrapping_add(1);
            self.page_mut(next).live -= 1;
            self.release_if_dead(next);
        }
        self.page_mut(object.page).live -= 1;
        self.release_if_dead(object.page);
    }

    /// Releases a page that is filled and has no live object.
    fn release_if_dead(&mut self, number: u32) {
        if number == self.cursor_page || self.page(number).live > 0 {
            return;
        }
        let index = number.wrapping_sub(self.oldest) as usize;
        // A page behind the cursor has nothing yet.
        if index >= self.cursor_page.wrapping_sub(self.oldest) as usize {
            return;
        }
        self.free_objects(index);
        let slot = core::mem::replace(&mut self.pages[index].slot, NIL);
        if slot != NIL {
            self.pages_held -= 1;
            self.released.push(slot);
        }
        while self.oldest != self.cursor_page && self.pages[0].slot == NIL {
            self.pages.pop_front();
            self.oldest = self.oldest.wrapping_add(1);
        }
    }

    /// Frees the objects of a page, which are dead.
    fn free_objects(&mut self, index: usize) {
        let mut next = core::mem::replace(&mut self.pages[index].first, NIL);
        while next != NIL {
            let object = &mut self.objects[next as usize];
            debug_assert!(object.is_dead());
            let after = core::mem::replace(&mut object.next, self.free);
            self.free = core::mem::replace(&mut next, after);
        }
    }

    /// The blocks in it.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = u64> {
        let objects = self.objects.iter().filter(|object| !object.is_dead());
        objects.map(Object::block)
    }

    /// Checks every invariant. For the laboratory: it walks everything.
    ///
    /// # Panics
    /// If one does not hold.
    pub(crate) fn check(&self, is_cached: impl Fn(u64) -> bool) {
        let mut live = alloc::vec![0; self.pages.len()];
        let mut held = 0;
        for (index, page) in self.pages.iter().enumerate() {
            let mut next = page.first;
            while next != NIL {
                let object = &self.objects[next as usize];
                next = object.next;
                if object.is_dead() {
                    continue;
                }
                let (block, length) = (object.block(), usize::from(object.bytes));
                assert!(!is_cached(block), "block {block} is cached twice");
                assert!(
                    self.find(block)
                        .is_some_and(|it| self.objects[it as usize].page == object.page),
                    "block {block} is compressed twice"
                );
                assert_eq!(object.page.wrapping_sub(self.oldest) as usize, index);
                live[index] += 1;
                if usize::from(object.at) + length > self.page_bytes {
                    live[index + 1] += 1;
                }
                held += 1;
            }
        }
        assert_eq!(held, self.held, "objects are counted wrongly");
        assert_eq!(self.regions.sum(), held);
        let counted: Vec<u32> = self.pages.iter().map(|page| page.live).collect();
        assert_eq!(live, counted, "live objects of pages");
        let slots = self.pages.iter().filter(|page| page.slot != NIL).count();
        assert_eq!(slots as u32, self.pages_held, "pages are counted wrongly");
    }
}
