//! A map that lies on the flash, of which a part is in memory, as in controllers without DRAM or with little
//! (DFTL: Gupta, Kim and Urgaonkar, ASPLOS 2009).
//!
//! Every change of an entry needs its page in memory: the host's writes and TRIMs, and each slot that
//! cleaning moves. A page that is not there is read; a changed one that has to go for it is programmed,
//! together with others that fill a unit, into an [area](super::map_area) of its own. Where pages lie is
//! always in memory, at 4 bytes for 4 MiB. The host's own addresses stand beside the data, so a power cut
//! loses no entry: what was only in memory is found again and programmed when power is back.

use super::map_area::{Books, MapArea};
use super::page_cache::PageCache;
use super::{MapKind, Nand, Settings};
use crate::shape::{SLOT_BYTES, Shape};

/// Slots whose entries, of 4 bytes, are in one page of the map.
const ENTRIES: u32 = 1024;

/// Units of changed pages that are programmed at most where one was asked for: more than can come
/// meanwhile, so that what a TRIM of much has changed is worked off in steps.
const UNITS_AT_ONCE: u32 = 2;

/// The pages of a map.
pub(super) struct MapPages {
    cache: PageCache,
    area: MapArea,
}

impl MapPages {
    /// None: the map does not lie on the flash.
    pub(super) fn new(shape: &Shape, settings: &Settings) -> Option<MapPages> {
        let MapKind::Cached { bytes } = settings.map else { return None };
        let pages = shape.logical_slots.div_ceil(ENTRIES);
        let first = settings.slc.static_superblocks;
        let (slc, slots) = superblock(shape, settings);
        Some(MapPages {
            cache: PageCache::new(pages, bytes / SLOT_BYTES),
            area: MapArea::new(first, pages, slc, slots, shape.unit_slots),
        })
    }

    /// Brings the page of a slot's entry into memory; says whether it had to be read.
    #[inline]
    pub(super) fn touch(&mut self, slot: u32, changes: bool) -> bool {
        let page = slot / ENTRIES;
        !self.cache.hit(page, changes) && self.bring(page, changes)
    }

    fn bring(&mut self, page: u32, changes: bool) -> bool {
        let waits = self.area.unstage(page);
        if let Some(evicted) = self.cache.insert(page, changes || waits) {
            self.area.stage(evicted);
        }
        !waits && self.area.has(page)
    }

    /// Programs what has left the memory, a few units of it.
    pub(super) fn program<N: Nand>(&mut self, books: &mut Books<'_>, nand: &mut N) {
        for _ in 0..UNITS_AT_ONCE {
            if !self.area.is_due() {
                return;
            }
            self.area.program(books, nand);
        }
    }

    /// Nothing of the map is in memory any more; what had changed is programmed when the drive goes on.
    pub(super) fn drop_cache(&mut self) {
        let area = &mut self.area;
        self.cache.clear(|page| area.stage(page));
    }

    pub(super) fn audit(&self) {
        self.area.audit();
    }
}

/// Whether the area is used with one bit a cell, as it is where the drive does that at all, and the slots
/// of its superblocks then.
fn superblock(shape: &Shape, settings: &Settings) -> (bool, u32) {
    let slc = settings.slc.static_superblocks + settings.slc.dynamic_superblocks > 0;
    (slc, if slc { shape.slc_superblock_slots() } else { shape.superblock_slots() })
}

impl Settings {
    /// Superblocks that the map takes for itself; none unless it lies on the flash.
    pub fn map_superblocks(&self, shape: &Shape) -> u32 {
        match self.map {
            MapKind::Cached { .. } => {
                let (_, slots) = superblock(shape, self);
                MapArea::superblocks(shape.logical_slots.div_ceil(ENTRIES), slots)
            }
            _ => 0,
        }
    }

    /// Units of one of these superblocks.
    pub(super) fn map_superblock_units(&self, shape: &Shape) -> u32 {
        superblock(shape, self).1 / shape.unit_slots.max(1)
    }
}
