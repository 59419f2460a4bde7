//! The area with one bit a cell: writes into it, folding out of it, and idle work.

use super::state::{Frontier, NONE, Victim};
use super::{Ftl, Nand, Pacing, SlcFull};

/// The result of a step of idle work.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Idle {
    /// Slots were folded out of the SLC area.
    Folded,
    /// Slots were relocated.
    Cleaned,
    /// There is nothing to do.
    Done,
}

impl Ftl {
    /// Whether the drive has an SLC area at all.
    pub(super) fn has_slc(&self) -> bool {
        self.settings.slc.static_superblocks + self.settings.slc.dynamic_superblocks > 0
    }

    /// Ensures that the SLC frontier has room for a unit, if that is possible.
    pub(super) fn slc_room<N: Nand>(&mut self, nand: &mut N) -> bool {
        if self.host_slc.left() > 0 {
            return true;
        }
        let full = core::mem::replace(&mut self.host_slc, Frontier::CLOSED);
        self.close(full);
        if self.slc_free.is_empty() {
            self.release_empty();
        }
        let found = self.slc_free.pop_front().or_else(|| self.borrow());
        let found = match self.settings.slc.full {
            SlcFull::FoldFirst if found.is_none() => self.fold_one(nand),
            _ => found,
        };
        match found {
            Some(superblock) => self.host_slc = self.open(superblock, true, nand),
            None => return false,
        }
        true
    }

    /// Takes a free superblock for use with one bit a cell until it is needed.
    fn borrow(&mut self) -> Option<u32> {
        let kept = match self.settings.pacing {
            Pacing::Paced { free_superblocks } => free_superblocks,
            Pacing::Burst { high, .. } => high,
        };
        if self.dynamic >= self.settings.slc.dynamic_superblocks {
            return None;
        }
        if self.free.len() as u32 <= kept + 2 {
            self.reclaim();
        }
        if self.free.len() as u32 <= kept + 2 {
            return None;
        }
        self.dynamic += 1;
        self.free.pop_front()
    }

    /// Frees the closed superblocks in which every slot was overwritten or trimmed: no slot needs
    /// to be moved for them.
    fn reclaim(&mut self) {
        for superblock in 0..self.shape.superblocks {
            let at = superblock as usize;
            if self.valid[at] == 0 && self.barred[at] == 0 && !self.trimmed[at] {
                self.release(superblock);
            }
        }
    }

    /// Frees closed SLC superblocks in which every slot was overwritten or trimmed.
    fn release_empty(&mut self) {
        for at in (0..self.slc_closed.len()).rev() {
            let superblock = self.slc_closed[at];
            let in_hand = |victim: Option<Victim>| {
                victim.is_some_and(|victim| victim.superblock == superblock)
            };
            let in_hand = in_hand(self.folded) || in_hand(self.victim);
            let waits = self.trimmed[superblock as usize];
            if self.valid[superblock as usize] == 0 && !in_hand && !waits {
                self.release(superblock);
            }
        }
    }

    /// Folds the oldest SLC superblock to its end, and takes the superblock that this frees.
    fn fold_one<N: Nand>(&mut self, nand: &mut N) -> Option<u32> {
        self.clean_until(3, nand);
        self.take_fold()?;
        while self.folded.is_some() {
            self.fold(u32::MAX, nand);
        }
        self.slc_free.pop_front().or_else(|| self.borrow())
    }

    /// Selects a superblock to fold, unless one is selected. None: there is none to fold.
    fn take_fold(&mut self) -> Option<()> {
        if self.folded.is_none() {
            let mut waiting = self.slc_closed.iter().copied();
            let in_hand = self.victim.map_or(NONE, |victim| victim.superblock);
            let superblock = waiting.find(|superblock| *superblock != in_hand)?;
            self.barred[superblock as usize] = u32::MAX;
            let valid = self.valid[superblock as usize];
            self.folded = Some(Victim { superblock, next: 0, valid });
        }
        Some(())
    }

    /// Folds up to `most` slots. The caller has checked that two superblocks are free.
    fn fold<N: Nand>(&mut self, most: u32, nand: &mut N) -> u32 {
        let Some(mut victim) = self.folded.take() else {
            return 0;
        };
        let moved = self.relocate(&mut victim, most, nand);
        self.counters.folds += u64::from(moved);
        if self.valid[victim.superblock as usize] == 0 {
            self.release(victim.superblock);
        } else {
            self.folded = Some(victim);
        }
        moved
    }

    /// Runs one step of the drive's idle work, of about `slots` slots: folds the SLC area, oldest
    /// first, then cleans, each as far as the settings allow.
    pub fn idle_step<N: Nand>(&mut self, slots: u32, nand: &mut N) -> Idle {
        if self.hybrid.is_some() {
            return self.idle_hybrid(slots, nand);
        }
        if self.settings.slc.dynamic_superblocks > 0 {
            if !self.settings.slc.fold_when_idle {
                self.trimmed.fill(false);
            }
            self.reclaim();
        }
        if self.settings.slc.fold_when_idle && self.has_slc() {
            if self.free.len() < 3 {
                return self.idle_collect(slots, nand);
            }
            let open = self.host_slc.superblock;
            if self.slc_closed.is_empty() && open != NONE && self.valid[open as usize] > 0 {
                let full = core::mem::replace(&mut self.host_slc, Frontier::CLOSED);
                self.close(full);
            }
            if self.take_fold().is_some() {
                self.fold(slots, nand);
                return Idle::Folded;
            }
        }
        self.idle_clean(slots, nand)
    }

    /// Relocates up to `slots` slots of the victim: a whole superblock would let a request wait.
    fn idle_collect<N: Nand>(&mut self, slots: u32, nand: &mut N) -> Idle {
        if self.victim.is_none() {
            self.victim = self.choose();
        }
        if self.victim.is_none() {
            return Idle::Done;
        }
        self.collect(slots, nand);
        Idle::Cleaned
    }

    fn idle_clean<N: Nand>(&mut self, slots: u32, nand: &mut N) -> Idle {
        if self.free.len() as u32 >= self.settings.idle_free_superblocks {
            return Idle::Done;
        }
        if self.victim.is_none() {
            self.victim = self.choose();
        }
        // Gaining a sixteenth of a superblock is not worth the wear.
        let worth = self.superblock_slots - self.superblock_slots / 16;
        if self.victim.is_none_or(|victim| victim.valid > worth) {
            return Idle::Done;
        }
        self.idle_collect(slots, nand)
    }
}
