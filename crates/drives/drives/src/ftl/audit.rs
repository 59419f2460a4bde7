//! Checks the bookkeeping.

use super::Ftl;
use super::state::{BUFFERED, NOWHERE};
use alloc::vec;

impl Ftl {
    /// Compares the map, the owners, the buffer and the counts of valid slots. For tests, because
    /// it visits every slot.
    ///
    /// # Panics
    /// If they disagree; the message says where.
    pub fn audit(&self) {
        let mut valid = vec![0u32; self.valid.len()];
        for (logical, place) in self.map.places().enumerate() {
            let physical = match place {
                NOWHERE => continue,
                buffered if buffered >= BUFFERED => {
                    let staged = self.buffer[(buffered - BUFFERED) as usize];
                    assert_eq!(staged.logical as usize, logical, "a buffered slot is another's");
                    staged.older
                }
                physical => physical,
            };
            if physical != NOWHERE {
                let owner = self.owner[physical as usize] as usize;
                assert_eq!(owner, logical, "physical slot {physical} has another owner");
                valid[self.by_superblock.divide(physical) as usize] += 1;
            }
        }
        assert_eq!(valid, self.valid, "the counts of valid slots are wrong");
        for superblock in self.free.iter().chain(&self.slc_free) {
            assert_eq!(valid[*superblock as usize], 0, "free superblock {superblock} is not empty");
        }
        let open = [self.host, self.host_slc, self.relocated];
        let open = open.iter().filter(|frontier| frontier.end > 0).count();
        let hands = [self.victim, self.folded].iter().flatten().count();
        let barred = self.barred.iter().filter(|barred| **barred != 0).count();
        let waiting = self.slc_closed.iter().filter(|superblock| self.is_static(**superblock));
        let held_static = waiting.count()
            - self.folded.map_or(0, |victim| usize::from(self.is_static(victim.superblock)));
        let map = self.settings.map_superblocks(&self.shape) as usize;
        let merging = self.hybrid.iter().filter(|hybrid| hybrid.merging.is_some()).count();
        let held = open + hands + held_static + map + merging;
        let accounted = self.free.len() + self.slc_free.len() + held;
        assert_eq!(barred, accounted, "a superblock was lost");
        self.pages.iter().for_each(super::map_pages::MapPages::audit);
    }
}
