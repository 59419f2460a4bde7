//! What one sector may hold: the versions that its writer has sent since it was last durable.

use crate::stamp::Found;

/// What a change left in a sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version {
    /// The change's number; 0: what was there before the first.
    pub number: u64,
    /// It left zeros.
    pub zeros: bool,
    /// It was answered well, or seen.
    pub acknowledged: bool,
    /// When that was, on the ledger's clock.
    pub(crate) at: u64,
    /// When it was sent.
    pub(crate) sent: u64,
    /// Everything that was completed at this tick or before is to be on the backing before it: an
    /// `ordered` flush that was sent then had been answered when this was sent.
    pub(crate) after: u64,
    /// An FUA write that an `ordered` daemon has answered: it is to be there before anything that was
    /// sent later.
    pub(crate) barrier: bool,
    /// The daemon's life in which it was sent.
    pub(crate) life: u32,
    /// When a read has shown that it has not happened; 0: none has. It may still lie in the backing's
    /// volatile cache, under an older version that the daemon holds, until that is flushed.
    pub(crate) denied_at: u64,
    /// The backing may have given it up in a flush that failed unheard, and clients were answered
    /// so: no later flush covers it.
    pub(crate) excused: bool,
}

pub(crate) const FIRST: Version = Version {
    number: 0,
    zeros: true,
    acknowledged: true,
    at: 0,
    sent: 0,
    after: 0,
    barrier: false,
    life: 0,
    denied_at: 0,
    excused: false,
};

/// A sector's history since it was last durable; the first version is acknowledged, always.
pub(crate) struct Sector {
    pub(crate) versions: Vec<Version>,
    /// The newest version of zeros that was forgotten because a later one is durable.
    pub(crate) zeros_forgotten: Option<u64>,
}

impl Sector {
    /// The newest that is acknowledged.
    pub(crate) fn newest(&self) -> Version {
        let acknowledged = self.versions.iter().rev().find(|version| version.acknowledged);
        *acknowledged.expect("the first is acknowledged")
    }

    /// Forgets what cannot be seen any more once the version at `floor` is durable.
    pub(crate) fn forget_before(&mut self, floor: usize) {
        let gone = self.versions.drain(..floor);
        let zeros = gone.filter(|version| version.zeros).map(|version| version.number).max();
        self.zeros_forgotten = zeros.max(self.zeros_forgotten);
    }

    /// Forgets what a flush that was sent at `flushed_at` has covered.
    pub(crate) fn settle(&mut self, flushed_at: u64) {
        let is_covered =
            |version: &Version| version.acknowledged && !version.excused && version.at < flushed_at;
        if let Some(floor) = self.versions.iter().rposition(is_covered)
            && floor > 0
        {
            self.forget_before(floor);
        }
        self.versions.retain(|version| version.denied_at == 0 || version.denied_at >= flushed_at);
    }

    /// Excuses the loss of what was sent in this life or before, and is not durable.
    pub(crate) fn excuse(&mut self, life: u32) {
        let later = self.versions.iter_mut().skip(1);
        later.filter(|version| version.life <= life).for_each(|version| version.excused = true);
    }

    /// Whether a read that was sent when `low` was the oldest may show this.
    pub(crate) fn allows(&self, low: Low, sector: u64, volume: u64, found: &Found) -> bool {
        let is_listed = |number: u64, zeros: bool| {
            let same = |version: &Version| {
                version.number == number && version.zeros == zeros && version.denied_at == 0
            };
            self.versions.iter().any(same)
        };
        match found {
            Found::Zeros => {
                let later = |version: &Version| {
                    version.zeros && version.number >= low.number && version.denied_at == 0
                };
                low.zeros
                    || self.versions.iter().any(later)
                    || self.zeros_forgotten.is_some_and(|number| number >= low.number)
            }
            Found::Stamp(stamp) => {
                let ours = stamp.sector == sector && stamp.volume == volume;
                let as_told = stamp.number == low.number && !low.zeros;
                // It was overtaken, and forgotten, while the read was under way.
                let forgotten = stamp.number < self.versions[0].number;
                let later =
                    stamp.number > low.number && (forgotten || is_listed(stamp.number, false));
                ours && (as_told || later)
            }
            Found::Torn(_) | Found::Garbage => false,
        }
    }

    /// A read in this life has shown this: what died unanswered with an earlier life is now either
    /// what was seen, or was never done.
    pub(crate) fn pin(&mut self, found: &Found, life: u32, now: u64) {
        let newest = self.newest().number;
        let is_open = |version: &Version| {
            !version.acknowledged && version.life < life && version.denied_at == 0
        };
        let deny_after = |last: u64, versions: &mut Vec<Version>| {
            let denied = versions.iter_mut().filter(|one| is_open(one) && one.number > last);
            denied.for_each(|version| version.denied_at = now);
        };
        match found {
            Found::Zeros => {
                // Which zeros these are cannot be seen: only later data is known to be gone.
                let zeros =
                    self.versions.iter().filter(|version| version.zeros && version.denied_at == 0);
                let last = zeros.map(|version| version.number).max().unwrap_or(0).max(newest);
                deny_after(last, &mut self.versions);
            }
            Found::Stamp(stamp) => {
                if let Some(seen) = self
                    .versions
                    .iter_mut()
                    .find(|version| version.number == stamp.number && is_open(version))
                {
                    (seen.acknowledged, seen.at) = (true, now);
                }
                let last = stamp.number.max(newest);
                deny_after(last, &mut self.versions);
            }
            Found::Torn(_) | Found::Garbage => {}
        }
    }
}

/// The oldest that a read may show of a sector, as it was when the read was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Low {
    pub(crate) number: u64,
    pub(crate) zeros: bool,
}
