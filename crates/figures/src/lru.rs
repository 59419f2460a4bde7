//! The plain least-recently-used list, to tell what a policy loses from what a cache loses.

/// Blocks in the order of their last use, as a ring of links through an anchor.
pub(crate) struct Lru {
    /// The one used before and the one used after; of a block that is not held, itself.
    links: Vec<(u32, u32)>,
    held: usize,
    room: usize,
}

impl Lru {
    /// A cache for `room` of so many blocks, empty.
    pub(crate) fn new(blocks: usize, room: usize) -> Lru {
        let links = (0..=blocks as u32).map(|index| (index, index)).collect();
        Lru { links, held: 0, room: room.max(1) }
    }

    fn anchor(&self) -> u32 {
        (self.links.len() - 1) as u32
    }

    fn unlink(&mut self, block: u32) {
        let (before, after) = self.links[block as usize];
        self.links[before as usize].1 = after;
        self.links[after as usize].0 = before;
        self.links[block as usize] = (block, block);
    }

    /// Uses a block; whether it was held.
    pub(crate) fn touch(&mut self, block: u32) -> bool {
        let hit = self.links[block as usize].0 != block;
        if hit {
            self.unlink(block);
        } else if self.held == self.room {
            let oldest = self.links[self.anchor() as usize].1;
            self.unlink(oldest);
        } else {
            self.held += 1;
        }
        let anchor = self.anchor();
        let newest = self.links[anchor as usize].0;
        self.links[block as usize] = (newest, anchor);
        self.links[newest as usize].1 = block;
        self.links[anchor as usize].0 = block;
        hit
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_one_unused_for_longest_goes() {
        let mut lru = Lru::new(10, 2);
        let hits: Vec<bool> =
            [1, 2, 1, 3, 2, 1, 1].into_iter().map(|block| lru.touch(block)).collect();
        assert_eq!(hits, [false, false, true, false, false, false, true]);
    }
}
