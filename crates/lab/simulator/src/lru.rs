//! LRU caches of many sizes in one structure.
//!
//! An LRU cache holds the blocks that were used last, so the blocks of a smaller cache are the
//! first of a larger one's (R. Mattson et al., "Evaluation techniques for storage hierarchies", IBM
//! Systems Journal 9(2), 1970). One list serves all sizes. Each entry has a *zone*, the number of
//! the smallest size that holds it, and each size has the index of its last entry: when an entry
//! moves to the front, the last one of each smaller size moves into the next zone.
//!
//! ```text
//!   sizes 2, 5        front [a b] [c d e]        d is used:   [d a] [b c e]
//!   zones                    0 0   1 1 1                       0 0   1 1 1
//! ```

use crate::hash::mixed;

/// No entry.
const NIL: u32 = u32::MAX;
/// Accesses that are looked up in the table together, so that their cache misses overlap.
const GROUP: usize = 32;

/// LRU caches of several sizes over the same accesses.
pub struct Lru {
    /// Ascending, without duplicates.
    sizes: Vec<u32>,
    /// The last entry of each size, once it is full.
    ends: Vec<u32>,
    /// Number of hits in each zone.
    hits: Vec<u64>,
    accesses: u64,
    entries: Vec<Entry>,
    zones: Vec<u8>,
    front: u32,
    back: u32,
    table: Table,
}

#[derive(Clone, Copy)]
struct Entry {
    block: u64,
    before: u32,
    behind: u32,
}

impl Lru {
    /// Returns empty caches with these numbers of slots, in any order; at most 255 of them.
    ///
    /// # Panics
    /// If there are none, if there are more, or if one has no slots.
    pub fn new(sizes: &[u32]) -> Lru {
        let mut sizes = sizes.to_vec();
        sizes.sort_unstable();
        sizes.dedup();
        assert!(!sizes.is_empty() && sizes.len() < 256 && sizes[0] > 0, "{sizes:?}");
        Lru {
            ends: vec![NIL; sizes.len()],
            hits: vec![0; sizes.len()],
            accesses: 0,
            entries: Vec::new(),
            zones: Vec::new(),
            front: NIL,
            back: NIL,
            table: Table::new(),
            sizes,
        }
    }

    /// Returns the misses of the cache of this size. None: it was not simulated.
    pub fn misses(&self, size: u32) -> Option<u64> {
        let place = self.sizes.binary_search(&size).ok()?;
        Some(self.accesses - self.hits[..=place].iter().sum::<u64>())
    }

    /// Accesses these blocks, one after the other.
    pub fn access_all(&mut self, blocks: &[u64]) {
        for group in blocks.chunks(GROUP) {
            if self.table.is_large() {
                self.touch(group);
            }
            group.iter().for_each(|block| self.access(*block));
        }
    }

    /// Prefetches the memory for accesses to these blocks: their cells, the entries there, and
    /// those entries' neighbours, each step for all blocks together. The values found have no other
    /// effect.
    fn touch(&self, blocks: &[u64]) {
        let mut found = [0; GROUP];
        for (place, block) in found.iter_mut().zip(blocks) {
            *place = self.table.first_of(Tag::of(*block)) as usize;
        }
        let mut all = 0;
        let mut around = [(0, 0); GROUP];
        for (place, entry) in around.iter_mut().zip(found) {
            if let Some(entry) = self.entries.get(entry) {
                *place = (entry.before as usize, entry.behind as usize);
            }
        }
        for (before, behind) in around {
            all ^= self.entries.get(before).map_or(0, |entry| entry.behind);
            all ^= self.entries.get(behind).map_or(0, |entry| entry.before);
        }
        std::hint::black_box(all);
    }

    /// Accesses a block.
    #[inline]
    pub fn access(&mut self, block: u64) {
        self.accesses += 1;
        let tag = Tag::of(block);
        match self.table.find(tag, |entry| self.entries[entry as usize].block == block) {
            Some(entry) => self.hit(entry),
            None => self.miss(block, tag),
        }
    }

    #[inline]
    fn hit(&mut self, entry: u32) {
        let zone = usize::from(self.zones[entry as usize]);
        self.hits[zone] += 1;
        if entry == self.front {
            return;
        }
        if self.ends[zone] == entry {
            self.ends[zone] = self.entries[entry as usize].before;
        }
        self.unlink(entry);
        self.push_front(entry);
        self.shift(zone);
    }

    fn miss(&mut self, block: u64, tag: Tag) {
        let last = self.sizes.len() - 1;
        let used = self.entries.len() as u32;
        if used < self.sizes[last] {
            let full = self.sizes.partition_point(|size| *size <= used);
            self.table.make_room(used, |entry| Tag::of(self.entries[entry as usize].block));
            self.entries.push(Entry { block, before: NIL, behind: NIL });
            self.zones.push(0);
            self.table.insert(tag, used);
            self.push_front(used);
            self.shift(full);
            // The next size may have become full.
            if self.sizes[full] == used + 1 {
                self.ends[full] = self.back;
            }
            return;
        }
        let victim = self.back;
        self.table.remove(Tag::of(self.entries[victim as usize].block), victim);
        self.unlink(victim);
        self.entries[victim as usize].block = block;
        self.table.insert(tag, victim);
        self.push_front(victim);
        self.ends[last] = self.back;
        self.shift(last);
    }

    /// Moves the ends of the sizes before this zone by one, after an entry has moved to the front.
    #[inline]
    fn shift(&mut self, zone: usize) {
        for (place, end) in self.ends[..zone].iter_mut().enumerate() {
            self.zones[*end as usize] = place as u8 + 1;
            *end = self.entries[*end as usize].before;
        }
        self.zones[self.front as usize] = 0;
    }

    #[inline]
    fn unlink(&mut self, entry: u32) {
        let Entry { before, behind, .. } = self.entries[entry as usize];
        match before {
            NIL => self.front = behind,
            before => self.entries[before as usize].behind = behind,
        }
        match behind {
            NIL => self.back = before,
            behind => self.entries[behind as usize].before = before,
        }
    }

    #[inline]
    fn push_front(&mut self, entry: u32) {
        let front = self.front;
        self.entries[entry as usize].before = NIL;
        self.entries[entry as usize].behind = front;
        match front {
            NIL => self.back = entry,
            front => self.entries[front as usize].before = entry,
        }
        self.front = entry;
    }
}

/// The part of a block's identity in a cell of the table: a hash of its group of eight neighbours,
/// and its index in the group. Neighbours, which are usually accessed together, therefore share a
/// line of the processor's cache.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Tag(u32);

/// Bits of the index in a group.
const IN_GROUP_BITS: u32 = 3;
const GROUP_BITS: u32 = 32 - IN_GROUP_BITS;

impl Tag {
    #[inline]
    fn of(block: u64) -> Tag {
        let group = (mixed(block >> IN_GROUP_BITS) >> (64 - GROUP_BITS)) as u32;
        Tag(group << IN_GROUP_BITS | (block as u32 & ((1 << IN_GROUP_BITS) - 1)))
    }
}

/// The table of entries: open addressing with linear probing (Knuth, "The Art of Computer
/// Programming", volume 3, 6.4, algorithm L, and algorithm R for removals). A cell has the block's
/// tag, which usually makes a look at the entry unnecessary, and the entry's number plus one.
struct Table {
    cells: Vec<u64>,
    /// Right shift from a group's hash to its first cell.
    shift: u32,
}

const CELLS_MIN: usize = 64;

impl Table {
    fn new() -> Table {
        let group_bits = CELLS_MIN.trailing_zeros() - IN_GROUP_BITS;
        Table { cells: vec![0; CELLS_MIN], shift: GROUP_BITS - group_bits }
    }

    /// Whether it is too large for the first caches of a processor.
    #[inline]
    fn is_large(&self) -> bool {
        self.cells.len() > 1 << 13
    }

    #[inline]
    fn cell(tag: Tag, entry: u32) -> u64 {
        u64::from(tag.0) << 32 | (u64::from(entry) + 1)
    }

    #[inline]
    fn tag(cell: u64) -> Tag {
        Tag((cell >> 32) as u32)
    }

    #[inline]
    fn home(&self, tag: Tag) -> usize {
        let group = tag.0 >> IN_GROUP_BITS >> self.shift;
        (group << IN_GROUP_BITS | (tag.0 & ((1 << IN_GROUP_BITS) - 1))) as usize
    }

    #[inline]
    fn next(&self, place: usize) -> usize {
        (place + 1) & (self.cells.len() - 1)
    }

    /// Returns the entry in the first cell of a tag; [`NIL`] or an unrelated entry if the tag is
    /// not there.
    #[inline]
    fn first_of(&self, tag: Tag) -> u32 {
        (self.cells[self.home(tag)] as u32).wrapping_sub(1)
    }

    #[inline]
    fn find(&self, tag: Tag, is_it: impl Fn(u32) -> bool) -> Option<u32> {
        let mut place = self.home(tag);
        loop {
            let cell = self.cells[place];
            if cell == 0 {
                return None;
            }
            let entry = cell as u32 - 1;
            if Table::tag(cell) == tag && is_it(entry) {
                return Some(entry);
            }
            place = self.next(place);
        }
    }

    /// Makes room for one more than `used`: at most half of the cells are used.
    fn make_room(&mut self, used: u32, tag_of: impl Fn(u32) -> Tag) {
        if (used as usize + 1) * 2 <= self.cells.len() {
            return;
        }
        let cells = self.cells.len() * 2;
        *self = Table { cells: vec![0; cells], shift: self.shift - 1 };
        (0..used).for_each(|entry| self.insert(tag_of(entry), entry));
    }

    #[inline]
    fn insert(&mut self, tag: Tag, entry: u32) {
        let mut place = self.home(tag);
        while self.cells[place] != 0 {
            place = self.next(place);
        }
        self.cells[place] = Table::cell(tag, entry);
    }

    #[inline]
    fn remove(&mut self, tag: Tag, entry: u32) {
        let mut hole = self.home(tag);
        while self.cells[hole] != Table::cell(tag, entry) {
            hole = self.next(hole);
        }
        let mask = self.cells.len() - 1;
        let mut place = self.next(hole);
        while self.cells[place] != 0 {
            let home = self.home(Table::tag(self.cells[place]));
            // It may move if the probe sequence from its home passes the hole.
            if place.wrapping_sub(home) & mask >= place.wrapping_sub(hole) & mask {
                self.cells[hole] = self.cells[place];
                hole = place;
            }
            place = self.next(place);
        }
        self.cells[hole] = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use policy::Kind;
    use proptest::prelude::*;

    fn check(sizes: &[u32], blocks: &[u64]) {
        let mut lru = Lru::new(sizes);
        lru.access_all(blocks);
        for size in sizes {
            let expected = policy::misses(Kind::Lru, *size, blocks.iter().copied());
            assert_eq!(lru.misses(*size), Some(expected), "{size} of {sizes:?}");
        }
    }

    proptest! {
        #[test]
        fn each_size_misses_as_a_cache_of_its_own(
            sizes in prop::collection::vec(1..40u32, 1..8),
            blocks in prop::collection::vec(0..60u64, 0..600),
        ) {
            check(&sizes, &blocks);
        }
    }

    #[test]
    fn a_size_that_was_not_asked_for_has_no_misses() {
        assert_eq!((Lru::new(&[3]).misses(3), Lru::new(&[3]).misses(2)), (Some(0), None));
    }

    #[test]
    fn large_tables_grow_shrink_and_wrap() {
        let mut number = 1u64;
        let mut random = || {
            number = number.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695);
            number >> 33
        };
        // Products of two random numbers, so that some blocks repeat soon.
        let blocks: Vec<u64> = (0..200_000).map(|_| (random() % 200) * (random() % 200)).collect();
        check(&[1, 2, 63, 64, 65, 1000, 5000, 9000], &blocks);
        let blocks: Vec<u64> = (0..200_000).map(|_| random() % 40_000).collect();
        check(&[100, 10_000, 30_000], &blocks);
    }
}
