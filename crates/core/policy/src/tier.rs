//! The compressed tier of a simulated shard: the log of the engine's tier, without bytes.
//!
//! Objects are appended to pages at the cursor, and may go on in the next page. A page without a
//! live object is released at once; if the tier is full, its owner evicts the oldest page. The
//! rules and the order of all lists are those of the engine (crates/core/cache/src/compressed): a
//! test compares the misses of both.

use crate::table::Table;
use crate::{Hash, NIL};
use alloc::collections::VecDeque;
use alloc::vec;
use alloc::vec::Vec;

/// Bytes of a page, which is a slot, without its seal.
const PAGE_BYTES: u32 = 4096 - 8;
/// Bytes of an object's head and check.
const HEAD_BYTES: u32 = 12;
/// No object begins where fewer bytes are left in a page: a head is not divided.
const BEGIN_BYTES: u32 = 8;
/// Maximum number of objects, for each slot of the shard.
const OBJECTS_PER_SLOT: u32 = 2;

/// Returns the bytes that an object takes, with its head.
const fn object_bytes(bytes: u32) -> u32 {
    (HEAD_BYTES + bytes).next_multiple_of(4)
}

/// A compressed block.
#[derive(Clone, Copy)]
struct Object {
    hash: Hash,
    /// The number of the page in which it begins.
    page: u32,
    /// The live objects that begin in this page before and after it; in a free object, `next` is
    /// the next free one.
    previous: u32,
    next: u32,
    /// Its number in the table.
    key: u32,
    at: u16,
    bytes: u16,
    is_used: bool,
}

/// A slot with objects.
struct Page {
    has_slot: bool,
    /// The first and the last live object that begin here.
    first: u32,
    last: u32,
    /// Live objects that have bytes here.
    live: u32,
}

/// The tier. Nothing allocates except `new`.
pub(crate) struct Tier {
    objects: Vec<Object>,
    objects_max: u32,
    /// The first free object.
    free: u32,
    table: Table,
    /// The object of each number of the table.
    object_of: Vec<u32>,
    /// Pages from the oldest on.
    pages: VecDeque<Page>,
    pages_max: u32,
    /// The number of the oldest page.
    oldest: u32,
    cursor_page: u32,
    cursor: u32,
    pages_held: u32,
    /// Slots that have become free.
    released: u32,
    held: u32,
}

impl Tier {
    /// Creates an empty tier in a shard of this number of slots.
    pub(crate) fn new(slots: u32) -> Tier {
        let objects_max = slots.saturating_mul(OBJECTS_PER_SLOT);
        Tier {
            objects: Vec::with_capacity(objects_max as usize),
            objects_max,
            free: NIL,
            table: Table::new(objects_max),
            object_of: vec![NIL; objects_max as usize],
            pages: VecDeque::with_capacity(slots as usize),
            pages_max: slots,
            oldest: 0,
            cursor_page: 0,
            cursor: 0,
            pages_held: 0,
            released: 0,
            held: 0,
        }
    }

    /// Number of blocks in it.
    pub(crate) fn held(&self) -> u32 {
        self.held
    }

    /// Number of slots that it uses.
    #[inline]
    pub(crate) fn pages(&self) -> u32 {
        self.pages_held
    }

    /// Returns the number of slots that have become free since the last call.
    pub(crate) fn take_released(&mut self) -> u32 {
        core::mem::take(&mut self.released)
    }

    /// Records a read of a block. None: it is not here. Otherwise, whether an earlier read was
    /// recorded since it was stored.
    #[inline]
    pub(crate) fn record_use(&mut self, hash: Hash) -> Option<bool> {
        let key = self.table.find(hash)?;
        let object = &mut self.objects[self.object_of[key as usize] as usize];
        Some(core::mem::replace(&mut object.is_used, true))
    }

    /// Removes a block, because it is cached uncompressed.
    pub(crate) fn forget(&mut self, hash: Hash) {
        if let Some(key) = self.table.find(hash) {
            self.kill(self.object_of[key as usize]);
        }
    }

    /// Whether an object of this many bytes needs another page first.
    pub(crate) fn needs_page(&self, bytes: u32) -> bool {
        let bytes = object_bytes(bytes);
        let ahead =
            self.oldest.wrapping_add(self.pages.len() as u32).wrapping_sub(self.cursor_page);
        self.pages.is_empty()
            || u64::from(ahead) * u64::from(PAGE_BYTES) < u64::from(self.cursor + bytes)
    }

    fn has_object(&self) -> bool {
        self.free != NIL || self.objects.len() < self.objects_max as usize
    }

    /// Whether another object can be stored only if one is dropped.
    pub(crate) fn is_full(&self) -> bool {
        !self.has_object() || self.pages.len() as u32 + 2 > self.pages_max
    }

    /// Adds a slot.
    pub(crate) fn add_page(&mut self) {
        if self.pages.is_empty() {
            (self.oldest, self.cursor) = (self.cursor_page, 0);
        }
        self.pages.push_back(Page { has_slot: true, first: NIL, last: NIL, live: 0 });
        self.pages_held += 1;
    }

    /// Stores a block that it does not have. There must be room.
    pub(crate) fn store(&mut self, hash: Hash, bytes: u32) {
        debug_assert!(!self.needs_page(bytes) && self.has_object());
        if self.cursor == PAGE_BYTES {
            self.advance();
        }
        let (page, at) = (self.cursor_page, self.cursor);
        let whole = object_bytes(bytes);
        let near = whole.min(PAGE_BYTES - at);
        self.cursor = at + near;
        let key = self.table.insert(hash);
        let previous = self.page(page).last;
        let number = self.take_object(Object {
            hash,
            page,
            previous,
            next: NIL,
            key,
            at: at as u16,
            bytes: bytes as u16,
            is_used: false,
        });
        self.object_of[key as usize] = number;
        self.link(number);
        self.page(page).live += 1;
        if near < whole {
            self.advance();
            self.page(self.cursor_page).live += 1;
            self.cursor = whole - near;
        }
        if self.cursor + BEGIN_BYTES > PAGE_BYTES {
            self.cursor = PAGE_BYTES;
        }
        self.held += 1;
    }

    /// Drops the objects of the oldest page, and releases it. `again` receives those that were read
    /// since they were stored, with their bytes. Returns false if there is no page.
    pub(crate) fn evict_oldest(&mut self, mut again: Option<&mut Vec<(Hash, u32)>>) -> bool {
        if self.pages_held == 0 {
            return false;
        }
        if self.release_if_empty() {
            return true;
        }
        let mut next = self.pages[0].first;
        while next != NIL {
            let object = self.objects[next as usize];
            if object.is_used
                && let Some(again) = again.as_deref_mut()
            {
                again.push((object.hash, object.bytes.into()));
            }
            self.kill(next);
            next = object.next;
        }
        self.release_if_empty();
        true
    }

    /// Releases all pages if the newest one is the oldest, and has no live object. Returns whether
    /// it did.
    fn release_if_empty(&mut self) -> bool {
        let is_newest = self.oldest == self.cursor_page;
        let is_empty = is_newest && self.pages.front().is_some_and(|page| page.live == 0);
        if is_empty {
            while !self.pages.is_empty() {
                self.release(0);
                self.pages.pop_front();
            }
            (self.cursor_page, self.cursor) = (self.cursor_page.wrapping_add(1), 0);
            self.oldest = self.cursor_page;
        }
        is_empty
    }

    fn page(&mut self, number: u32) -> &mut Page {
        &mut self.pages[number.wrapping_sub(self.oldest) as usize]
    }

    fn take_object(&mut self, object: Object) -> u32 {
        if self.free == NIL {
            self.objects.push(object);
            return self.objects.len() as u32 - 1;
        }
        let number = self.free;
        self.free = self.objects[number as usize].next;
        self.objects[number as usize] = object;
        number
    }

    /// Moves the cursor to the next page.
    fn advance(&mut self) {
        let filled = self.cursor_page;
        (self.cursor_page, self.cursor) = (filled.wrapping_add(1), 0);
        self.release_if_dead(filled);
    }

    /// Appends an object to the list of its page.
    fn link(&mut self, number: u32) {
        let Object { page, previous, .. } = self.objects[number as usize];
        match previous {
            NIL => self.page(page).first = number,
            previous => self.objects[previous as usize].next = number,
        }
        self.page(page).last = number;
    }

    /// Removes an object from the list of its page.
    fn unlink(&mut self, number: u32) {
        let Object { page, previous, next, .. } = self.objects[number as usize];
        match previous {
            NIL => self.page(page).first = next,
            previous => self.objects[previous as usize].next = next,
        }
        match next {
            NIL => self.page(page).last = previous,
            next => self.objects[next as usize].previous = previous,
        }
    }

    /// Removes an object. Releases its pages if they have no live object any more.
    fn kill(&mut self, number: u32) {
        let object = self.objects[number as usize];
        self.table.remove(object.key);
        self.held -= 1;
        self.unlink(number);
        self.objects[number as usize].next = core::mem::replace(&mut self.free, number);
        if u32::from(object.at) + object_bytes(object.bytes.into()) > PAGE_BYTES {
            let next = object.page.wrapping_add(1);
            self.page(next).live -= 1;
            self.release_if_dead(next);
        }
        self.page(object.page).live -= 1;
        self.release_if_dead(object.page);
    }

    /// Releases a page that is filled and has no live object.
    fn release_if_dead(&mut self, number: u32) {
        let index = number.wrapping_sub(self.oldest);
        let is_filled = index < self.cursor_page.wrapping_sub(self.oldest);
        if !is_filled || self.pages[index as usize].live > 0 {
            return;
        }
        self.release(index as usize);
        while self.oldest != self.cursor_page && !self.pages[0].has_slot {
            self.pages.pop_front();
            self.oldest = self.oldest.wrapping_add(1);
        }
    }

    /// Releases the slot of a page, which has no object.
    fn release(&mut self, index: usize) {
        let page = &mut self.pages[index];
        debug_assert_eq!(page.first, NIL);
        let had_slot = core::mem::replace(&mut page.has_slot, false);
        self.pages_held -= u32::from(had_slot);
        self.released += u32::from(had_slot);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    proptest! {
        /// After any calls, every page is held or released, and every block is found until it is
        /// forgotten or dropped.
        #[test]
        fn pages_and_blocks_are_neither_lost_nor_invented(
            calls in prop::collection::vec((0..40u64, 0..6u8, 1..3073u32), 1..400),
        ) {
            let mut tier = Tier::new(12);
            let (mut slots, mut blocks) = (12, BTreeSet::new());
            let mut again = Vec::new();
            for (block, call, bytes) in calls {
                let hash = Hash::of(block);
                match call {
                    0 => {
                        tier.forget(hash);
                        blocks.remove(&block);
                    }
                    1 => prop_assert_eq!(tier.record_use(hash).is_some(), blocks.contains(&block)),
                    2 => {
                        again.clear();
                        prop_assert_eq!(tier.evict_oldest(Some(&mut again)), slots < 12);
                        let is_here = |block: &u64| tier.table.find(Hash::of(*block)).is_some();
                        let dropped = blocks.iter().filter(|block| !is_here(block)).count();
                        prop_assert!(again.len() <= dropped);
                        blocks.retain(is_here);
                    }
                    _ if blocks.contains(&block) || tier.is_full() => {}
                    _ if tier.needs_page(bytes) => {
                        if slots > 0 {
                            tier.add_page();
                            slots -= 1;
                        }
                    }
                    _ => {
                        tier.store(hash, bytes);
                        blocks.insert(block);
                    }
                }
                slots += tier.take_released();
                prop_assert_eq!(tier.pages() + slots, 12);
                prop_assert_eq!(tier.held() as usize, blocks.len());
            }
        }
    }
}
