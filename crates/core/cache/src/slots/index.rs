//! The index from blocks to slots: an open-addressed table of 4-byte cells.
//!
//! A cell is `| tag 6 | displacement 4 | slot + 1 22 |`, 0 if empty. Collisions go to the next
//! cell; a removal shifts the cells behind it back (Knuth, The Art of Computer Programming 6.4,
//! algorithm R), so that there are no tombstones and no rebuild. The displacement is the distance
//! of a cell from its home. With it, cells are shifted without reading the slots' headers, which
//! are in distant memory; only if it does not fit into its four bits is the header read. The table
//! has one and a third cells per slot: 5.3 bytes. A block has a cell for each of its versions.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};
use policy::Hash;

const SLOT_BITS: u32 = 22;
const SLOT_MASK: u32 = (1 << SLOT_BITS) - 1;
/// The largest displacement that is stored: it means "this or more".
const FAR: u32 = 15;

/// The maximum number of slots that an index can name.
pub(crate) const SLOTS_MAX: u32 = SLOT_MASK - 1;

/// Returns the part of a hash that its cell holds: it distinguishes most other blocks.
#[inline]
fn tag(hash: Hash) -> u32 {
    (hash.bits() >> 58) as u32
}

#[derive(Clone, Copy, PartialEq, Eq)]
struct Cell(u32);

impl Cell {
    const EMPTY: Cell = Cell(0);

    fn new(tag: u32, displacement: usize, slot: u32) -> Cell {
        let displacement = (displacement as u32).min(FAR);
        Cell(tag << 26 | displacement << SLOT_BITS | (slot + 1))
    }

    #[inline]
    fn tag(self) -> u32 {
        self.0 >> 26
    }

    fn displacement(self) -> u32 {
        self.0 >> SLOT_BITS & FAR
    }

    #[inline]
    fn slot(self) -> u32 {
        (self.0 & SLOT_MASK) - 1
    }
}

/// The table. Only its shard changes it, under the lock.
pub(crate) struct Index {
    cells: Arc<[AtomicU32]>,
    /// The number of lookups.
    #[cfg(test)]
    pub(crate) lookups: AtomicU32,
}

/// The table for prefetching, without the lock: its answers are almost always right.
#[derive(Clone)]
pub(crate) struct Hints(Arc<[AtomicU32]>);

impl Hints {
    /// Prefetches the cell of a hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: Hash) {
        block::prefetch(&self.0[home(&self.0, hash)]);
    }

    /// Returns the slot that is probably under this hash, by its tag alone.
    #[inline]
    pub(crate) fn slot(&self, hash: Hash) -> Option<u32> {
        let mut at = home(&self.0, hash);
        // The table may change during the search, so the search is limited.
        for _ in 0..64 {
            let cell = Cell(self.0[at].load(Ordering::Relaxed));
            if cell == Cell::EMPTY {
                return None;
            }
            if cell.tag() == tag(hash) {
                return Some(cell.slot());
            }
            at = if at + 1 == self.0.len() { 0 } else { at + 1 };
        }
        None
    }
}

#[inline]
fn home(cells: &[AtomicU32], hash: Hash) -> usize {
    (((hash.bits() & 0xffff_ffff) * cells.len() as u64) >> 32) as usize
}

impl Index {
    pub(crate) fn new(slots: u32) -> Index {
        assert!(slots <= SLOTS_MAX);
        let cells = slots as usize + slots as usize / 3 + 2;
        Index {
            cells: (0..cells).map(|_| AtomicU32::new(0)).collect(),
            #[cfg(test)]
            lookups: AtomicU32::new(0),
        }
    }

    pub(crate) fn hints(&self) -> Hints {
        Hints(self.cells.clone())
    }

    /// Prefetches the cell of a hash.
    #[inline]
    pub(crate) fn prefetch(&self, hash: Hash) {
        block::prefetch(&self.cells[self.home(hash)]);
    }

    #[inline]
    fn cell(&self, at: usize) -> Cell {
        Cell(self.cells[at].load(Ordering::Relaxed))
    }

    #[inline]
    fn set(&mut self, at: usize, cell: Cell) {
        self.cells[at].store(cell.0, Ordering::Relaxed);
    }

    #[inline]
    fn home(&self, hash: Hash) -> usize {
        home(&self.cells, hash)
    }

    #[inline]
    fn next(&self, at: usize) -> usize {
        if at + 1 == self.cells.len() { 0 } else { at + 1 }
    }

    /// Returns the number of cells from `from` to `at`.
    #[inline]
    fn distance(&self, from: usize, at: usize) -> usize {
        if at >= from { at - from } else { at + self.cells.len() - from }
    }

    /// Returns the first slot under this hash for which `is_it` is true.
    #[inline]
    pub(crate) fn find(&self, hash: Hash, mut is_it: impl FnMut(u32) -> bool) -> Option<u32> {
        #[cfg(test)]
        self.lookups.fetch_add(1, Ordering::Relaxed);
        let (front, back) = self.cells.split_at(self.home(hash));
        // Two loops over slices: a step checks neither a bound nor the wrap at the end.
        for cells in [back, front] {
            for cell in cells {
                let cell = Cell(cell.load(Ordering::Relaxed));
                if cell == Cell::EMPTY {
                    return None;
                }
                if cell.tag() == tag(hash) && is_it(cell.slot()) {
                    return Some(cell.slot());
                }
            }
        }
        None
    }

    pub(crate) fn insert(&mut self, hash: Hash, slot: u32) {
        let mut at = self.home(hash);
        let mut displacement = 0;
        while self.cell(at) != Cell::EMPTY {
            at = self.next(at);
            displacement += 1;
        }
        self.set(at, Cell::new(tag(hash), displacement, slot));
    }

    fn cell_of(&self, hash: Hash, slot: u32) -> usize {
        let mut at = self.home(hash);
        while self.cell(at).0 & SLOT_MASK != slot + 1 {
            assert!(self.cell(at) != Cell::EMPTY, "a slot that is not in the index");
            at = self.next(at);
        }
        at
    }

    /// Removes a slot; `hash_of` returns the hash of any other slot in the table.
    pub(crate) fn remove(&mut self, hash: Hash, slot: u32, hash_of: impl Fn(u32) -> Hash) {
        let mut hole = self.cell_of(hash, slot);
        let mut at = hole;
        loop {
            at = self.next(at);
            let cell = self.cell(at);
            if cell == Cell::EMPTY {
                break;
            }
            let displacement = match cell.displacement() {
                FAR => self.distance(self.home(hash_of(cell.slot())), at),
                near => near as usize,
            };
            // The cell may move back into the hole unless its home is behind the hole.
            let step = self.distance(hole, at);
            if displacement >= step {
                self.set(hole, Cell::new(cell.tag(), displacement - step, cell.slot()));
                hole = at;
            }
        }
        self.set(hole, Cell::EMPTY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec::Vec;

    #[test]
    fn it_agrees_with_a_list_under_random_inserts_and_removals() {
        let mut random = lane::Random::new(1);
        for _ in 0..50 {
            let slots = 24u64;
            let mut index = Index::new(slots as u32);
            // slot -> block
            let mut model: Vec<Option<u64>> = alloc::vec![None; slots as usize];
            for _ in 0..400 {
                let slot = random.below(slots) as usize;
                if let Some(block) = model[slot] {
                    let blocks = model.clone();
                    index.remove(Hash::of(block), slot as u32, |other| {
                        Hash::of(blocks[other as usize].expect("is in the table"))
                    });
                    model[slot] = None;
                } else {
                    let block = random.below(40);
                    index.insert(Hash::of(block), slot as u32);
                    model[slot] = Some(block);
                }
                for block in 0..40 {
                    let is_it = |slot: u32| model[slot as usize] == Some(block);
                    let found = index.find(Hash::of(block), is_it);
                    let expected = model.contains(&Some(block));
                    assert_eq!(found.is_some(), expected, "block {block}");
                }
            }
        }
    }
}
