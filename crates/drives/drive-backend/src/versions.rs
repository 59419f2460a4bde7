//! The data that a power cut would restore: older versions of slots whose newest one has not yet
//! reached the flash or the platter.
//!
//! A version is *staged* while it is only in the drive's buffer, *under way* until its program has
//! ended, then it is *settled*, and every older version is dropped. So the number of versions is at
//! most the number of slots in the drive's buffer, plus a settled one for each.
//!
//! If the model does not give the exact time when a version settled, a later time is used. That is
//! always allowed: until a flush is answered a power cut may restore either version, and when one
//! is answered all writes that it covers have settled by either time.

use crate::store::Page;
use alloc::collections::{BTreeMap, VecDeque};

/// The progress of a slot's newest version.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Newest {
    Staged,
    /// It settles at this time.
    UnderWay(u64),
}

struct Chain {
    /// Older versions, oldest first, with the time when each settles: the first has settled.
    older: VecDeque<(u64, Page)>,
    newest: Newest,
}

/// Slots whose newest version has not settled.
#[derive(Default)]
pub(crate) struct Versions {
    chains: BTreeMap<u64, Chain>,
    /// Slots with a staged version, in the drive's order.
    staged: VecDeque<u64>,
    /// Slots with a version under way, after the time when it settles; in order.
    under_way: VecDeque<(u64, u64)>,
}

impl Versions {
    /// Prepares for a write to a slot; `current` copies its data, if that is needed.
    pub(crate) fn overwrite(&mut self, slot: u64, current: impl FnOnce() -> Page) {
        match self.chains.get_mut(&slot) {
            None => {
                let older = VecDeque::from([(0, current())]);
                self.chains.insert(slot, Chain { older, newest: Newest::Staged });
                self.staged.push_back(slot);
            }
            // The version is still in the drive's buffer, and is replaced there.
            Some(Chain { newest: Newest::Staged, .. }) => {}
            Some(chain) => {
                if let Newest::UnderWay(settles) = chain.newest {
                    chain.older.push_back((settles, current()));
                }
                chain.newest = Newest::Staged;
                self.staged.push_back(slot);
            }
        }
    }

    /// Drops all versions of a slot; `gone` receives the pages that are not needed any more.
    pub(crate) fn forget(&mut self, slot: u64, gone: impl FnMut(Page)) {
        if let Some(chain) = self.chains.remove(&slot) {
            chain.older.into_iter().map(|(_, page)| page).for_each(gone);
        }
    }

    /// Returns the first slot from `first` on, before `end`, that has versions here.
    pub(crate) fn any(&self, first: u64, end: u64) -> Option<u64> {
        self.chains.range(first..end).next().map(|(slot, _)| *slot)
    }

    /// Marks staged versions that have left the drive's buffer, according to `is_staged`, as
    /// settling at `settles`.
    pub(crate) fn left_buffer(&mut self, settles: u64, mut is_staged: impl FnMut(u64) -> bool) {
        while let Some(slot) = self.staged.front().copied() {
            if let Some(chain) = self.chains.get_mut(&slot)
                && chain.newest == Newest::Staged
            {
                if is_staged(slot) {
                    return;
                }
                chain.newest = Newest::UnderWay(settles);
                self.under_way.push_back((settles, slot));
            }
            self.staged.pop_front();
        }
    }

    /// Settles versions up to `now`; `gone` receives the older pages that are not needed any more.
    pub(crate) fn settle(&mut self, now: u64, mut gone: impl FnMut(Page)) {
        while let Some((settles, slot)) = self.under_way.front().copied() {
            if settles > now {
                return;
            }
            self.under_way.pop_front();
            let Some(chain) = self.chains.get_mut(&slot) else { continue };
            if matches!(chain.newest, Newest::UnderWay(settles) if settles <= now) {
                self.forget(slot, &mut gone);
                continue;
            }
            while chain.older.get(1).is_some_and(|(settles, _)| *settles <= now) {
                chain.older.pop_front().into_iter().map(|(_, page)| page).for_each(&mut gone);
            }
        }
    }

    /// Returns the settled version of a slot, if its newest one has not settled.
    pub(crate) fn settled(&self, slot: u64) -> Option<&Page> {
        self.chains.get(&slot)?.older.front().map(|(_, page)| page)
    }

    /// Returns every slot whose newest version has not settled, in order.
    pub(crate) fn unsettled(&self) -> impl Iterator<Item = u64> {
        self.chains.keys().copied()
    }

    /// Drops everything after a power cut: the current contents are settled.
    pub(crate) fn clear(&mut self, mut gone: impl FnMut(Page)) {
        for chain in core::mem::take(&mut self.chains).into_values() {
            chain.older.into_iter().map(|(_, page)| page).for_each(&mut gone);
        }
        self.staged.clear();
        self.under_way.clear();
    }

    /// Returns the number of pages stored here.
    #[cfg(test)]
    pub(crate) fn pages(&self) -> usize {
        self.chains.values().map(|chain| chain.older.len()).sum()
    }
}
