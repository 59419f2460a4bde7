//! The pages of a map in memory: CLOCK over a fixed number of frames.

use alloc::vec;
use alloc::vec::Vec;

const RESIDENT: u8 = 1;
const DIRTY: u8 = 2;
const USED: u8 = 4;

/// Pages of a map in a fixed number of frames.
pub(super) struct PageCache {
    /// The state of each page.
    pages: Vec<u8>,
    /// The page in each used frame.
    frames: Vec<u32>,
    most: usize,
    hand: usize,
}

impl PageCache {
    /// Returns a cache with this number of frames, at least one.
    pub(super) fn new(pages: u32, frames: u64) -> PageCache {
        let most = frames.clamp(1, u64::from(pages.max(1))) as usize;
        PageCache { pages: vec![0; pages as usize], frames: Vec::new(), most, hand: 0 }
    }

    /// Marks a page as used, and as changed if it is. False: it is not in memory.
    #[inline]
    pub(super) fn hit(&mut self, page: u32, changes: bool) -> bool {
        let state = &mut self.pages[page as usize];
        if *state & RESIDENT == 0 {
            return false;
        }
        *state |= USED | if changes { DIRTY } else { 0 };
        true
    }

    /// Inserts a page that is not in memory; returns the evicted page if that was changed.
    pub(super) fn insert(&mut self, page: u32, changes: bool) -> Option<u32> {
        self.pages[page as usize] = RESIDENT | USED | if changes { DIRTY } else { 0 };
        if self.frames.len() < self.most {
            self.frames.push(page);
            return None;
        }
        loop {
            let at = self.hand;
            self.hand = if at + 1 == self.frames.len() { 0 } else { at + 1 };
            let old = self.frames[at];
            let state = &mut self.pages[old as usize];
            if *state & USED != 0 {
                *state &= !USED;
                continue;
            }
            let dirty = *state & DIRTY != 0;
            *state = 0;
            self.frames[at] = page;
            return dirty.then_some(old);
        }
    }

    /// Drops all pages; calls `changed` for each page that differs from the flash.
    pub(super) fn clear(&mut self, mut changed: impl FnMut(u32)) {
        for page in self.frames.drain(..) {
            let state = core::mem::take(&mut self.pages[page as usize]);
            if state & DIRTY != 0 {
                changed(page);
            }
        }
        self.hand = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Random;

    #[test]
    fn as_many_miss_as_do_not_fit() {
        let mut cache = PageCache::new(1000, 250);
        let mut random = Random::new(3);
        let mut missed = 0;
        for turn in 0..2 {
            missed = 0;
            for _ in 0..20_000 {
                let page = random.below(1000);
                if !cache.hit(page, false) {
                    missed += 1;
                    assert_eq!(cache.insert(page, false), None, "nothing was changed, turn {turn}");
                }
            }
        }
        let share = f64::from(missed) / 20_000.0;
        assert!((share - 0.75).abs() < 0.02, "{share}");
    }

    #[test]
    fn a_changed_page_is_given_back_once() {
        let mut cache = PageCache::new(10, 2);
        assert_eq!((cache.insert(1, true), cache.insert(2, false)), (None, None));
        assert!(cache.hit(1, false), "a look does not make it clean");
        assert_eq!(cache.insert(3, false), Some(1));
        assert!(!cache.hit(1, false));
        assert_eq!(cache.insert(1, false), None, "page 2 had not changed");
        assert!(cache.hit(3, true));
        let mut changed = Vec::new();
        cache.clear(|page| changed.push(page));
        assert_eq!(changed, [3]);
        assert!(!cache.hit(3, false) && !cache.hit(1, false));
    }
}
