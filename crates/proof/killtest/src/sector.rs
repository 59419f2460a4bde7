//! Allowed contents of one sector: the versions that its writer has sent since it was last durable.

use crate::stamp::Found;

/// A change's version of a sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Version {
    /// The change's number; 0: the contents before the first change.
    pub number: u64,
    /// Whether it wrote zeros.
    pub zeros: bool,
    /// Whether it was answered with success, or seen.
    pub acknowledged: bool,
    /// When that was, on the ledger's clock.
    pub(crate) at: u64,
    /// When it was sent.
    pub(crate) sent: u64,
    /// All changes completed at this tick or before must be on the backing before it: an `ordered`
    /// flush that was sent at this tick had been answered when this version was sent.
    pub(crate) after: u64,
    /// Whether it is an FUA write that an `ordered` daemon has answered: it must be on the backing
    /// before all changes that were sent later.
    pub(crate) barrier: bool,
    /// The daemon's life in which it was sent.
    pub(crate) life: u32,
    /// When a read has shown that it has not happened; 0: none has. It may still be in the
    /// backing's volatile cache, hidden by an older version in the daemon, until that is flushed.
    pub(crate) denied_at: u64,
    /// Whether the backing may have dropped it in a flush that failed unnoticed, and clients were
    /// answered so: no later flush covers it.
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

/// A sector's history since it was last durable; the first version is always acknowledged.
pub(crate) struct Sector {
    pub(crate) versions: Vec<Version>,
    /// The newest version of zeros that was dropped because a later one is durable.
    pub(crate) zeros_forgotten: Option<u64>,
}

impl Sector {
    /// Returns the newest acknowledged version.
    pub(crate) fn newest(&self) -> Version {
        let acknowledged = self.versions.iter().rev().find(|version| version.acknowledged);
        *acknowledged.expect("the first is acknowledged")
    }

    /// Drops versions that cannot be seen any more once the version at `floor` is durable.
    pub(crate) fn forget_before(&mut self, floor: usize) {
        let gone = self.versions.drain(..floor);
        let zeros = gone.filter(|version| version.zeros).map(|version| version.number).max();
        self.zeros_forgotten = zeros.max(self.zeros_forgotten);
    }

    /// Drops versions that a flush sent at `flushed_at` has covered.
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

    /// Excuses the loss of versions that were sent in this life or before, and are not durable.
    pub(crate) fn excuse(&mut self, life: u32) {
        let later = self.versions.iter_mut().skip(1);
        later.filter(|version| version.life <= life).for_each(|version| version.excused = true);
    }

    /// Whether a read that was sent when `low` was the oldest version may return this.
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
                let is_expected = stamp.number == low.number && !low.zeros;
                // The version was replaced, and dropped, during the read.
                let forgotten = stamp.number < self.versions[0].number;
                let later =
                    stamp.number > low.number && (forgotten || is_listed(stamp.number, false));
                ours && (is_expected || later)
            }
            Found::Torn(_) | Found::Garbage => false,
        }
    }

    /// Notes that a read in this life has returned this: an unanswered version of an earlier life
    /// is now either the one seen, or never happened.
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
                // Zeros of different writes cannot be distinguished: only later data is known not
                // to have happened.
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

/// The oldest version of a sector that a read may return, as of the time when the read was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Low {
    pub(crate) number: u64,
    pub(crate) zeros: bool,
}
