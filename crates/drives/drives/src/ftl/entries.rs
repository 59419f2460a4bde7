//! Lookups and changes of a map on the flash, by the drive's requests and its cleaning.

use super::map_area::Books;
use super::{Ftl, MapCost, Nand};

impl Ftl {
    /// Looks up or changes a slot's entry; returns the reads and merges needed for that.
    #[inline]
    pub(super) fn touch_entry(&mut self, slot: u32, changes: bool) -> MapCost {
        let Some(pages) = self.pages.as_mut() else { return MapCost::default() };
        let cost = pages.touch(slot, changes);
        self.counters.map_reads += u64::from(cost.reads);
        self.counters.map_merges += u64::from(cost.merges);
        cost
    }

    /// Changes the entry of a slot that is trimmed.
    pub(super) fn trim_entry(&mut self, slot: u32) {
        let Some(pages) = self.pages.as_mut() else { return };
        let cost = pages.trim(slot);
        self.counters.map_reads += u64::from(cost.reads);
        self.counters.map_merges += u64::from(cost.merges);
    }

    /// Whether changes of the map are gathered before they are merged into its pages.
    pub fn gathers_changes(&self) -> bool {
        self.pages.as_ref().is_some_and(super::map_pages::MapPages::gathers)
    }

    /// Changes the entry of a slot that was moved.
    pub(super) fn move_entry<N: Nand>(&mut self, slot: u32, nand: &mut N) {
        let cost = self.touch_entry(slot, true);
        for _ in 0..cost.reads {
            nand.look_up();
        }
        for _ in 0..cost.merges {
            nand.merge();
        }
        self.program_map_pages(nand);
    }

    /// Programs pages that were evicted from memory, a few units of them.
    #[inline]
    pub(super) fn program_map_pages<N: Nand>(&mut self, nand: &mut N) {
        if let Some(pages) = &mut self.pages {
            let mut books = Books { erases: &mut self.erases, counters: &mut self.counters };
            pages.program(&mut books, nand);
        }
    }

    /// Drops all pages of the map from memory, after a power cut.
    pub(super) fn drop_map_pages(&mut self) {
        if let Some(pages) = &mut self.pages {
            pages.drop_cache();
        }
    }
}
