//! Blocks that were given up lately, the oldest first: names without slots.
//!
//! A name is the whole hash of 64 bits, which no two blocks share, so that a ghost is never taken for
//! another block's. That takes 8 bytes a ghost, 8 for its place in the order, 13.3 for the table and
//! 4 for numbers that are free: much more than 32 bytes a slot leave, so that no policy with such
//! ghosts is served.

use crate::table::Table;
use crate::{Hash, Links, List, NIL};

/// At most so many names, in the order in which they came.
pub(crate) struct Ghosts {
    table: Table,
    links: Links,
    order: List,
    /// How many are kept.
    length_max: u32,
}

impl Ghosts {
    /// None yet, and at most so many.
    pub(crate) fn new(length_max: u32) -> Ghosts {
        // One that is spared and one that is on its way.
        let numbers = length_max + 2;
        let (table, links) = (Table::new(numbers), Links::new(numbers));
        Ghosts { table, links, order: List::EMPTY, length_max }
    }

    fn drop_number(&mut self, number: u32) {
        self.links.remove(&mut self.order, number);
        self.table.remove(number);
    }

    /// Takes a block's name out. Returns whether it was there.
    #[inline]
    pub(crate) fn remove(&mut self, hash: Hash) -> bool {
        let found = self.table.find(hash);
        if let Some(number) = found {
            self.drop_number(number);
        }
        found.is_some()
    }

    /// Notes a block that was given up, as the newest. The oldest goes where there are too many, but
    /// not the name of the block that all this is for: it is about to be taken out, and does not
    /// count.
    pub(crate) fn push(&mut self, hash: Hash, spared: Hash) {
        if self.table.find(hash).is_some() {
            return;
        }
        let spared = self.table.find(spared).unwrap_or(NIL);
        let length_max = self.length_max + u32::from(spared != NIL);
        let number = self.table.insert(hash);
        self.links.push_back(&mut self.order, number);
        while self.order.length > length_max {
            let oldest = self.order.head;
            let goes = if oldest == spared { self.links.after(oldest) } else { oldest };
            self.drop_number(goes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_oldest_goes_but_not_the_one_that_comes_back() {
        let mut ghosts = Ghosts::new(2);
        let hash = Hash::of;
        for block in [1, 2, 3] {
            ghosts.push(hash(block), hash(9));
        }
        assert!(!ghosts.remove(hash(1)));
        ghosts.push(hash(4), hash(2));
        ghosts.push(hash(5), hash(2));
        assert!(ghosts.remove(hash(2)), "it was spared twice, and did not count");
        assert!(!ghosts.remove(hash(2)) && !ghosts.remove(hash(3)));
        assert!(ghosts.remove(hash(4)) && ghosts.remove(hash(5)));
        let mut none = Ghosts::new(0);
        none.push(hash(1), hash(2));
        assert!(!none.remove(hash(1)));
    }
}
