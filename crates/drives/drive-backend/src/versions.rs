//! What a power cut would show: the older versions of slots whose newest one has not yet reached the
//! flash or the platter.
//!
//! A version is *staged* while the drive has only taken it into its buffer, *under way* until its
//! program has ended, then it is *settled*, and every version before it goes. So there are at most as
//! many versions here as the drive has slots in its buffer, and one settled one behind each.
//!
//! Where the model does not tell exactly when a version settled, a later time is taken. That is always
//! allowed: until a flush is answered a power cut may show either version, and when one is answered all
//! that it covers has settled by any count.

use crate::store::Page;
use alloc::collections::{BTreeMap, VecDeque};

/// How far the newest version of a slot has come.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Newest {
    Staged,
    /// It settles at this time.
    UnderWay(u64),
}

struct Chain {
    /// Older versions, oldest first, and when each settles: the first has.
    older: VecDeque<(u64, Page)>,
    newest: Newest,
}

/// Slots whose newest version has not settled.
#[derive(Default)]
pub(crate) struct Versions {
    chains: BTreeMap<u64, Chain>,
    /// Slots with a staged version, in the order in which the drive took them.
    staged: VecDeque<u64>,
    /// Slots with a version under way: when it settles, in order.
    under_way: VecDeque<(u64, u64)>,
}

impl Versions {
    /// A slot is about to be written; `current` copies what it holds, where that is needed.
    pub(crate) fn overwrite(&mut self, slot: u64, current: impl FnOnce() -> Page) {
        match self.chains.get_mut(&slot) {
            None => {
                let older = VecDeque::from([(0, current())]);
                self.chains.insert(slot, Chain { older, newest: Newest::Staged });
                self.staged.push_back(slot);
            }
            // The drive has it in its buffer still, and puts the new one in its place.
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

    /// A slot is forgotten, for good; `gone` gets what is not needed any more.
    pub(crate) fn forget(&mut self, slot: u64, gone: impl FnMut(Page)) {
        if let Some(chain) = self.chains.remove(&slot) {
            chain.older.into_iter().map(|(_, page)| page).for_each(gone);
        }
    }

    /// Whether any slot from `first` on, before `end`, has versions here.
    pub(crate) fn any(&self, first: u64, end: u64) -> Option<u64> {
        self.chains.range(first..end).next().map(|(slot, _)| *slot)
    }

    /// The drive has worked: staged versions that have left its buffer (`is_staged` asks) settle by
    /// `settles`.
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

    /// Time has come to `now`: what settled makes what is older unnecessary, which `gone` gets.
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

    /// The settled version of a slot, if its newest one has not settled.
    pub(crate) fn settled(&self, slot: u64) -> Option<&Page> {
        self.chains.get(&slot)?.older.front().map(|(_, page)| page)
    }

    /// Every slot whose newest version has not settled, in order.
    pub(crate) fn unsettled(&self) -> impl Iterator<Item = u64> {
        self.chains.keys().copied()
    }

    /// After a power cut: whatever is there now is settled.
    pub(crate) fn clear(&mut self, mut gone: impl FnMut(Page)) {
        for chain in core::mem::take(&mut self.chains).into_values() {
            chain.older.into_iter().map(|(_, page)| page).for_each(&mut gone);
        }
        self.staged.clear();
        self.under_way.clear();
    }

    /// How many pages are kept here.
    #[cfg(test)]
    pub(crate) fn pages(&self) -> usize {
        self.chains.values().map(|chain| chain.older.len()).sum()
    }
}
