//! The tables of the tier, made from the pages that an earlier process has left.
//!
//! A kill between two stores leaves an object without a head, a page without a mark, or a removed
//! object in a page that was not released yet. None of these is found here. So an object that is
//! found was complete, and no change of its block had begun.

use super::tier::{Page, Position, Tier, pages};
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

impl Tier {
    /// Fills an empty tier with the objects of these pages. Pages that it cannot hold are released.
    pub(crate) fn restore(&mut self, mut found: Vec<FoundPage>) {
        let Some(any) = found.first().map(|page| page.number) else { return };
        // All numbers are near each other.
        found.sort_by_key(|page| page.number.wrapping_sub(any) as i32);
        let newest = found[found.len() - 1].number;
        let mut has_oldest = false;
        for page in found {
            let behind = newest.wrapping_sub(page.number) as usize;
            // Of a larger memory, or found twice.
            let fits = behind + 3 <= self.pages.capacity();
            let is_new = !has_oldest || self.pages.len() <= self.index_of(page.number);
            if !fits || !is_new {
                self.drop_found(&page);
                continue;
            }
            if !has_oldest {
                (self.oldest, has_oldest) = (page.number, true);
            }
            self.add_found(&page);
        }
        (self.cursor_page, self.cursor) = (newest.wrapping_add(1), 0);
        if self.pages.is_empty() {
            self.oldest = self.cursor_page;
            return;
        }
        let oldest = self.oldest;
        let mut twins = Vec::new();
        pages(oldest, newest).for_each(|page| self.restore_objects(page, &mut twins));
        twins.into_iter().for_each(|block| self.forget(block));
        for page in pages(oldest, newest) {
            // Those before it may have been released with it.
            if !self.pages.is_empty() && self.index_of(page) < self.pages.len() {
                self.release_if_dead(page);
            }
        }
    }

    fn index_of(&self, page: u32) -> usize {
        page.wrapping_sub(self.oldest) as usize
    }

    fn drop_found(&mut self, page: &FoundPage) {
        self.arena.unmark_page(self.number_of(page.slot));
        self.released.push(page.slot);
    }

    /// Adds a page behind the others, and gaps for those between that were released.
    fn add_found(&mut self, page: &FoundPage) {
        while self.pages.len() < self.index_of(page.number) {
            self.pages.push_back(Page { slot: NIL, first: 0, live: 0 });
        }
        self.pages.push_back(Page { slot: page.slot, first: page.first as u16, live: 0 });
        self.pages_held += 1;
    }

    /// Enters the objects that begin in a page. `twins`: receives the blocks that are found twice.
    fn restore_objects(&mut self, page: u32, twins: &mut Vec<u64>) {
        let mut next = self.first_in(page);
        while let Some(from) = next {
            let Some(head) = self.head(from) else { break };
            next = self.next_in(from, &head);
            let Some(block) = head.block else { continue };
            let end = self.behind(from, head.bytes);
            let is_twin = self.has(block);
            if is_twin {
                // No process leaves that, and one of them may be older than the backing.
                twins.push(block);
            }
            match !is_twin && self.has_room() && self.is_whole(from, end) {
                true => self.enter_unverified(block, from, end),
                false => self.remove_head(from, &head),
            }
        }
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
