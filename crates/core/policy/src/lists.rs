//! Lists of slots: two 4-byte links per slot, any number of lists, each slot in at most one.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU32, Ordering};

/// No slot.
pub const NIL: u32 = u32::MAX;

/// The ends of a list.
#[derive(Clone, Copy, Debug)]
pub struct List {
    /// The first slot, or [`NIL`].
    pub head: u32,
    /// The last slot, or [`NIL`].
    pub tail: u32,
    /// Number of slots.
    pub length: u32,
}

impl List {
    /// An empty list.
    pub const EMPTY: List = List { head: NIL, tail: NIL, length: 0 };
}

/// The links of one slot.
pub type Link = [AtomicU32; 2];

/// The links of all slots of a shard: next and previous, adjacent in memory. Only the shard changes
/// them, under its lock; clones may read them at any time to prefetch them.
///
/// They are two words, not one of eight bytes: a link of a neighbour is then changed by a plain
/// store, which need not wait for a load of the other half.
#[derive(Clone)]
pub struct Links(Arc<[Link]>);

const BEFORE: usize = 0;
const AFTER: usize = 1;

impl Links {
    /// Links of `slots` slots, in no list.
    pub fn new(slots: u32) -> Links {
        Links((0..slots).map(|_| [AtomicU32::new(NIL), AtomicU32::new(NIL)]).collect())
    }

    #[inline]
    fn get(&self, slot: u32, side: usize) -> u32 {
        self.0[slot as usize][side].load(Ordering::Relaxed)
    }

    #[inline]
    fn set(&mut self, slot: u32, side: usize, other: u32) {
        self.0[slot as usize][side].store(other, Ordering::Relaxed);
    }

    /// Returns the next slot in its list, or [`NIL`].
    #[inline]
    pub fn after(&self, slot: u32) -> u32 {
        self.get(slot, AFTER)
    }

    /// Returns the previous slot in its list, or [`NIL`].
    #[inline]
    pub fn before(&self, slot: u32) -> u32 {
        self.get(slot, BEFORE)
    }

    /// Appends a slot, which is in no list, to a list.
    #[inline]
    pub fn push_back(&mut self, list: &mut List, slot: u32) {
        self.set(slot, BEFORE, list.tail);
        self.set(slot, AFTER, NIL);
        match list.tail {
            NIL => list.head = slot,
            tail => self.set(tail, AFTER, slot),
        }
        list.tail = slot;
        list.length += 1;
    }

    /// Puts a slot, which is in no list, at the front of a list.
    #[inline]
    pub fn push_front(&mut self, list: &mut List, slot: u32) {
        self.set(slot, BEFORE, NIL);
        self.set(slot, AFTER, list.head);
        match list.head {
            NIL => list.tail = slot,
            head => self.set(head, BEFORE, slot),
        }
        list.head = slot;
        list.length += 1;
    }

    /// Removes a slot from its list.
    #[inline]
    pub fn remove(&mut self, list: &mut List, slot: u32) {
        let (before, after) = (self.get(slot, BEFORE), self.get(slot, AFTER));
        match before {
            NIL => list.head = after,
            before => self.set(before, AFTER, after),
        }
        match after {
            NIL => list.tail = before,
            after => self.set(after, BEFORE, before),
        }
        list.length -= 1;
    }

    /// Moves a slot to the end of its list.
    #[inline]
    pub fn touch(&mut self, list: &mut List, slot: u32) {
        if list.tail != slot {
            self.remove(list, slot);
            self.push_back(list, slot);
        }
    }

    /// Puts a slot that is in no list at the position of another, which is removed.
    pub fn replace(&mut self, list: &mut List, old: u32, new: u32) {
        let (before, after) = (self.get(old, BEFORE), self.get(old, AFTER));
        self.set(new, BEFORE, before);
        self.set(new, AFTER, after);
        match before {
            NIL => list.head = new,
            before => self.set(before, AFTER, new),
        }
        match after {
            NIL => list.tail = new,
            after => self.set(after, BEFORE, new),
        }
    }

    /// Removes and returns the first slot of a list.
    #[inline]
    pub fn pop_front(&mut self, list: &mut List) -> Option<u32> {
        let slot = list.head;
        if slot == NIL {
            return None;
        }
        self.remove(list, slot);
        Some(slot)
    }

    /// The links of a slot, to prefetch them.
    #[inline]
    pub fn link(&self, slot: u32) -> &Link {
        &self.0[slot as usize]
    }

    /// The links of a slot's neighbours, to prefetch them: removing the slot from its list will
    /// change them.
    #[inline]
    pub fn neighbours(&self, slot: u32) -> impl Iterator<Item = &Link> {
        let beside = [self.get(slot, BEFORE), self.get(slot, AFTER)];
        beside.into_iter().filter_map(|slot| self.0.get(slot as usize))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    #[test]
    fn slots_come_out_as_they_went_in_and_can_leave_the_middle() {
        let mut links = Links::new(5);
        let mut list = List::EMPTY;
        for slot in 0..5 {
            links.push_back(&mut list, slot);
        }
        links.remove(&mut list, 2);
        links.remove(&mut list, 0);
        links.remove(&mut list, 4);
        assert_eq!(links.pop_front(&mut list), Some(1));
        assert_eq!(links.pop_front(&mut list), Some(3));
        assert_eq!(links.pop_front(&mut list), None);
        assert_eq!((list.head, list.tail, list.length), (NIL, NIL, 0));
    }

    #[test]
    fn a_slot_can_enter_at_the_front() {
        let mut links = Links::new(4);
        let mut list = List::EMPTY;
        links.push_front(&mut list, 2);
        links.push_front(&mut list, 0);
        links.push_back(&mut list, 1);
        links.push_front(&mut list, 3);
        assert_eq!((list.head, list.tail, list.length), (3, 1, 4));
        assert_eq!((links.before(2), links.before(0), links.before(3)), (0, 3, NIL));
        let order: Vec<u32> = core::iter::from_fn(|| links.pop_front(&mut list)).collect();
        assert_eq!(order, [3, 0, 2, 1]);
    }

    #[test]
    fn a_slot_takes_the_place_of_another() {
        let mut links = Links::new(6);
        let mut list = List::EMPTY;
        (0..3).for_each(|slot| links.push_back(&mut list, slot));
        links.replace(&mut list, 1, 4);
        links.replace(&mut list, 0, 3);
        links.replace(&mut list, 2, 5);
        assert_eq!((list.head, list.tail, list.length), (3, 5, 3));
        assert_eq!(links.before(5), 4);
        let order: Vec<u32> = core::iter::from_fn(|| links.pop_front(&mut list)).collect();
        assert_eq!(order, [3, 4, 5]);
        links.push_back(&mut list, 1);
        links.replace(&mut list, 1, 0);
        assert_eq!((list.head, list.tail, links.after(0)), (0, 0, NIL));
    }
}
