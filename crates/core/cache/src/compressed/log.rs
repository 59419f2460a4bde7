//! The log of the tier: which slots are its pages, in which order, and where the next object goes.
//!
//! The bytes of the pages are in shared memory, and a head is read again where it is used. So heads
//! decide nothing about the log: the pages of each object are in its table.

use super::copies::Copied;
use crate::arena::Arena;
use crate::arena::pages::{HEAD_BYTES, Head, PageMark, SEAL_BYTES, STEP_BYTES, object_bytes};
use crate::planted::{Bug, planted};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use core::ops::{Range, RangeInclusive};
use policy::NIL;

/// Slots that usually become free at a time.
const RELEASED_ROOM: usize = 64;

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

/// The pages of a shard's tier.
pub(super) struct Log {
    pub(super) arena: Arena,
    /// The arena's number of the shard's first slot.
    base: u32,
    pub(super) page_bytes: usize,
    /// Pages from the oldest on.
    pub(super) pages: VecDeque<Page>,
    /// The number of the oldest page.
    pub(super) oldest: u32,
    /// The number of the page in which the next object begins, and the offset in it; 0: the page
    /// has no mark yet.
    pub(super) cursor_page: u32,
    pub(super) cursor: usize,
    /// Pages that have a slot.
    pub(super) held: u32,
    /// Slots that have become free.
    pub(super) released: Vec<u32>,
}

impl Log {
    /// Makes the log of a shard whose first slot has this number.
    pub(super) fn new(arena: Arena, base: u32) -> Log {
        Log {
            page_bytes: arena.slot_bytes(),
            arena,
            base,
            pages: VecDeque::new(),
            oldest: 0,
            cursor_page: 0,
            cursor: 0,
            held: 0,
            released: Vec::new(),
        }
    }

    /// Allocates room for this many pages.
    pub(super) fn open(&mut self, pages: u32) {
        self.pages.reserve_exact(pages as usize);
        self.released.reserve_exact(RELEASED_ROOM);
    }

    /// Releases the memory of an empty log.
    pub(super) fn close(&mut self) {
        debug_assert_eq!(self.held, 0);
        self.pages = VecDeque::new();
    }

    /// Returns the head of the object that begins here. None: there is none, or it is damaged.
    pub(super) fn head(&self, from: Position) -> Option<Head> {
        let head = self.arena.object_head(self.slot(from.page), from.at)?;
        // No block is larger than a page.
        (head.bytes <= self.page_bytes).then_some(head)
    }

    /// Removes an object for a successor.
    pub(super) fn remove_head(&self, from: Position, head: &Head) {
        if planted(Bug::KeepRemovedObject) {
            return;
        }
        let removed = Head { block: None, ..*head };
        self.arena.set_object_head(self.slot(from.page), from.at, &removed);
    }

    /// Removes an object whose head is damaged for a successor, and those behind it in its page:
    /// their places are not known any more.
    pub(super) fn remove_damaged(&self, from: Position) {
        self.arena.end_objects(self.slot(from.page), from.at);
    }

    /// Returns the arena's number of a page's slot.
    pub(super) fn slot(&self, page: u32) -> u32 {
        self.number_of(self.page(page).slot)
    }

    /// Returns the arena's number of a slot of this shard.
    pub(super) fn number_of(&self, slot: u32) -> u32 {
        self.base + slot
    }

    pub(super) fn page(&self, number: u32) -> &Page {
        &self.pages[self.index_of(number)]
    }

    fn page_mut(&mut self, number: u32) -> &mut Page {
        let index = self.index_of(number);
        &mut self.pages[index]
    }

    /// Returns the index of a page; it is too large for a page that has left the log.
    pub(super) fn index_of(&self, page: u32) -> usize {
        page.wrapping_sub(self.oldest) as usize
    }

    /// Calls `each` for the parts of `bytes` bytes in their pages: with the page, the offset in it,
    /// and the range of the part. Returns the position behind the last one.
    pub(super) fn parts(
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

    /// Copies bytes from the pages. Returns the position behind them.
    pub(super) fn read(&self, from: Position, into: &mut [u8]) -> Position {
        self.parts(from, into.len(), |page, at, part| {
            self.arena.read_bytes(self.slot(page), at, &mut into[part]);
        })
    }

    fn write(&self, to: Position, data: &[u8]) -> Position {
        self.parts(to, data.len(), |page, at, part| {
            self.arena.write_object(self.slot(page), at, &data[part]);
        })
    }

    /// Returns the position behind an object with this many bytes of data that begins here. It is
    /// the end of the page if no head fits in front of it.
    pub(super) fn behind(&self, from: Position, bytes: usize) -> Position {
        let end = self.parts(from, object_bytes(bytes), |_, _, _| ());
        let fits = end.at + HEAD_BYTES <= self.page_bytes;
        if fits { end } else { Position { at: self.page_bytes, ..end } }
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
    pub(super) fn needs_page(&self, bytes: usize) -> bool {
        self.room() < object_bytes(bytes)
    }

    /// Whether a page can be added only if one is released.
    pub(super) fn is_full(&self) -> bool {
        self.pages.len() + 2 > self.pages.capacity()
    }

    /// Adds a slot.
    pub(super) fn add_page(&mut self, slot: u32) {
        if self.pages.is_empty() {
            (self.oldest, self.cursor) = (self.cursor_page, 0);
        }
        self.pages.push_back(Page { slot, first: 0, live: 0 });
        self.held += 1;
    }

    /// Appends an object, for which there is room. Returns where it begins and ends.
    pub(super) fn append(&mut self, object: &Copied, data: &[u8]) -> (Position, Position) {
        if self.cursor == self.page_bytes {
            self.advance(self.cursor_page.wrapping_add(1), 0);
        }
        if self.cursor == 0 {
            self.mark_page(self.cursor_page, SEAL_BYTES);
            self.cursor = SEAL_BYTES;
        }
        let from = Position { page: self.cursor_page, at: self.cursor };
        let head = Head { block: Some(object.block), encoding: object.encoding, bytes: data.len() };
        let end = self.behind(from, data.len());
        if planted(Bug::PublishTornObject) {
            self.publish(from, end, &head);
        }
        let to = Position { at: from.at + HEAD_BYTES, ..from };
        let to = self.write(to, &object.check.to_le_bytes());
        self.write(to, data);
        self.publish(from, end, &head);
        self.count_object(from.page, end.page);
        let at = if planted(Bug::ShortObject) { end.at - STEP_BYTES } else { end.at };
        self.advance(end.page, at);
        (from, end)
    }

    /// Makes a successor find an object.
    fn publish(&mut self, from: Position, end: Position, head: &Head) {
        self.end_objects(from, end);
        self.arena.set_object_head(self.slot(from.page), from.at, head);
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

    /// Moves the cursor.
    fn advance(&mut self, page: u32, at: usize) {
        let filled = self.cursor_page;
        (self.cursor_page, self.cursor) = (page, at);
        if filled != page {
            self.release_if_dead(filled);
        }
    }

    /// Counts a live object that has bytes in these pages.
    pub(super) fn count_object(&mut self, first: u32, last: u32) {
        pages(first, last).for_each(|page| self.page_mut(page).live += 1);
    }

    /// Counts the end of an object that had bytes in these pages. Releases those that have no live
    /// object any more.
    pub(super) fn discount_object(&mut self, first: u32, last: u32) {
        for page in pages(first, last) {
            self.page_mut(page).live -= 1;
            self.release_if_dead(page);
        }
    }

    /// Whether a page, which has not left the log, has a live object.
    pub(super) fn is_live(&self, page: u32) -> bool {
        self.page(page).live > 0
    }

    /// Whether nothing is stored behind the oldest page, and nothing is live in it.
    pub(super) fn is_dead(&self) -> bool {
        self.oldest == self.cursor_page && self.pages.front().is_some_and(|page| page.live == 0)
    }

    /// Releases a page that is filled and has no live object.
    pub(super) fn release_if_dead(&mut self, number: u32) {
        let index = self.index_of(number);
        // The page at the cursor and those behind it are not filled.
        let is_filled = index < self.index_of(self.cursor_page);
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
        self.held -= 1;
        self.released.push(slot);
    }

    /// Releases all pages, which have no live object.
    pub(super) fn release_all(&mut self) {
        for index in 0..self.pages.len() {
            self.release(index);
        }
        self.pages.clear();
        (self.cursor_page, self.cursor) = (self.cursor_page.wrapping_add(1), 0);
        self.oldest = self.cursor_page;
    }

    /// Returns the number of objects that a successor would find. For the laboratory.
    ///
    /// # Panics
    /// If a successor would not find a page.
    pub(super) fn published(&self) -> u32 {
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
