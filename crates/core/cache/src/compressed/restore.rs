//! The tables of the tier, made from the pages that an earlier process has left.
//!
//! A kill between two stores leaves an object without a head, a page without a mark, or a removed
//! object in a page that was not released yet. None of these is found here. So an object that is
//! found was complete, and no change of its block had begun.

use super::log::{Log, Page, Position, pages};
use super::objects::Object;
use super::tier::Tier;
use alloc::vec::Vec;
use policy::NIL;

/// A page that was found.
#[derive(Clone, Copy)]
pub(crate) struct FoundPage {
    /// The slot, counted in its shard.
    pub(crate) slot: u32,
    pub(crate) number: u32,
    pub(crate) first: usize,
}

impl Log {
    /// Fills an empty log with these pages, and releases those that it cannot hold. Returns the
    /// numbers of the oldest and the newest page. None: it has no page.
    fn restore(&mut self, mut found: Vec<FoundPage>) -> Option<(u32, u32)> {
        let any = found.first()?.number;
        // All numbers are near each other, unless the memory is damaged.
        found.sort_by_key(|page| page.number.wrapping_sub(any) as i32);
        let newest = found.last()?.number;
        self.oldest = newest.wrapping_add(1);
        for page in found {
            let behind = newest.wrapping_sub(page.number) as usize;
            // Of a larger memory, or found twice.
            let fits = behind + 3 <= self.pages.capacity();
            let is_new = self.pages.is_empty() || self.pages.len() <= self.index_of(page.number);
            if !fits || !is_new {
                self.arena.unmark_page(self.number_of(page.slot));
                self.released.push(page.slot);
                continue;
            }
            if self.pages.is_empty() {
                self.oldest = page.number;
            }
            self.add_found(&page);
        }
        (self.cursor_page, self.cursor) = (newest.wrapping_add(1), 0);
        (!self.pages.is_empty()).then_some((self.oldest, newest))
    }

    /// Adds a page behind the others, and gaps for those between that were released.
    fn add_found(&mut self, page: &FoundPage) {
        while self.pages.len() < self.index_of(page.number) {
            self.pages.push_back(Page { slot: NIL, first: 0, live: 0 });
        }
        self.pages.push_back(Page { slot: page.slot, first: page.first as u16, live: 0 });
        self.held += 1;
    }

    /// Whether all pages of an object were found.
    fn is_whole(&self, from: Position, end: Position) -> bool {
        pages(from.page, end.page).skip(1).all(|page| {
            let expected = if page == end.page { end.at } else { self.page_bytes };
            let is_it = |found: &Page| found.slot != NIL && usize::from(found.first) == expected;
            self.pages.get(self.index_of(page)).is_some_and(is_it)
        })
    }
}

impl Tier {
    /// Fills an empty tier with the objects of these pages. Pages that it cannot hold are released.
    pub(crate) fn restore(&mut self, found: Vec<FoundPage>) {
        let Some((oldest, newest)) = self.log.restore(found) else { return };
        let mut twins = Vec::new();
        pages(oldest, newest).for_each(|page| self.restore_objects(page, &mut twins));
        twins.into_iter().for_each(|block| self.forget(block));
        for page in pages(oldest, newest) {
            // Those before it may have been released with it.
            if self.log.index_of(page) < self.log.pages.len() {
                self.log.release_if_dead(page);
            }
        }
    }

    /// Enters the objects that begin in a page. `twins`: receives the blocks that are found twice.
    fn restore_objects(&mut self, page: u32, twins: &mut Vec<u64>) {
        let mut next = self.log.first_in(page);
        while let Some(from) = next {
            let Some(head) = self.log.head(from) else { break };
            next = self.log.next_in(from, &head);
            let Some(block) = head.block else { continue };
            let end = self.log.behind(from, head.bytes);
            let is_twin = self.has(block);
            if is_twin {
                // No process leaves that, and one of them may be older than the backing.
                twins.push(block);
            }
            match !is_twin && self.objects.has_room() && self.log.is_whole(from, end) {
                true => self.enter(block, from, end),
                false => self.log.remove_head(from, &head),
            }
        }
    }

    /// Enters an object of an earlier process into the tables.
    fn enter(&mut self, block: u64, from: Position, end: Position) {
        self.log.count_object(from.page, end.page);
        self.objects.insert(Object::new(block, false, from, end));
    }
}
