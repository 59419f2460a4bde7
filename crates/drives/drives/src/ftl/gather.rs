//! Changes of a map that are gathered before they are merged into its pages.
//!
//! A controller without memory for the map would read and program a page for each slot that is
//! written at random. It gathers changes instead, until several of them belong to the same page. A
//! set that is full is merged page by page while the next one fills. No request waits for all of
//! it.

use alloc::vec;
use alloc::vec::Vec;

const OPEN: u8 = 1;
const FULL: u8 = 2;

/// Gathered changes, by the pages that they belong to.
pub(super) struct Gather {
    /// Changes of a set.
    most: u32,
    /// Changes in the set that fills.
    changes: u32,
    /// The pages of that set.
    open: Vec<u32>,
    /// The pages of the set that is being merged, and the number of those merged.
    full: Vec<u32>,
    merged: usize,
    /// The sets that contain each page.
    sets: Vec<u8>,
}

impl Gather {
    /// Returns empty sets of this number of changes, at least one.
    pub(super) fn new(pages: u32, changes: u32) -> Gather {
        Gather {
            most: changes.max(1),
            changes: 0,
            open: Vec::new(),
            full: Vec::new(),
            merged: 0,
            sets: vec![0; pages as usize],
        }
    }

    /// Adds a change to a page.
    #[inline]
    pub(super) fn add(&mut self, page: u32) {
        let sets = &mut self.sets[page as usize];
        if *sets & OPEN == 0 {
            *sets |= OPEN;
            self.open.push(page);
        }
        self.changes += 1;
    }

    /// Returns the next page to be merged, in proportion to the changes: a set is merged when the
    /// next one is full. None: no page is due.
    #[inline]
    pub(super) fn take_due(&mut self) -> Option<u32> {
        let due = self.full.len() as u64 * u64::from(self.changes) / u64::from(self.most);
        if (self.merged as u64) < due {
            let page = self.full[self.merged];
            self.merged += 1;
            self.sets[page as usize] &= !FULL;
            return Some(page);
        }
        if self.changes >= self.most {
            self.full.clear();
            core::mem::swap(&mut self.open, &mut self.full);
            for page in &self.full {
                self.sets[*page as usize] = FULL;
            }
            (self.changes, self.merged) = (0, 0);
        }
        None
    }

    /// Whether changes of a page are gathered: an entry may be among them.
    pub(super) fn has(&self, page: u32) -> bool {
        self.sets[page as usize] != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    /// Returns the pages merged for a change of random entries, and the most for one change.
    fn merged(pages: u32, changes: u32) -> (f64, usize) {
        let mut gather = Gather::new(pages, changes);
        let mut random = Random::new(5);
        let (mut all, mut most) = (0, 0);
        for _ in 0..20 * changes {
            gather.add(random.below(pages));
            let now = core::iter::from_fn(|| gather.take_due()).count();
            (all, most) = (all + now, most.max(now));
        }
        (all as f64 / f64::from(19 * changes), most)
    }

    #[test]
    fn pages_are_merged_once_for_all_of_their_changes_and_in_steps() {
        for each in [1, 5, 20] {
            let (found, most) = merged(1000, each * 1000);
            let times = f64::from(each);
            let expected = (1.0 - libm::exp(-times)) / times;
            assert!((found / expected - 1.0).abs() < 0.03, "{found} instead of {expected}");
            assert_eq!(most, 1);
        }
    }

    #[test]
    fn a_page_is_gathered_until_it_is_merged() {
        let mut gather = Gather::new(10, 2);
        gather.add(3);
        gather.add(3);
        assert_eq!((gather.take_due(), gather.has(3)), (None, true));
        gather.add(4);
        assert_eq!(gather.take_due(), None);
        gather.add(5);
        assert_eq!((gather.take_due(), gather.has(3), gather.has(4)), (Some(3), false, true));
    }
}
