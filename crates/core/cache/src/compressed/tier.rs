//! The compressed tier of a shard: the log and the table of its objects, changed together.

use super::copies::{Copied, Copies};
use super::log::{Log, Position, pages};
use super::objects::{Object, Objects};
use super::pending::{Pending, Ticket};
use crate::arena::Arena;
use crate::arena::pages::{BLOCKS_MAX, CHECK_BYTES, HEAD_BYTES, Head};
use crate::geometry::Geometry;
use crate::planted::{Bug, planted};
use alloc::vec::Vec;
use core::ops::Range;
use packing::Incompressible;
use policy::NIL;

/// Planted bug: an object and the slots that have its bytes, with offsets and lengths.
pub(crate) struct OldPlace {
    copied: Copied,
    parts: Vec<(u32, usize, usize)>,
}

/// The compressed tier of a shard.
pub(crate) struct Tier {
    pub(super) log: Log,
    pub(super) objects: Objects,
    slots: u32,
    pending: Pending,
    incompressible: Incompressible,
}

impl Tier {
    /// Makes the tier of a shard whose first slot has this number. It has no memory until
    /// [`Tier::open`].
    pub(crate) fn new(geometry: &Geometry, arena: Arena, base: u32) -> Tier {
        Tier {
            log: Log::new(arena, base),
            objects: Objects::new(geometry),
            slots: geometry.slots_per_shard(),
            pending: Pending::new(),
            incompressible: Incompressible::new(0),
        }
    }

    /// Allocates the tables, if that was not done. Until then nothing can be stored.
    pub(crate) fn open(&mut self) {
        if self.is_open() {
            return;
        }
        self.objects.open(self.slots);
        self.log.open(self.slots);
        self.incompressible = Incompressible::new(self.slots);
    }

    /// Whether blocks can be stored.
    #[inline]
    pub(crate) fn is_open(&self) -> bool {
        self.objects.is_open()
    }

    /// Releases the tables of an empty tier.
    pub(crate) fn close(&mut self) {
        self.objects.close();
        self.log.close();
        self.incompressible = Incompressible::new(0);
    }

    /// Number of blocks in it.
    #[inline]
    pub(crate) fn held(&self) -> u32 {
        self.objects.held()
    }

    /// Number of slots that it uses.
    #[inline]
    pub(crate) fn pages(&self) -> u32 {
        self.log.held
    }

    /// Number of the positions of its blocks, at most [`OBJECTS_PER_SLOT`] for each slot.
    pub(crate) fn positions(&self) -> usize {
        self.objects.numbers() as usize
    }

    /// Returns the blocks at these positions.
    pub(crate) fn blocks_at(&self, positions: Range<usize>) -> impl Iterator<Item = u64> {
        let numbers = positions.start as u32..positions.end as u32;
        self.objects.live(numbers).map(Object::block)
    }

    /// Whether a change need not be reported to it.
    #[inline]
    pub(crate) fn is_idle(&self) -> bool {
        self.held() == 0 && self.pending.is_empty()
    }

    /// Whether it has this block.
    #[inline]
    pub(crate) fn has(&self, block: u64) -> bool {
        self.objects.number_of(block).is_some()
    }

    /// Whether it has this block, or is about to.
    pub(crate) fn has_or_awaits(&self, block: u64) -> bool {
        self.has(block) || self.pending.has(block)
    }

    /// Whether it has this block, and the block was not read since it was stored.
    pub(crate) fn is_unused(&self, block: u64) -> bool {
        self.objects.find(block).is_some_and(|object| !object.is_used())
    }

    /// Whether it has this block, and the block was read since it was stored.
    pub(crate) fn was_read(&self, block: u64) -> bool {
        self.objects.find(block).is_some_and(|object| object.is_used())
    }

    /// Notes a read of a block. Returns whether an earlier one was noted.
    pub(crate) fn note_use(&mut self, block: u64) -> bool {
        self.objects.note_use(block)
    }

    /// Whether to try to compress a block: not while its region was found to be incompressible. A
    /// region that has compressed blocks is always tried. Its other blocks are evicted more often,
    /// so a count of failures alone would take it for an incompressible one.
    pub(crate) fn is_to_try(&mut self, block: u64) -> bool {
        self.objects.may_have(block) || self.incompressible.is_to_try(block)
    }

    /// Notes whether a block became small enough.
    pub(crate) fn note_trial(&mut self, block: u64, is_compressible: bool) {
        self.incompressible.record(block, is_compressible);
    }

    /// Begins the compression of a block: a change cancels it. None: too many are under way.
    pub(crate) fn begin(&mut self, block: u64) -> Option<Ticket> {
        if block >= BLOCKS_MAX { None } else { self.pending.begin(block) }
    }

    /// Ends the compression of a block. Returns the block, unless a change has cancelled it.
    pub(crate) fn end(&mut self, ticket: Ticket) -> Option<u64> {
        self.pending.end(ticket)
    }

    /// Removes a block, because it is changed or cached uncompressed. A successor does not find it
    /// any more.
    pub(crate) fn forget(&mut self, block: u64) {
        self.pending.cancel(block..block + 1);
        if let Some(number) = self.objects.number_of(block) {
            self.kill(number);
        }
    }

    /// Removes blocks of one region, because they are changed.
    pub(crate) fn forget_all(&mut self, blocks: Range<u64>) {
        self.pending.cancel(blocks.clone());
        if self.objects.may_have(blocks.start) {
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
        self.log.released.pop()
    }

    /// Appends a copy of a block's bytes. Returns false if it has no such block, or its page was
    /// damaged.
    pub(crate) fn copy(&self, block: u64, into: &mut Copies) -> bool {
        self.objects.find(block).is_some_and(|object| self.copy_object(&object, into))
    }

    fn copy_object(&self, object: &Object, into: &mut Copies) -> bool {
        let Some((data, copied)) = self.describe(object) else { return false };
        let start = into.data.len();
        into.data.resize(start + copied.bytes, 0);
        self.log.read(data, &mut into.data[start..]);
        into.objects.push(copied);
        true
    }

    /// Returns the position of an object's data, and all about the object except its data. None:
    /// its head is damaged.
    fn describe(&self, object: &Object) -> Option<(Position, Copied)> {
        let (from, Head { encoding, bytes, .. }) = (object.begin(), self.head_of(object)?);
        let mut check = [0; CHECK_BYTES];
        let data = self.log.read(Position { at: from.at + HEAD_BYTES, ..from }, &mut check);
        let check = u32::from_le_bytes(check);
        let is_verified = object.is_verified();
        Some((data, Copied { block: object.block(), encoding, bytes, check, is_verified }))
    }

    /// Returns the head of an object. None: it is damaged, because it is not of this block, or the
    /// object would not end in its last page.
    fn head_of(&self, object: &Object) -> Option<Head> {
        let from = object.begin();
        let head = self.log.head(from)?;
        let last = self.log.behind(from, head.bytes).page;
        (head.block == Some(object.block()) && last == object.last_page()).then_some(head)
    }

    /// Planted bug: finds the slots that have a block's bytes, to copy them in a later section.
    pub(crate) fn slots_of(&self, block: u64) -> Option<OldPlace> {
        let (from, copied) = self.describe(&self.objects.find(block)?)?;
        let mut parts = Vec::new();
        self.log.parts(from, copied.bytes, |page, at, part| {
            parts.push((self.log.slot(page), at, part.len()));
        });
        Some(OldPlace { copied, parts })
    }

    /// Planted bug: copies a block from where it was.
    pub(crate) fn copy_from(&self, place: &OldPlace, into: &mut Copies) {
        for &(slot, at, bytes) in &place.parts {
            let start = into.data.len();
            into.data.resize(start + bytes, 0);
            self.log.arena.read_bytes(slot, at, &mut into.data[start..]);
        }
        into.objects.push(place.copied);
    }

    /// Whether an object with this many bytes of data needs another page first.
    pub(crate) fn needs_page(&self, bytes: usize) -> bool {
        self.log.needs_page(bytes)
    }

    /// Whether another object can be stored only if one is dropped.
    pub(crate) fn is_full(&self) -> bool {
        !self.objects.has_room() || self.log.is_full()
    }

    /// Adds a slot.
    pub(crate) fn add_page(&mut self, slot: u32) {
        self.log.add_page(slot);
    }

    /// Stores a block that it does not have.
    ///
    /// # Panics
    /// If [`Tier::needs_page`] or [`Tier::is_full`].
    pub(crate) fn store(&mut self, object: &Copied, data: &[u8]) {
        assert!(!self.needs_page(data.len()));
        let (from, end) = self.log.append(object, data);
        self.objects.insert(Object::new(object.block, object.is_verified, from, end));
    }

    /// Drops the objects of the oldest page that is filled, and releases it. `again`: receives
    /// those that were read since they were stored. Returns false if there is no such page.
    pub(crate) fn evict_oldest(&mut self, mut again: Option<&mut Copies>) -> bool {
        if self.log.held == 0 {
            return false;
        }
        if self.log.is_dead() {
            self.log.release_all();
            return true;
        }
        let oldest = self.log.oldest;
        let has_left = |tier: &Tier| tier.log.pages.is_empty() || tier.log.oldest != oldest;
        let mut next = self.log.first_in(oldest);
        while let Some(from) = next {
            let Some(head) = self.log.head(from) else { break };
            next = self.log.next_in(from, &head);
            if let Some(number) = head.block.and_then(|block| self.objects.number_of(block))
                && let object = self.objects.of_number(number)
                && object.begin() == from
            {
                if object.is_used()
                    && let Some(again) = again.as_deref_mut()
                {
                    self.copy_object(&object, again);
                }
                self.evict(number);
            }
            if has_left(self) {
                break;
            }
        }
        if !has_left(self) && self.log.is_live(oldest) {
            self.evict_damaged(oldest);
        }
        if self.log.is_dead() {
            self.log.release_all();
        }
        true
    }

    /// Removes an object, because its page is released.
    fn evict(&mut self, number: u32) {
        match planted(Bug::KeepMovedObject) {
            true => self.remove_entry(number),
            false => self.kill(number),
        }
    }

    /// Drops the objects of the oldest page that its heads do not show, because they are damaged.
    fn evict_damaged(&mut self, oldest: u32) {
        let begins_there = |object: &&Object| object.begin().page == oldest;
        let lost: Vec<u64> = self.objects.all().filter(begins_there).map(Object::block).collect();
        for block in lost {
            if let Some(number) = self.objects.number_of(block) {
                self.evict(number);
            }
        }
    }

    /// Removes an object: first for a successor, then from the tables. Releases its pages if they
    /// have no live object any more.
    fn kill(&mut self, number: u32) {
        let object = self.objects.of_number(number);
        match self.head_of(&object) {
            Some(head) => self.log.remove_head(object.begin(), &head),
            None => self.log.remove_damaged(object.begin()),
        }
        self.remove_entry(number);
    }

    /// Removes an object from the tables.
    fn remove_entry(&mut self, number: u32) {
        let object = self.objects.of_number(number);
        self.objects.remove(number);
        self.log.discount_object(object.begin().page, object.last_page());
    }

    /// Maximum number of objects until now.
    #[inline]
    pub(crate) fn objects(&self) -> u32 {
        self.objects.numbers()
    }

    /// Returns those of the objects with these numbers that were read since they were stored.
    pub(crate) fn used(&self, numbers: Range<u32>) -> impl Iterator<Item = u64> {
        self.objects.live(numbers).filter(|object| object.is_used()).map(Object::block)
    }

    /// The blocks in it.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = u64> {
        self.objects.all().map(Object::block)
    }

    /// Checks every invariant. For the laboratory: it walks everything.
    ///
    /// # Panics
    /// If one does not hold.
    pub(crate) fn check(&self, is_cached: impl Fn(u64) -> bool) {
        let mut live = alloc::vec![0; self.log.pages.len()];
        for object in self.objects.all() {
            let block = object.block();
            assert!(!is_cached(block), "block {block} is cached twice");
            let found = self.objects.find(block);
            let is_it = |it: Object| it.begin() == object.begin();
            assert!(found.is_some_and(is_it), "block {block} is compressed twice");
            assert!(self.head_of(object).is_some(), "the page has another block");
            for page in pages(object.begin().page, object.last_page()) {
                live[self.log.index_of(page)] += 1;
            }
        }
        self.objects.check();
        let counted: Vec<u16> = self.log.pages.iter().map(|page| page.live).collect();
        assert_eq!(live, counted, "live objects of pages");
        let slots = self.log.pages.iter().filter(|page| page.slot != NIL).count();
        assert_eq!(slots as u32, self.log.held, "pages are counted wrongly");
        let is_wrong = planted(Bug::KeepRemovedObject) || planted(Bug::KeepMovedObject);
        let published = self.log.published();
        assert!(published == self.held() || is_wrong, "a successor would find other objects");
    }
}
