//! A map on the flash with a part in memory, as in controllers with little or no DRAM (DFTL: Gupta,
//! Kim and Urgaonkar, ASPLOS 2009).
//!
//! Every change of an entry needs its page in memory: the host's writes and TRIMs, and each slot
//! that cleaning moves. A page that is not in memory is read; if that evicts a changed page, that
//! one is programmed, together with others that fill a unit, into a separate
//! [area](super::map_area). The locations of pages are always in memory, at 4 bytes for 4 MiB. The
//! host's own addresses are stored with the data, so a power cut loses no entry: changes that were
//! only in memory are recovered and programmed when power returns.
//!
//! With [gathered changes](super::gather) pages in memory serve lookups only, and a change needs no
//! page until it is merged.

use super::gather::Gather;
use super::map_area::{Books, MapArea};
use super::page_cache::PageCache;
use super::{MapCost, MapKind, Nand, Settings};
use crate::shape::{SLOT_BYTES, Shape};

/// Number of slots with entries, of 4 bytes, in one page of the map.
const ENTRIES: u32 = 1024;

/// Maximum number of units of changed pages programmed where one is due: more than can become due
/// between two calls, so that the changes of a large TRIM are worked off in steps.
const UNITS_AT_ONCE: u32 = 2;

/// The pages of a map.
pub(super) struct MapPages {
    cache: PageCache,
    area: MapArea,
    gather: Option<Gather>,
    /// The page of the last trimmed slot, if no other change came since.
    trimmed: Option<u32>,
}

impl MapPages {
    /// Returns the pages of a map. None: the map is not on the flash.
    pub(super) fn new(shape: &Shape, settings: &Settings) -> Option<MapPages> {
        let MapKind::Cached { bytes, gathered } = settings.map else { return None };
        let pages = shape.logical_slots.div_ceil(ENTRIES);
        let first = settings.slc.static_superblocks;
        let (slc, slots) = superblock(shape, settings);
        Some(MapPages {
            cache: PageCache::new(pages, bytes / SLOT_BYTES),
            area: MapArea::new(first, pages, slc, slots, shape.unit_slots),
            gather: (gathered > 0).then(|| Gather::new(pages, gathered)),
            trimmed: None,
        })
    }

    /// Looks up or changes a slot's entry; returns the cost. Programs are counted where they are
    /// done.
    #[inline]
    pub(super) fn touch(&mut self, slot: u32, changes: bool) -> MapCost {
        let page = slot / ENTRIES;
        match &mut self.gather {
            Some(gather) if changes => {
                self.trimmed = None;
                gather.add(page);
                self.merge_due()
            }
            Some(gather) if gather.has(page) && !self.area.has(page) => MapCost::default(),
            _ => {
                let missed = !self.cache.hit(page, changes) && self.bring(page, changes);
                MapCost { reads: u32::from(missed), ..MapCost::default() }
            }
        }
    }

    /// Changes the entry of a trimmed slot. Gathered changes describe ranges, so all slots of a
    /// page that are trimmed one after the other are one change.
    pub(super) fn trim(&mut self, slot: u32) -> MapCost {
        let page = slot / ENTRIES;
        if self.gathers() && self.trimmed == Some(page) {
            return MapCost::default();
        }
        let cost = self.touch(slot, true);
        self.trimmed = Some(page);
        cost
    }

    /// Whether changes are gathered before they are merged into pages.
    pub(super) fn gathers(&self) -> bool {
        self.gather.is_some()
    }

    /// Merges gathered changes into the pages that are due.
    fn merge_due(&mut self) -> MapCost {
        let mut cost = MapCost::default();
        while let Some(page) = self.gather.as_mut().and_then(Gather::take_due) {
            let waits = self.area.unstage(page);
            let is_there = waits || self.cache.hit(page, false) || !self.area.has(page);
            cost.reads += u32::from(!is_there);
            cost.merges += 1;
            self.area.stage(page);
        }
        cost
    }

    fn bring(&mut self, page: u32, changes: bool) -> bool {
        let waits = self.area.unstage(page);
        if let Some(evicted) = self.cache.insert(page, changes || waits) {
            self.area.stage(evicted);
        }
        !waits && self.area.has(page)
    }

    /// Programs pages that were evicted from memory, a few units of them.
    pub(super) fn program<N: Nand>(&mut self, books: &mut Books<'_>, nand: &mut N) {
        for _ in 0..UNITS_AT_ONCE {
            if !self.area.is_due() {
                return;
            }
            self.area.program(books, nand);
        }
    }

    /// Drops all pages from memory; changed ones are programmed when the drive continues.
    pub(super) fn drop_cache(&mut self) {
        let area = &mut self.area;
        self.cache.clear(|page| area.stage(page));
    }

    pub(super) fn audit(&self) {
        self.area.audit();
    }
}

/// Returns whether the area is used with one bit a cell, which is the case if the drive does that
/// at all, and the slots of its superblocks.
fn superblock(shape: &Shape, settings: &Settings) -> (bool, u32) {
    let slc = settings.slc.static_superblocks + settings.slc.dynamic_superblocks > 0;
    (slc, if slc { shape.slc_superblock_slots() } else { shape.superblock_slots() })
}

impl Settings {
    /// Returns the superblocks reserved for the map; 0 unless it is on the flash.
    pub fn map_superblocks(&self, shape: &Shape) -> u32 {
        match self.map {
            MapKind::Cached { .. } => {
                let (_, slots) = superblock(shape, self);
                MapArea::superblocks(shape.logical_slots.div_ceil(ENTRIES), slots)
            }
            _ => 0,
        }
    }

    /// Returns the units of one of these superblocks.
    pub(super) fn map_superblock_units(&self, shape: &Shape) -> u32 {
        superblock(shape, self).1 / shape.unit_slots.max(1)
    }
}
