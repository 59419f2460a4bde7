//! Lists of slots: two 4-byte links a slot, any number of lists, each slot in at most one.

use alloc::boxed::Box;
use alloc::vec;

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
    pub(crate) const EMPTY: List = List {
        head: NIL,
        tail: NIL,
        length: 0,
    };
}

#[derive(Clone, Copy)]
struct Link {
    before: u32,
    after: u32,
}

/// The links of all slots of a shard.
pub(crate) struct Links(Box<[Link]>);

impl Links {
    pub(crate) fn new(slots: u32) -> Links {
        Links(
            vec![
                Link {
                    before: NIL,
                    after: NIL
                };
                slots as usize
            ]
            .into_boxed_slice(),
        )
    }

    pub(crate) fn after(&self, slot: u32) -> u32 {
        self.0[slot as usize].after
    }

    pub(crate) fn push_back(&mut self, list: &mut List, slot: u32) {
        self.0[slot as usize] = Link {
            before: list.tail,
            after: NIL,
        };
        match list.tail {
            NIL => list.head = slot,
            tail => self.0[tail as usize].after = slot,
        }
        list.tail = slot;
        list.length += 1;
    }

    pub(crate) fn remove(&mut self, list: &mut List, slot: u32) {
        let Link { before, after } = self.0[slot as usize];
        match before {
            NIL => list.head = after,
            before => self.0[before as usize].after = after,
        }
        match after {
            NIL => list.tail = before,
            after => self.0[after as usize].before = before,
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
        let Link { before, after } = self.0[slot as usize];
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
