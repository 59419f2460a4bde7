//! How an older place becomes free again.
//!
//! First its successor is durable (`waiting`); then all reads that began before that have ended
//! (`ready`); then it is discarded on its member, if it is worth a request; then it is free. One
//! task at a time does this.

use crate::decide::Core;
use crate::member::{Member, Run, TRIM_SLOTS};
use crate::planted::{Bug, planted};

/// Number of discards that are sent at a time.
pub(crate) const TRIMS: usize = 8;
/// Maximum number of places that one section frees, or returns for a discard, in one piece.
const PLACES: u32 = 4096;

/// Places to be discarded: their member, and their run.
pub(crate) type Trims = [Option<(usize, Run)>; TRIMS];

impl Core {
    /// Takes all waiting places. Returns the group of readers to wait for. None: no place is
    /// waiting.
    pub(crate) fn release_begin(&mut self) -> Option<usize> {
        if self.members.iter().all(|member| member.waiting.count() == 0) {
            self.releasing = false;
            return None;
        }
        for member in &mut self.members {
            debug_assert_eq!(member.ready.count(), 0);
            core::mem::swap(&mut member.waiting, &mut member.ready);
        }
        let before = self.turn;
        self.turn = 1 - before;
        Some(before)
    }

    /// Whether no read of this turn is in flight.
    pub(crate) fn is_quiet(&self, turn: usize) -> bool {
        self.readers[turn] == 0 || planted(Bug::ReuseUnderReaders)
    }

    /// Frees places without a discard, and collects those that need one. Returns false if none is
    /// left.
    pub(crate) fn release_some(&mut self, trims: &mut Trims) -> bool {
        let (mut budget, mut used) = (PLACES, 0);
        for (number, member) in self.members.iter_mut().enumerate() {
            while let Some(first) = member.ready.next(0) {
                if budget == 0 || used == TRIMS {
                    return true;
                }
                let (run, trim) = member.next_ready(first, budget);
                budget -= run.count;
                if trim {
                    trims[used] = Some((number, run));
                    used += 1;
                } else {
                    member.set_free(run);
                }
            }
        }
        used > 0
    }

    /// Frees the places of completed discards, successful or not.
    pub(crate) fn end_trims(&mut self, trims: &Trims, failed: u32) {
        for (index, (number, run)) in trims.iter().flatten().enumerate() {
            let member = &mut self.members[*number];
            member.trims += 1;
            member.errors += u64::from(failed >> index & 1);
            member.set_free(*run);
        }
    }
}

impl Member {
    /// Takes the run at `first` out of the ready places. Returns whether to discard it.
    fn next_ready(&mut self, first: u32, most: u32) -> (Run, bool) {
        let discarded = self.discarded.has(first);
        let count = self.ready.run(first, most);
        let alike = |place: &u32| self.discarded.has(*place) == discarded;
        let count = (first..first + count).take_while(alike).count() as u32;
        for place in first..first + count {
            self.ready.clear(place);
            self.discarded.clear(place);
        }
        let trim = self.can_trim && !self.failed && (discarded || count >= TRIM_SLOTS);
        (Run { first, count }, trim)
    }

    fn set_free(&mut self, run: Run) {
        (run.first..run.first + run.count).for_each(|place| _ = self.free.set(place));
    }
}
