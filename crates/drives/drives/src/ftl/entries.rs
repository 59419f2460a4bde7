//! Lookups and changes of a map on the flash, by the drive's requests and its cleaning.

use super::map_area::Books;
use super::{Ftl, MapCost, Nand};

impl Ftl {
    /// Looks up or changes a slot's entry; returns the reads needed for that.
    #[inline]
    pub(super) fn touch_entry(&mut self, slot: u32, changes: bool) -> MapCost {
        let missed = self.pages.as_mut().is_some_and(|pages| pages.touch(slot, changes));
        self.counters.map_reads += u64::from(missed);
        MapCost { reads: u32::from(missed), programs: 0 }
    }

    /// Changes the entry of a slot that was moved.
    pub(super) fn move_entry<N: Nand>(&mut self, slot: u32, nand: &mut N) {
        if self.touch_entry(slot, true).reads > 0 {
            nand.look_up();
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
