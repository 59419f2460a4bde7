//! The cost of a mapping table that is not paged from the flash, in reads and programs of map
//! pages.
//!
//! A flat table is resident; only its journal has a cost. A tree of extents is divided into regions
//! of 1024 slots, which are cached in a DRAM budget (CLOCK, one hand). The size of a region is
//! proportional to its number of extents, so sequential writes make the tree small and random
//! writes make it exceed its budget, as on Intel's first drives. A slot without data has no node:
//! TRIM removes nodes, and a region without any is on no page that would have to be read.

use alloc::vec;
use alloc::vec::Vec;

/// Slots of a region of the map: one page of 4-byte entries.
const REGION: u32 = 1024;

/// The storage of the table.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MapKind {
    /// All in DRAM; one map page is programmed for a number of host updates.
    Flat {
        /// Host updates for which one page of the journal is programmed.
        journal_updates: u32,
    },
    /// On the flash, with a cache in the memory of the controller or of the host. A page that is
    /// not in the cache is read; a changed one is programmed when it is evicted.
    Cached {
        /// The budget.
        bytes: u64,
        /// Changes of entries that are gathered before they are merged into their pages; 0: a
        /// change brings its page into memory.
        gathered: u32,
    },
    /// A tree of extents in DRAM.
    Extents {
        /// The budget.
        bytes: u64,
        /// Bytes of an extent's node.
        node_bytes: u32,
    },
}

/// The cost of a request in map pages.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct MapCost {
    /// Map pages read.
    pub reads: u32,
    /// Map pages programmed.
    pub programs: u32,
    /// Map pages into which gathered changes are merged.
    pub merges: u32,
}

const RESIDENT: u8 = 1;
const DIRTY: u8 = 2;
const USED: u8 = 4;
/// A version of the region is on the flash.
const STORED: u8 = 8;

/// The table's state.
pub(crate) struct Table {
    kind: MapKind,
    /// Updates since the journal's last page.
    journalled: u32,
    /// The state of each region; empty unless it is a tree.
    regions: Vec<u8>,
    /// Extents that begin in each region.
    extents: Vec<u16>,
    /// One bit a slot: an extent begins here.
    begins: Vec<u64>,
    held_bytes: u64,
    hand: usize,
    /// The slot at which a write would continue the last one.
    next: u32,
}

impl Table {
    pub(crate) fn new(kind: MapKind, logical_slots: u32) -> Table {
        let regions = logical_slots.div_ceil(REGION) as usize;
        let tree = if matches!(kind, MapKind::Extents { .. }) { regions } else { 0 };
        Table {
            kind,
            journalled: 0,
            regions: vec![0; tree],
            extents: vec![0; tree],
            begins: vec![0; tree * (REGION as usize / 64) + usize::from(tree > 0)],
            held_bytes: 0,
            hand: 0,
            next: u32::MAX,
        }
    }

    /// Records a host write of a slot; returns its cost. `has_data` returns whether a slot has
    /// data; false behind the drive's end.
    #[inline]
    pub(crate) fn write(&mut self, slot: u32, has_data: impl Fn(u32) -> bool) -> MapCost {
        match self.kind {
            MapKind::Flat { journal_updates } => {
                self.journalled += 1;
                if self.journalled < journal_updates {
                    return MapCost::default();
                }
                self.journalled = 0;
                MapCost { programs: 1, ..MapCost::default() }
            }
            MapKind::Cached { .. } => MapCost::default(),
            MapKind::Extents { .. } => {
                self.mark(slot, slot != self.next);
                self.next = slot + 1;
                if has_data(slot + 1) {
                    self.mark(slot + 1, true);
                }
                self.touch(slot, true)
            }
        }
    }

    /// Records a host read of a slot; returns its cost.
    #[inline]
    pub(crate) fn read(&mut self, slot: u32) -> MapCost {
        if self.regions.is_empty() { MapCost::default() } else { self.touch(slot, false) }
    }

    /// Returns the extents of the whole table; 0 unless it is a tree.
    pub(crate) fn extents(&self) -> u64 {
        self.extents.iter().map(|count| u64::from(*count)).sum()
    }

    /// Records that a slot has no data any more; returns the cost.
    pub(crate) fn trim(&mut self, slot: u32, has_data: impl Fn(u32) -> bool) -> MapCost {
        if self.regions.is_empty() {
            return MapCost::default();
        }
        let cost = self.touch(slot, true);
        self.mark(slot, false);
        if has_data(slot + 1) {
            self.mark(slot + 1, true);
        }
        if self.next == slot {
            self.next = u32::MAX;
        }
        // Without a beginning in it, a region has data only if an extent reaches into it.
        let region = (slot / REGION) as usize;
        if self.extents[region] == 0 && !has_data(slot - slot % REGION) {
            self.forget(region);
        }
        cost
    }

    /// Drops a region without data.
    fn forget(&mut self, region: usize) {
        if self.regions[region] & RESIDENT != 0 {
            self.held_bytes -= self.bytes_of(region);
        }
        self.regions[region] = 0;
    }

    fn mark(&mut self, slot: u32, begins: bool) {
        let (word, bit) = (slot as usize / 64, 1u64 << (slot % 64));
        if (self.begins[word] & bit != 0) == begins {
            return;
        }
        self.begins[word] ^= bit;
        let region = (slot / REGION) as usize;
        let before = self.bytes_of(region);
        if begins {
            self.extents[region] += 1;
        } else {
            self.extents[region] -= 1;
        }
        if self.regions[region] & RESIDENT != 0 {
            self.held_bytes = self.held_bytes - before + self.bytes_of(region);
        }
    }

    fn bytes_of(&self, region: usize) -> u64 {
        let MapKind::Extents { node_bytes, .. } = self.kind else { return 0 };
        (1 + u64::from(self.extents[region])) * u64::from(node_bytes)
    }

    fn touch(&mut self, slot: u32, write: bool) -> MapCost {
        let MapKind::Extents { bytes: budget, .. } = self.kind else {
            return MapCost::default();
        };
        let region = (slot / REGION) as usize;
        let mut cost = MapCost::default();
        if self.regions[region] & RESIDENT == 0 {
            cost.reads = u32::from(self.regions[region] & STORED != 0);
            self.held_bytes += self.bytes_of(region);
        }
        self.regions[region] |= RESIDENT | USED | if write { DIRTY } else { 0 };
        while self.held_bytes > budget {
            match self.evict(region) {
                Some(dirty) => cost.programs += u32::from(dirty),
                // The budget is smaller than this region.
                None => break,
            }
        }
        cost
    }

    /// Evicts a region that was not used since the hand last passed it, never `kept`. Returns
    /// whether it was changed.
    fn evict(&mut self, kept: usize) -> Option<bool> {
        for _ in 0..2 * self.regions.len() {
            let at = self.hand;
            self.hand = (self.hand + 1) % self.regions.len();
            let state = self.regions[at];
            if state & RESIDENT == 0 || at == kept {
                continue;
            }
            if state & USED != 0 {
                self.regions[at] &= !USED;
                continue;
            }
            self.held_bytes -= self.bytes_of(at);
            self.regions[at] = state & STORED | if state & DIRTY != 0 { STORED } else { 0 };
            return Some(state & DIRTY != 0);
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn a_flat_table_costs_a_page_of_journal_now_and_then() {
        let mut table = Table::new(MapKind::Flat { journal_updates: 512 }, 10_000);
        let programs: u32 = (0..5_120).map(|slot| table.write(slot, |_| true).programs).sum();
        assert_eq!(programs, 10);
        assert_eq!(table.read(5), MapCost::default());
    }

    #[test]
    fn sequential_writes_keep_a_tree_small_and_random_writes_make_it_grow() {
        let slots = 100 * REGION;
        let kind = MapKind::Extents { bytes: 1 << 20, node_bytes: 16 };
        let mut table = Table::new(kind, slots);
        let sequential: u32 =
            (0..slots).map(|slot| table.write(slot, |slot| slot < slots).programs).sum();
        assert_eq!((sequential, table.extents()), (0, 1));
        let mut random = Random::new(3);
        let mut cost = 0;
        for _ in 0..4 * slots {
            cost += table.write(random.below(slots), |slot| slot < slots).programs;
        }
        assert!(table.extents() > u64::from(slots) * 9 / 10, "{}", table.extents());
        assert!(cost > slots / 10, "the tree outgrew its budget without a cost: {cost}");
        (0..slots).for_each(|slot| _ = table.write(slot, |slot| slot < slots));
        assert_eq!(table.extents(), 1);
    }

    #[test]
    fn trim_shrinks_a_tree_and_regions_without_data_are_not_read() {
        let slots = 100 * REGION;
        let kind = MapKind::Extents { bytes: 64 << 10, node_bytes: 16 };
        let mut table = Table::new(kind, slots);
        let mut data = vec![false; slots as usize + 1];
        let mut random = Random::new(3);
        let mut round = |table: &mut Table, data: &mut Vec<bool>| {
            let mut reads = 0;
            for _ in 0..2000 {
                let slot = random.below(slots);
                data[slot as usize] = true;
                reads += table.write(slot, |slot| data[slot as usize]).reads;
            }
            reads
        };
        assert_eq!(round(&mut table, &mut data), 0, "nothing was stored before");
        for _ in 0..20 {
            round(&mut table, &mut data);
        }
        assert!(round(&mut table, &mut data) > 1000, "the tree has outgrown its budget");
        for slot in 0..slots {
            if core::mem::take(&mut data[slot as usize]) {
                table.trim(slot, |slot| data[slot as usize]);
            }
        }
        assert_eq!((table.extents(), table.held_bytes), (0, 0));
        assert_eq!(round(&mut table, &mut data), 0, "a new tree");
    }

    #[test]
    fn an_extent_that_is_trimmed_in_its_middle_becomes_two() {
        let kind = MapKind::Extents { bytes: 1 << 20, node_bytes: 16 };
        let mut table = Table::new(kind, 4 * REGION);
        let mut data = vec![true; 4 * REGION as usize + 1];
        (0..4 * REGION).for_each(|slot| _ = table.write(slot, |slot| slot < 4 * REGION));
        for slot in 2 * REGION..2 * REGION + 10 {
            data[slot as usize] = false;
            table.trim(slot, |slot| data[slot as usize]);
        }
        assert_eq!(table.extents(), 2);
    }
}
