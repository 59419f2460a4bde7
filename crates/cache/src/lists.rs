//! Lists of slots: two 4-byte links a slot, any number of lists, each slot in at most one.

use alloc::sync::Arc;
use core::sync::atomic::{AtomicU64, Ordering};

/// No slot.
pub(crate) const NIL: u32 = u32::MAX;

/// The ends of a list.
#[derive(Clone, Copy, Debug)]
pub(crate) struct List {
    pub(crate) head: u32,
    pub(crate) tail: u32,
    pub(crate) length: u32,
}

impl List {
    pub(crate) const EMPTY: List = List { head: NIL, tail: NIL, length: 0 };
}

#[derive(Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
}

impl Link {
    const NONE: Link = Link { before: NIL, after: NIL };

    #[inline]
    fn pack(self) -> u64 {
        u64::from(self.before) << 32 | u64::from(self.after)
    }

    #[inline]
    fn unpack(packed: u64) -> Link {
        Link { before: (packed >> 32) as u32, after: packed as u32 }
    }
}

/// The links of all slots of a shard. Only the shard changes them, under its lock; clones may look
/// at them at any time to bring them nearer.
#[derive(Clone)]
pub(crate) struct Links(Arc<[AtomicU64]>);

impl Links {
    pub(crate) fn new(slots: u32) -> Links {
        Links((0..slots).map(|_| AtomicU64::new(Link::NONE.pack())).collect())
    }

    #[inline]
    fn get(&self, slot: u32) -> Link {
        Link::unpack(self.0[slot as usize].load(Ordering::Relaxed))
    }

    #[inline]
    fn set(&mut self, slot: u32, link: Link) {
        self.0[slot as usize].store(link.pack(), Ordering::Relaxed);
    }

    #[inline]
    fn set_after(&mut self, slot: u32, after: u32) {
        let link = self.get(slot);
        self.set(slot, Link { after, ..link });
    }

    #[inline]
    fn set_before(&mut self, slot: u32, before: u32) {
        let link = self.get(slot);
        self.set(slot, Link { before, ..link });
    }

    pub(crate) fn after(&self, slot: u32) -> u32 {
        self.get(slot).after
    }

    pub(crate) fn push_back(&mut self, list: &mut List, slot: u32) {
        self.set(slot, Link { before: list.tail, after: NIL });
        match list.tail {
            NIL => list.head = slot,
            tail => self.set_after(tail, slot),
        }
        list.tail = slot;
        list.length += 1;
    }

    pub(crate) fn remove(&mut self, list: &mut List, slot: u32) {
        let Link { before, after } = self.get(slot);
        match before {
            NIL => list.head = after,
            before => self.set_after(before, after),
        }
        match after {
            NIL => list.tail = before,
            after => self.set_before(after, before),
        }
        list.length -= 1;
    }

    pub(crate) fn pop_front(&mut self, list: &mut List) -> Option<u32> {
        let slot = list.head;
        if slot == NIL {
            return None;
        }
        self.remove(list, slot);
        Some(slot)
    }

    /// Brings the link of a slot nearer.
    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
        block::prefetch(&self.0[slot as usize]);
    }

    /// Brings the links beside a slot nearer: taking it out of its list will change them.
    #[inline]
    pub(crate) fn prefetch_neighbours(&self, slot: u32) {
        let Link { before, after } = self.get(slot);
        for neighbour in [before, after] {
            if let Some(link) = self.0.get(neighbour as usize) {
                block::prefetch(link);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
