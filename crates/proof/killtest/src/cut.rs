//! The states that a power cut may leave, according to the clients' answers.
//!
//! - Of every sector the newest version that is durable, or a later one that was sent: a flush of a
//!   `flush` daemon makes all changes durable that were completed before it was sent, an FUA write
//!   makes itself durable, an operator's command those that it reports.
//! - A flush of an `ordered` daemon makes nothing durable. It orders: if any change is left that
//!   was sent after its answer, every change is left that was completed before it was sent, or a
//!   newer one of the same sector. An FUA write is a flush, and orders itself, too.
//! - If a flush was in progress when a daemon was killed, and clients were answered that it may
//!   have failed, the changes before the kill that no flush had covered may be missing, even after
//!   later flushes.
//!
//! The judge sees the whole image before it is changed again, so it also records the contents: from
//! then on they are the only version, durable and verified.

use crate::ledger::{BLOCK_SECTORS, Ledger};
use crate::sector::{FIRST, Low, Sector, Version};
use crate::stamp::{self, Found, SECTOR_BYTES};
use std::time::Duration;

/// Evidence of the order in a sector, and its time.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sign {
    tick: u64,
    sector: u64,
    change: u64,
}

/// Evidence of the order in one sector, or in all of them.
#[derive(Clone, Copy)]
struct Signs {
    /// A change is present that was sent after the answer of a flush, which was sent at this tick:
    /// the newest.
    after: Sign,
    /// A change is present that was sent at this tick: the newest.
    sent: Sign,
    /// A change is missing that was completed at this tick: the oldest.
    missing: Sign,
    /// An FUA write is missing that was answered at this tick: the oldest.
    missing_fua: Sign,
}

const ALWAYS: Sign = Sign { tick: 0, sector: 0, change: 0 };
const NEVER: Sign = Sign { tick: u64::MAX, ..ALWAYS };

impl Signs {
    const NONE: Signs = Signs { after: ALWAYS, sent: ALWAYS, missing: NEVER, missing_fua: NEVER };

    /// Returns the evidence of a sector that holds the version at `index`.
    fn of(sector: u64, versions: &[Version], index: usize) -> Signs {
        let sign = |version: &Version, tick| Sign { tick, sector, change: version.number };
        let (left, later) = (&versions[index], &versions[index + 1..]);
        let done = later.iter().filter(|version| version.acknowledged && !version.excused);
        let missing = done.map(|version| (version.barrier, sign(version, version.at)));
        let oldest = |is_it: fn(bool) -> bool| {
            missing.clone().filter(|one| is_it(one.0)).map(|one| one.1).min().unwrap_or(NEVER)
        };
        Signs {
            after: sign(left, left.after),
            sent: sign(left, left.sent),
            missing: oldest(|_| true),
            missing_fua: oldest(|barrier| barrier),
        }
    }

    /// Combines the evidence of two sectors.
    fn and(self, other: Signs) -> Signs {
        Signs {
            after: self.after.max(other.after),
            sent: self.sent.max(other.sent),
            missing: self.missing.min(other.missing),
            missing_fua: self.missing_fua.min(other.missing_fua),
        }
    }

    /// Combines the evidence of a sector that holds one of two versions, if it is unknown which.
    fn or(self, other: Signs) -> Signs {
        Signs {
            after: self.after.min(other.after),
            sent: self.sent.min(other.sent),
            missing: self.missing.max(other.missing),
            missing_fua: self.missing_fua.max(other.missing_fua),
        }
    }

    /// Returns the violation in the evidence, and the sectors that show it.
    fn wrong(&self) -> Option<(String, [u64; 2])> {
        let Signs { after, sent, missing, missing_fua } = *self;
        let words = |there: Sign, missing: Sign, why: &str| {
            let what = format!(
                "the order is broken: sector {} is left with change {}, but sector {} has lost change \
                 {}, {why}",
                there.sector, there.change, missing.sector, missing.change
            );
            (what, [there.sector, missing.sector])
        };
        if missing.tick < after.tick {
            let why = "which was completed before a flush was sent that was answered before the \
                       other was sent";
            return Some(words(after, missing, why));
        }
        let why = "an FUA write that was answered before the other was sent";
        (missing_fua.tick < sent.tick).then(|| words(sent, missing_fua, why))
    }
}

impl Sector {
    /// Returns the versions that a power cut may have left, if the sector holds this.
    fn remaining_versions(&self, sector: u64, volume: u64, found: &Found) -> Vec<usize> {
        let is_it = |version: &Version| match found {
            Found::Zeros => version.zeros,
            Found::Stamp(stamp) => {
                let ours = stamp.sector == sector && stamp.volume == volume;
                ours && !version.zeros && version.number == stamp.number
            }
            Found::Torn(_) | Found::Garbage => false,
        };
        (0..self.versions.len()).filter(|&index| is_it(&self.versions[index])).collect()
    }
}

impl Ledger {
    /// Judges the image that the backing holds after a power cut. Returns the age of the oldest
    /// acknowledged change that is missing. None: none is missing, or the image violates a promise,
    /// which is noted.
    pub fn cut(&mut self, image: &[u8]) -> Option<Duration> {
        let found: Vec<Found> = image.chunks_exact(SECTOR_BYTES).map(stamp::read).collect();
        assert_eq!(found.len() as u64, self.len(), "the image is of another size");
        let mut signs = Signs::NONE;
        let mut kept = Vec::with_capacity(found.len());
        for (sector, found) in (0..).zip(&found) {
            let (shown, newest) = self.judge_sector(sector, found)?;
            signs = signs.and(shown);
            kept.push(newest);
        }
        if let Some((what, sectors)) = signs.wrong() {
            self.violated_by(what, sectors);
            return None;
        }
        self.judge_left_blocks(&found)?;
        let age = (signs.missing != NEVER).then(|| self.age(signs.missing.tick));
        self.take_as_it_is(kept);
        age
    }

    /// Returns the evidence of a sector with this contents, and its version.
    fn judge_sector(&mut self, number: u64, found: &Found) -> Option<(Signs, Version)> {
        let (flushed_at, volume) = (self.flushed_at, self.volume());
        let sector = &mut self.sectors[number as usize];
        sector.settle(flushed_at);
        let places = sector.remaining_versions(number, volume, found);
        let signs = places.iter().map(|&place| Signs::of(number, &sector.versions, place));
        if let (Some(signs), Some(&newest)) = (signs.reduce(Signs::or), places.last()) {
            return Some((signs, sector.versions[newest]));
        }
        let Version { number: oldest, zeros, .. } = sector.versions[0];
        let low = Low { number: oldest, zeros };
        self.violated("after a power cut a sector holds what it must not", number, low, found);
        None
    }

    fn judge_left_blocks(&mut self, found: &[Found]) -> Option<()> {
        for (first, sectors) in
            (0..).step_by(BLOCK_SECTORS as usize).zip(found.chunks(BLOCK_SECTORS as usize))
        {
            if let Some(torn) = self.torn(first, sectors) {
                let sector = first + torn as u64;
                let Version { number, zeros, .. } = self.sectors[sector as usize].versions[0];
                let what = "a power cut has torn a block that one write covered";
                self.violated(what, sector, Low { number, zeros }, &sectors[torn]);
                return None;
            }
        }
        Some(())
    }

    /// Returns the age of that tick, as far as times were recorded.
    fn age(&self, tick: u64) -> Duration {
        let Some(&(_, now)) = self.times.back() else { return Duration::ZERO };
        let place = self.times.partition_point(|&(at, _)| at < tick);
        let then = self.times.get(place).map_or(now, |&(_, time)| time);
        now - then
    }

    /// Accepts the contents as the only version, and as durable.
    fn take_as_it_is(&mut self, kept: Vec<Version>) {
        for (sector, Version { number, zeros, .. }) in self.sectors.iter_mut().zip(kept) {
            *sector = Sector {
                versions: vec![Version { number, zeros, ..FIRST }],
                zeros_forgotten: None,
            };
        }
        self.times.clear();
        self.killed_life = None;
        self.all_verified();
    }
}
