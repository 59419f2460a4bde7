//! Recently evicted blocks, the oldest first: names without slots.
//!
//! A name is the whole hash of 64 bits, which no two blocks share, so a ghost is never mistaken for
//! another block. A ghost takes 8 bytes, plus 8 for its links in the order, 13.3 for the table and
//! 4 for free numbers. That is far more than the 32 bytes per slot allow, so no policy with such
//! ghosts is served.

use crate::table::Table;
use crate::{Hash, Links, List, NIL};

/// A bounded number of names, in the order of their arrival.
pub(crate) struct Ghosts {
    table: Table,
    links: Links,
    order: List,
    /// Maximum number of names.
    length_max: u32,
}

impl Ghosts {
    /// Creates an empty list of at most `length_max` names.
    pub(crate) fn new(length_max: u32) -> Ghosts {
        // Plus the spared name and the one being added.
        let numbers = length_max + 2;
        let (table, links) = (Table::new(numbers), Links::new(numbers));
        Ghosts { table, links, order: List::EMPTY, length_max }
    }

    fn drop_number(&mut self, number: u32) {
        self.links.remove(&mut self.order, number);
        self.table.remove(number);
    }

    /// Removes a block. Returns whether it was there.
    #[inline]
    pub(crate) fn remove(&mut self, hash: Hash) -> bool {
        let found = self.table.find(hash);
        if let Some(number) = found {
            self.drop_number(number);
        }
        found.is_some()
    }

    /// Adds an evicted block as the newest, and removes the oldest if there are too many. Does not
    /// remove or count `spared`, the block that is being admitted and whose name is removed next.
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
