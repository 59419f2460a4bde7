//! What a power cut may leave, as the clients know it.
//!
//! - Of every sector the newest version that is durable, or a later one that was sent: a flush of a
//!   `flush` daemon makes durable what was completed before it was sent, an FUA write itself, an
//!   operator's command what it says.
//! - A flush of an `ordered` daemon makes nothing durable. It orders: if anything is left that was sent
//!   after its answer, everything is left that was completed before it was sent, or something newer in
//!   its place. An FUA write is a flush, and orders itself, too.
//! - Where a flush was under way when a daemon was killed, and clients were answered that it may
//!   have failed, the changes before the kill that no flush had covered may be missing, whatever is
//!   flushed later.
//!
//! The judge sees the whole image before it is changed again, so it also takes note of what is
//! left: from then on that is what there is, durable and verified.

use crate::ledger::{BLOCK_SECTORS, Ledger};
use crate::sector::{FIRST, Low, Sector, Version};
use crate::stamp::{self, Found, SECTOR_BYTES};
use std::time::Duration;

/// Something that a sector shows about the order, and when it was.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Sign {
    tick: u64,
    sector: u64,
    change: u64,
}

/// What one sector, or all of them, show about the order.
#[derive(Clone, Copy)]
struct Signs {
    /// Something is left that was sent after the answer of a flush, which was sent then: the newest.
    after: Sign,
    /// Something is left that was sent then: the newest.
    sent: Sign,
    /// Something is missing that was completed then: the oldest.
    missing: Sign,
    /// An FUA write is missing that was answered then: the oldest.
    missing_fua: Sign,
}

const ALWAYS: Sign = Sign { tick: 0, sector: 0, change: 0 };
const NEVER: Sign = Sign { tick: u64::MAX, ..ALWAYS };

impl Signs {
    const NONE: Signs = Signs { after: ALWAYS, sent: ALWAYS, missing: NEVER, missing_fua: NEVER };

    /// What a sector shows in which the version at `index` is left.
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

    /// What two sectors show together.
    fn and(self, other: Signs) -> Signs {
        Signs {
            after: self.after.max(other.after),
            sent: self.sent.max(other.sent),
            missing: self.missing.min(other.missing),
            missing_fua: self.missing_fua.min(other.missing_fua),
        }
    }

    /// What a sector shows if it is one of the two that is left, and it is not known which.
    fn or(self, other: Signs) -> Signs {
        Signs {
            after: self.after.min(other.after),
            sent: self.sent.min(other.sent),
            missing: self.missing.max(other.missing),
            missing_fua: self.missing_fua.max(other.missing_fua),
        }
    }

    /// What of this must not be, and the sectors that show it.
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
    /// The versions that a power cut may have left, if this is what it has left.
    fn left(&self, sector: u64, volume: u64, found: &Found) -> Vec<usize> {
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
    /// The power was cut, and this is what the backing has left. Returns how long ago the oldest change
    /// was acknowledged that is missing; None: none is, or the image is not what it must be, which is
    /// noted.
    pub fn cut(&mut self, image: &[u8]) -> Option<Duration> {
        let found: Vec<Found> = image.chunks_exact(SECTOR_BYTES).map(stamp::read).collect();
        assert_eq!(found.len() as u64, self.len(), "the image is of another size");
        let mut signs = Signs::NONE;
        let mut kept = Vec::with_capacity(found.len());
        for (sector, found) in (0..).zip(&found) {
            let (shown, newest) = self.left_of(sector, found)?;
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

    /// Of a sector with this in it: what it shows, and the version that it is.
    fn left_of(&mut self, number: u64, found: &Found) -> Option<(Signs, Version)> {
        let (flushed_at, volume) = (self.flushed_at, self.volume());
        let sector = &mut self.sectors[number as usize];
        sector.settle(flushed_at);
        let places = sector.left(number, volume, found);
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

    /// How long ago that tick was, as far as the time was noted.
    fn age(&self, tick: u64) -> Duration {
        let Some(&(_, now)) = self.times.back() else { return Duration::ZERO };
        let place = self.times.partition_point(|&(at, _)| at < tick);
        let then = self.times.get(place).map_or(now, |&(_, time)| time);
        now - then
    }

    /// What is left is all there is, and durable.
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
