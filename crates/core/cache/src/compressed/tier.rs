//! The tables of the compressed tier: where each block's object is, and which pages there are.

use super::copies::{Copied, Copies};
use super::pending::{Pending, Ticket};
use crate::arena::Arena;
use crate::arena::pages::{
    CHECK_BYTES, HEAD_BYTES, Head, PageMark, REMOVED, SEAL_BYTES, object_bytes,
};
use crate::geometry::Geometry;
use crate::planted::{Bug, planted};
use crate::slots::index::{self, Index};
use crate::slots::regions::RegionCounts;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};
use packing::Incompressible;
use policy::{Hash, NIL};

/// Maximum number of objects, for each slot of the shard.
pub(crate) const OBJECTS_PER_SLOT: u32 = 2;

/// Slots that usually become free at a time.
const RELEASED_ROOM: usize = 64;

/// It was read since it was stored.
const USED: u8 = 1;
/// It was taken over, and its bytes were not compared with their check.
const UNVERIFIED: u8 = 2;
/// There is no object.
const FREE: u8 = 4;

/// The place of a compressed block: 12 bytes. The rest is in the page, in front of its bytes.
#[derive(Clone, Copy)]
struct Object {
    /// The block's number, in two parts.
    block_low: u32,
    block_high: u8,
    flags: u8,
    /// The offset in its page, in bytes.
    at: u16,
    /// The number of the page in which it begins; in a free object, the next free one.
    page: u32,
}

impl Object {
    fn block(&self) -> u64 {
        u64::from(self.block_high) << 32 | u64::from(self.block_low)
    }

    fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

/// A slot with objects.
pub(super) struct Page {
    /// [`NIL`]: released.
    pub(super) slot: u32,
    /// The offset of the first object that begins here; 0: it has no mark yet.
    pub(super) first: u16,
    /// Live objects that have bytes here.
    pub(super) live: u16,
}

/// A position in the log.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Position {
    pub(super) page: u32,
    /// In bytes; not 0.
    pub(super) at: usize,
}

/// Planted bug: an object and the slots that have its bytes, with offsets and lengths.
pub(crate) struct OldPlace {
    copied: Copied,
    parts: Vec<(u32, usize, usize)>,
}

/// The compressed tier of a shard.
pub(crate) struct Tier {
    pub(super) arena: Arena,
    /// The arena's number of the shard's first slot.
    base: u32,
    slots: u32,
    pub(super) page_bytes: usize,
    objects: Vec<Object>,
    objects_max: u32,
    /// The first free object.
    free: u32,
    index: Index,
    /// The regions of the live objects.
    regions: RegionCounts,
    /// Pages from the oldest on.
    pub(super) pages: VecDeque<Page>,
    /// The number of the oldest page.
    pub(super) oldest: u32,
    /// The number of the page in which the next object begins, and the offset in it; 0: the page
    /// has no mark yet.
    pub(super) cursor_page: u32,
    pub(super) cursor: usize,
    /// Pages that have a slot.
    pub(super) pages_held: u32,
    /// Slots that have become free.
    pub(super) released: Vec<u32>,
    held: u32,
    pending: Pending,
    incompressible: Incompressible,
}

impl Tier {
    /// Makes the tier of a shard whose first slot has this number. It has no memory until
    /// [`Tier::open`].
    pub(crate) fn new(geometry: &Geometry, arena: Arena, base: u32) -> Tier {
        Tier {
            slots: geometry.slots_per_shard(),
            page_bytes: arena.slot_bytes(),
            arena,
            base,
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

    /// Number of the positions of its blocks, at most [`OBJECTS_PER_SLOT`] for each slot.
    pub(crate) fn positions(&self) -> usize {
        self.objects.len()
    }

    /// Returns the blocks at these positions.
    pub(crate) fn blocks_at(&self, positions: Range<usize>) -> impl Iterator<Item = u64> {
        let objects = self.objects.iter().skip(positions.start).take(positions.len());
        objects.filter(|object| !object.has(FREE)).map(Object::block)
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
        self.find(block).is_some_and(|number| !self.objects[number as usize].has(USED))
    }

    /// Whether it has this block, and the block was read since it was stored.
    pub(crate) fn was_read(&self, block: u64) -> bool {
        self.find(block).is_some_and(|number| self.objects[number as usize].has(USED))
    }

    /// Notes a read of a block. Returns whether an earlier one was noted.
    pub(crate) fn note_use(&mut self, block: u64) -> bool {
        let Some(number) = self.find(block) else { return false };
        let object = &mut self.objects[number as usize];
        let was_used = object.has(USED);
        object.flags |= USED;
        was_used
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
        if block == REMOVED { None } else { self.pending.begin(block) }
    }

    /// Ends the compression of a block. Returns the block, unless a change has cancelled it.
    pub(crate) fn end(&mut self, ticket: Ticket) -> Option<u64> {
        self.pending.end(ticket)
    }

    /// Removes a block, because it is changed or cached uncompressed. A successor does not find it
    /// any more.
    pub(crate) fn forget(&mut self, block: u64) {
        self.pending.cancel(block..block + 1);
        if let Some(number) = self.find(block) {
            self.kill(number);
        }
    }

    /// Removes blocks of one region, because they are changed.
    pub(crate) fn forget_all(&mut self, blocks: Range<u64>) {
        self.pending.cancel(blocks.clone());
        if self.held > 0 && self.regions.may_have(blocks.start) {
            blocks.for_each(|block| self.forget(block));
        }
    }

    /// Removes all blocks.
    pub(crate) fn drop_all(&mut self) {
        self.pending.cancel(0..u64::MAX);
        while self.evict_oldest(None) {}
    }

    /// Returns a slot that has become free.
    #[inline]
    pub(crate) fn take_released(&mut self) -> Option<u32> {
        self.released.pop()
    }

    /// Appends a copy of a block's bytes. Returns false if it has no such block.
    pub(crate) fn copy(&self, block: u64, into: &mut Copies) -> bool {
        let Some(number) = self.find(block) else { return false };
        self.copy_object(&self.objects[number as usize], into);
        true
    }

    fn copy_object(&self, object: &Object, into: &mut Copies) {
        let (data, copied) = self.describe(object);
        self.copy_data(data, copied, into);
    }

    fn copy_data(&self, data: Position, copied: Copied, into: &mut Copies) {
        let start = into.data.len();
        into.data.resize(start + copied.bytes, 0);
        self.read(data, &mut into.data[start..]);
        into.objects.push(copied);
    }

    /// Returns the position of an object's data, and all about the object except its data.
    fn describe(&self, object: &Object) -> (Position, Copied) {
        let (from, Head { encoding, bytes, .. }) = self.head_of(object);
        let mut check = [0; CHECK_BYTES];
        let data = self.read(Position { at: from.at + HEAD_BYTES, ..from }, &mut check);
        let check = u32::from_le_bytes(check);
        let is_verified = !object.has(UNVERIFIED);
        (data, Copied { block: object.block(), encoding, bytes, check, is_verified })
    }

    /// Planted bug: finds the slots that have a block's bytes, to copy them in a later section.
    pub(crate) fn slots_of(&self, block: u64) -> Option<OldPlace> {
        let number = self.find(block)?;
        let (from, copied) = self.describe(&self.objects[number as usize]);
        let mut parts = Vec::new();
        self.parts(from, copied.bytes, |page, at, part| {
            parts.push((self.slot(page), at, part.len()));
        });
        Some(OldPlace { copied, parts })
    }

    /// Planted bug: copies a block from where it was.
    pub(crate) fn copy_from(&self, place: &OldPlace, into: &mut Copies) {
        for &(slot, at, bytes) in &place.parts {
            let start = into.data.len();
            into.data.resize(start + bytes, 0);
            self.arena.read_bytes(slot, at, &mut into.data[start..]);
        }
        into.objects.push(place.copied);
    }

    /// Returns the place and the head of an object.
    fn head_of(&self, object: &Object) -> (Position, Head) {
        let from = Position { page: object.page, at: object.at.into() };
        (from, self.head(from).expect("the tier has stored a head there"))
    }

    /// Returns the head of the object that begins here.
    pub(super) fn head(&self, from: Position) -> Option<Head> {
        self.arena.object_head(self.slot(from.page), from.at)
    }

    /// Returns the arena's number of a page's slot.
    fn slot(&self, page: u32) -> u32 {
        self.number_of(self.page(page).slot)
    }

    /// Returns the arena's number of a slot of this shard.
    pub(super) fn number_of(&self, slot: u32) -> u32 {
        self.base + slot
    }

    /// Calls `each` for the parts of `bytes` bytes in their pages: with the page, the offset in it,
    /// and the range of the part. Returns the position behind the last one.
    fn parts(
        &self,
        from: Position,
        bytes: usize,
        mut each: impl FnMut(u32, usize, Range<usize>),
    ) -> Position {
        let (Position { mut page, mut at }, mut done) = (from, 0);
        while done < bytes {
            if at == self.page_bytes {
                (page, at) = (page.wrapping_add(1), SEAL_BYTES);
            }
            let part = (bytes - done).min(self.page_bytes - at);
            each(page, at, done..done + part);
            (at, done) = (at + part, done + part);
        }
        Position { page, at }
    }

    fn read(&self, from: Position, into: &mut [u8]) -> Position {
        self.parts(from, into.len(), |page, at, part| {
            self.arena.read_bytes(self.slot(page), at, &mut into[part]);
        })
    }

    fn write(&self, to: Position, data: &[u8]) -> Position {
        self.parts(to, data.len(), |page, at, part| {
            self.arena.write_object(self.slot(page), at, &data[part]);
        })
    }

    /// Returns the position behind an object with this many bytes of data that begins here.
    pub(super) fn behind(&self, from: Position, bytes: usize) -> Position {
        self.parts(from, object_bytes(bytes), |_, _, _| ())
    }

    /// Bytes that can be stored without another page.
    fn room(&self) -> usize {
        if self.pages.is_empty() {
            return 0;
        }
        let newest = self.oldest.wrapping_add(self.pages.len() as u32);
        let pages = newest.wrapping_sub(self.cursor_page) as usize;
        let used = self.cursor.saturating_sub(SEAL_BYTES);
        (pages * (self.page_bytes - SEAL_BYTES)).saturating_sub(used)
    }

    /// Whether an object with this many bytes of data needs another page first.
    pub(crate) fn needs_page(&self, bytes: usize) -> bool {
        self.room() < object_bytes(bytes)
    }

    /// Whether another object can be stored only if one is dropped.
    pub(crate) fn is_full(&self) -> bool {
        !self.has_room() || self.pages.len() + 2 > self.pages.capacity()
    }

    /// Whether the tables have room for another object.
    pub(super) fn has_room(&self) -> bool {
        self.free != NIL || self.objects.len() < self.objects_max as usize
    }

    /// Adds a slot.
    pub(crate) fn add_page(&mut self, slot: u32) {
        if self.pages.is_empty() {
            (self.oldest, self.cursor) = (self.cursor_page, 0);
        }
        self.pages.push_back(Page { slot, first: 0, live: 0 });
        self.pages_held += 1;
    }

    /// Stores a block that it does not have.
    ///
    /// # Panics
    /// If [`Tier::needs_page`] or [`Tier::is_full`].
    pub(crate) fn store(&mut self, object: &Copied, data: &[u8]) {
        assert!(!self.needs_page(data.len()) && !data.is_empty());
        if self.cursor == self.page_bytes {
            self.advance(self.cursor_page.wrapping_add(1), 0);
        }
        if self.cursor == 0 {
            self.mark_page(self.cursor_page, SEAL_BYTES);
            self.cursor = SEAL_BYTES;
        }
        let from = Position { page: self.cursor_page, at: self.cursor };
        let head = Head { block: Some(object.block), encoding: object.encoding, bytes: data.len() };
        if planted(Bug::PublishTornObject) {
            self.arena.set_object_head(self.slot(from.page), from.at, &head);
        }
        let to = Position { at: from.at + HEAD_BYTES, ..from };
        let to = self.write(to, &object.check.to_le_bytes());
        self.write(to, data);
        let end = self.behind(from, data.len());
        self.end_objects(from, end);
        self.arena.set_object_head(self.slot(from.page), from.at, &head);
        let flags = if object.is_verified { 0 } else { UNVERIFIED };
        self.enter(object.block, flags, from, end);
        let at = if planted(Bug::ShortObject) { end.at - HEAD_BYTES } else { end.at };
        self.advance(end.page, at);
    }

    /// Makes the zero behind an object that is about to be published, and the marks of the pages in
    /// which it goes on.
    fn end_objects(&mut self, from: Position, end: Position) {
        if end.page == from.page {
            if end.at < self.page_bytes {
                self.arena.end_objects(self.slot(end.page), end.at);
            }
            return;
        }
        for page in pages(from.page.wrapping_add(1), end.page) {
            let first = if page == end.page { end.at } else { self.page_bytes };
            self.mark_page(page, first);
        }
    }

    /// Makes a slot one of the tier's pages for a successor, too.
    fn mark_page(&mut self, page: u32, first: usize) {
        self.arena.mark_page(self.slot(page), PageMark { number: page, first });
        self.page_mut(page).first = first as u16;
    }

    /// Enters a stored object into the tables.
    fn enter(&mut self, block: u64, flags: u8, from: Position, end: Position) {
        let object = Object {
            block_low: block as u32,
            block_high: (block >> 32) as u8,
            flags,
            at: from.at as u16,
            page: from.page,
        };
        let number = self.take_object(object);
        pages(from.page, end.page).for_each(|page| self.page_mut(page).live += 1);
        self.index.insert(Hash::of(block), number);
        self.regions.add(block);
        self.held += 1;
    }

    /// Enters an object of an earlier process into the tables.
    pub(super) fn enter_unverified(&mut self, block: u64, from: Position, end: Position) {
        self.enter(block, UNVERIFIED, from, end);
    }

    /// Moves the cursor.
    fn advance(&mut self, page: u32, at: usize) {
        let filled = self.cursor_page;
        (self.cursor_page, self.cursor) = (page, at);
        if filled != page {
            self.release_if_dead(filled);
        }
    }

    /// Drops the objects of the oldest page that is filled, and releases it. `again`: receives
    /// those that were read since they were stored. Returns false if there is no such page.
    pub(crate) fn evict_oldest(&mut self, mut again: Option<&mut Copies>) -> bool {
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
        let oldest = self.oldest;
        let mut next = self.first_in(oldest);
        while let Some(from) = next {
            let Some(head) = self.head(from) else { break };
            next = self.next_in(from, &head);
            if let Some(number) = head.block.and_then(|block| self.find(block))
                && let object = self.objects[number as usize]
                && (object.page, usize::from(object.at)) == (from.page, from.at)
            {
                if object.has(USED)
                    && let Some(again) = again.as_deref_mut()
                {
                    self.copy_object(&object, again);
                }
                match planted(Bug::KeepMovedObject) {
                    true => self.remove_entry(number, from, &head),
                    false => self.kill(number),
                }
            }
            if self.pages.is_empty() || self.oldest != oldest {
                break;
            }
        }
        if self.oldest == self.cursor_page && self.pages.front().is_some_and(|page| page.live == 0)
        {
            self.release_all();
        }
        true
    }

    /// Returns the position of the first object that begins in a page.
    pub(super) fn first_in(&self, page: u32) -> Option<Position> {
        let Page { slot, first, .. } = *self.page(page);
        let at = usize::from(first);
        let has_one = slot != NIL && at != 0 && at < self.page_bytes;
        has_one.then_some(Position { page, at })
    }

    /// Returns the position behind an object, if another one may begin there in the same page.
    pub(super) fn next_in(&self, from: Position, head: &Head) -> Option<Position> {
        let end = self.behind(from, head.bytes);
        (end.page == from.page && end.at < self.page_bytes).then_some(end)
    }

    /// Releases all pages, which have no live object.
    fn release_all(&mut self) -> bool {
        for index in 0..self.pages.len() {
            self.release(index);
        }
        self.pages.clear();
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
        self.free = self.objects[number as usize].page;
        self.objects[number as usize] = object;
        number
    }

    /// Removes an object: first for a successor, then from the tables. Releases its pages if they
    /// have no live object any more.
    fn kill(&mut self, number: u32) {
        let object = self.objects[number as usize];
        let (from, head) = self.head_of(&object);
        self.remove_head(from, &head);
        self.remove_entry(number, from, &head);
    }

    /// Removes an object from the tables.
    fn remove_entry(&mut self, number: u32, from: Position, head: &Head) {
        let object = self.objects[number as usize];
        let objects = &self.objects;
        self.index.remove(Hash::of(object.block()), number, |other| {
            Hash::of(objects[other as usize].block())
        });
        self.regions.remove(object.block());
        self.held -= 1;
        let freed = &mut self.objects[number as usize];
        (freed.flags, freed.page) = (FREE, self.free);
        self.free = number;
        for page in pages(from.page, self.behind(from, head.bytes).page) {
            self.page_mut(page).live -= 1;
            self.release_if_dead(page);
        }
    }

    /// Removes an object for a successor.
    pub(super) fn remove_head(&self, from: Position, head: &Head) {
        if planted(Bug::KeepRemovedObject) {
            return;
        }
        let removed = Head { block: None, ..*head };
        self.arena.set_object_head(self.slot(from.page), from.at, &removed);
    }

    /// Releases a page that is filled and has no live object.
    pub(super) fn release_if_dead(&mut self, number: u32) {
        let index = number.wrapping_sub(self.oldest) as usize;
        // The page at the cursor and those behind it are not filled.
        let is_filled = index < self.cursor_page.wrapping_sub(self.oldest) as usize;
        if !is_filled || self.page(number).live > 0 {
            return;
        }
        self.release(index);
        while self.oldest != self.cursor_page && self.pages[0].slot == NIL {
            self.pages.pop_front();
            self.oldest = self.oldest.wrapping_add(1);
        }
    }

    /// Releases the slot of a page, if it has one.
    fn release(&mut self, index: usize) {
        let Page { slot, first, .. } = self.pages[index];
        if slot == NIL {
            return;
        }
        if first != 0 && !planted(Bug::KeepMovedObject) {
            self.arena.unmark_page(self.number_of(slot));
        }
        self.pages[index].slot = NIL;
        self.pages_held -= 1;
        self.released.push(slot);
    }

    /// Maximum number of objects until now.
    #[inline]
    pub(crate) fn objects(&self) -> u32 {
        self.objects.len() as u32
    }

    /// Returns those of the objects with these numbers that were read since they were stored.
    pub(crate) fn used(&self, numbers: Range<u32>) -> impl Iterator<Item = u64> {
        let objects = self.objects.iter().skip(numbers.start as usize).take(numbers.len());
        objects.filter(|object| object.has(USED) && !object.has(FREE)).map(Object::block)
    }

    /// The blocks in it.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = u64> {
        let objects = self.objects.iter().filter(|object| !object.has(FREE));
        objects.map(Object::block)
    }

    /// Checks every invariant. For the laboratory: it walks everything.
    ///
    /// # Panics
    /// If one does not hold.
    pub(crate) fn check(&self, is_cached: impl Fn(u64) -> bool) {
        let mut live = alloc::vec![0; self.pages.len()];
        for object in self.objects.iter().filter(|object| !object.has(FREE)) {
            let block = object.block();
            assert!(!is_cached(block), "block {block} is cached twice");
            let found = self.find(block).map(|number| self.objects[number as usize]);
            let is_it = |it: Object| (it.page, it.at) == (object.page, object.at);
            assert!(found.is_some_and(is_it), "block {block} is compressed twice");
            let (from, head) = self.head_of(object);
            assert_eq!(head.block, Some(block), "the page has another block");
            for page in pages(from.page, self.behind(from, head.bytes).page) {
                live[page.wrapping_sub(self.oldest) as usize] += 1;
            }
        }
        assert_eq!(self.blocks().count() as u32, self.held, "objects are counted wrongly");
        assert_eq!(self.regions.sum(), self.held);
        let counted: Vec<u16> = self.pages.iter().map(|page| page.live).collect();
        assert_eq!(live, counted, "live objects of pages");
        let slots = self.pages.iter().filter(|page| page.slot != NIL).count();
        assert_eq!(slots as u32, self.pages_held, "pages are counted wrongly");
        let is_wrong = planted(Bug::KeepRemovedObject) || planted(Bug::KeepMovedObject);
        assert!(self.published() == self.held || is_wrong, "a successor would find other objects");
    }

    /// The number of objects that a successor would find.
    fn published(&self) -> u32 {
        let mut found = 0;
        for index in 0..self.pages.len() as u32 {
            let page = self.oldest.wrapping_add(index);
            let Page { slot, first, .. } = *self.page(page);
            if slot == NIL || first == 0 {
                continue;
            }
            let mark = PageMark { number: page, first: first.into() };
            assert_eq!(self.arena.page(self.slot(page)), Some(mark), "the mark of page {page}");
            let mut next = self.first_in(page);
            while let Some(from) = next {
                let Some(head) = self.head(from) else { break };
                found += u32::from(head.block.is_some());
                next = self.next_in(from, &head);
            }
        }
        found
    }
}

/// The numbers of some pages, which may wrap around.
pub(super) fn pages(first: u32, last: u32) -> impl Iterator<Item = u32> {
    let count: RangeInclusive<u32> = 0..=last.wrapping_sub(first);
    count.map(move |index| first.wrapping_add(index))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_12_bytes_and_a_page_8() {
        assert_eq!((size_of::<Object>(), size_of::<Page>()), (12, 8));
    }
}
