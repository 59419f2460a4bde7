//! The table of the tier's objects: where the object of each block begins, and which pages it has.

use super::log::Position;
use crate::geometry::Geometry;
use crate::slots::index::{self, Index};
use crate::slots::regions::RegionCounts;
use alloc::vec::Vec;
use core::ops::Range;
use policy::{Hash, NIL};

/// Maximum number of objects, for each slot of the shard.
pub(crate) const OBJECTS_PER_SLOT: u32 = 2;

/// It was read since it was stored.
const USED: u8 = 1;
/// It was taken over, and its bytes were not compared with their check.
const UNVERIFIED: u8 = 2;
/// There is no object.
const FREE: u8 = 4;
/// The shift of the number of pages in which it goes on.
const FURTHER_PAGES_AT: u32 = 3;

/// The place of a compressed block: 12 bytes. The rest is in the page, in front of its bytes.
#[derive(Clone, Copy)]
pub(super) struct Object {
    /// The block's number, in two parts.
    block_low: u32,
    block_high: u8,
    /// And the number of pages in which it goes on.
    flags: u8,
    /// The offset in its page, in bytes.
    at: u16,
    /// The number of the page in which it begins; in a free object, the next free one.
    page: u32,
}

impl Object {
    /// Makes the object of a block from this position to before that one.
    pub(super) fn new(block: u64, is_verified: bool, from: Position, end: Position) -> Object {
        let further = end.page.wrapping_sub(from.page);
        debug_assert!(further <= (u8::MAX >> FURTHER_PAGES_AT).into());
        let flags = if is_verified { 0 } else { UNVERIFIED };
        Object {
            block_low: block as u32,
            block_high: (block >> 32) as u8,
            flags: flags | (further as u8) << FURTHER_PAGES_AT,
            at: from.at as u16,
            page: from.page,
        }
    }

    pub(super) fn block(&self) -> u64 {
        u64::from(self.block_high) << 32 | u64::from(self.block_low)
    }

    /// Returns the position at which it begins.
    pub(super) fn begin(&self) -> Position {
        Position { page: self.page, at: self.at.into() }
    }

    /// Returns the number of the last page in which it has bytes.
    pub(super) fn last_page(&self) -> u32 {
        self.page.wrapping_add(u32::from(self.flags >> FURTHER_PAGES_AT))
    }

    /// Whether it was read since it was stored.
    pub(super) fn is_used(&self) -> bool {
        self.flags & USED != 0
    }

    /// Whether this process has stored it.
    pub(super) fn is_verified(&self) -> bool {
        self.flags & UNVERIFIED == 0
    }

    fn is_free(&self) -> bool {
        self.flags & FREE != 0
    }
}

/// The table of a shard.
pub(super) struct Objects {
    table: Vec<Object>,
    table_max: u32,
    /// The first free object.
    free: u32,
    index: Index,
    /// The regions of the live objects.
    regions: RegionCounts,
    held: u32,
}

impl Objects {
    /// Makes a table without memory.
    pub(super) fn new(geometry: &Geometry) -> Objects {
        Objects {
            table: Vec::new(),
            table_max: 0,
            free: NIL,
            index: Index::new(0),
            regions: RegionCounts::new(geometry),
            held: 0,
        }
    }

    /// Allocates the table for a shard of this many slots.
    pub(super) fn open(&mut self, slots: u32) {
        self.table_max = slots.saturating_mul(OBJECTS_PER_SLOT).min(index::SLOTS_MAX);
        self.table.reserve_exact(self.table_max as usize);
        self.index = Index::new(self.table_max);
    }

    #[inline]
    pub(super) fn is_open(&self) -> bool {
        self.table_max > 0
    }

    /// Releases the memory of an empty table.
    pub(super) fn close(&mut self) {
        debug_assert_eq!(self.held, 0);
        (self.table, self.table_max, self.free) = (Vec::new(), 0, NIL);
        self.index = Index::new(0);
    }

    /// The number of live objects.
    #[inline]
    pub(super) fn held(&self) -> u32 {
        self.held
    }

    /// Returns the number of a block's object.
    pub(super) fn number_of(&self, block: u64) -> Option<u32> {
        if self.held == 0 {
            return None;
        }
        self.index.find(Hash::of(block), |number| self.table[number as usize].block() == block)
    }

    /// Returns a block's object.
    pub(super) fn find(&self, block: u64) -> Option<Object> {
        self.number_of(block).map(|number| self.table[number as usize])
    }

    /// Returns the object of this number.
    pub(super) fn of_number(&self, number: u32) -> Object {
        self.table[number as usize]
    }

    /// Notes a read of a block. Returns whether an earlier one was noted.
    pub(super) fn note_use(&mut self, block: u64) -> bool {
        let Some(number) = self.number_of(block) else { return false };
        let object = &mut self.table[number as usize];
        let was_used = object.is_used();
        object.flags |= USED;
        was_used
    }

    /// Whether an object may be of this block's region.
    pub(super) fn may_have(&self, block: u64) -> bool {
        self.held > 0 && self.regions.may_have(block)
    }

    /// Whether there is room for another object.
    pub(super) fn has_room(&self) -> bool {
        self.free != NIL || self.table.len() < self.table_max as usize
    }

    /// Enters an object, for which there is room.
    pub(super) fn insert(&mut self, object: Object) {
        let number = self.take(object);
        self.index.insert(Hash::of(object.block()), number);
        self.regions.add(object.block());
        self.held += 1;
    }

    fn take(&mut self, object: Object) -> u32 {
        if self.free == NIL {
            assert!(self.table.len() < self.table_max as usize, "has_room was not asked");
            self.table.push(object);
            return self.table.len() as u32 - 1;
        }
        let number = self.free;
        self.free = self.table[number as usize].page;
        self.table[number as usize] = object;
        number
    }

    /// Removes the object of this number.
    pub(super) fn remove(&mut self, number: u32) {
        let block = self.table[number as usize].block();
        let table = &self.table;
        self.index.remove(Hash::of(block), number, |other| Hash::of(table[other as usize].block()));
        self.regions.remove(block);
        self.held -= 1;
        let freed = &mut self.table[number as usize];
        (freed.flags, freed.page) = (FREE, self.free);
        self.free = number;
    }

    /// Maximum number of objects until now.
    #[inline]
    pub(super) fn numbers(&self) -> u32 {
        self.table.len() as u32
    }

    /// Returns the live ones of the objects with these numbers.
    pub(super) fn live(&self, numbers: Range<u32>) -> impl Iterator<Item = &Object> {
        let objects = self.table.iter().skip(numbers.start as usize).take(numbers.len());
        objects.filter(|object| !object.is_free())
    }

    /// Returns all live objects.
    pub(super) fn all(&self) -> impl Iterator<Item = &Object> {
        self.live(0..self.numbers())
    }

    /// Checks the counts. For the laboratory.
    ///
    /// # Panics
    /// If one is wrong.
    pub(super) fn check(&self) {
        assert_eq!(self.all().count() as u32, self.held, "objects are counted wrongly");
        assert_eq!(self.regions.sum(), self.held);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_object_has_12_bytes() {
        assert_eq!(size_of::<Object>(), 12);
    }

    #[test]
    fn an_object_keeps_its_place_and_its_flags() {
        let (from, end) = (Position { page: u32::MAX, at: 4088 }, Position { page: 1, at: 16 });
        let object = Object::new(0xab_1234_5678, false, from, end);
        assert!(object.begin() == from && object.last_page() == 1);
        assert_eq!((object.block(), object.is_verified()), (0xab_1234_5678, false));
        assert!(!object.is_used() && !object.is_free());
    }
}
