//! A disk with a volatile cache, as data: its durable contents, and the versions that a power cut
//! may lose.

use lane::Random;
use std::collections::{BTreeMap, VecDeque};

/// Unit that a power cut keeps or loses as a whole, in bytes: the disk's physical block.
pub const UNIT_BYTES: usize = 4096;

/// Number of versions of a unit that are distinguished; beyond it, one in the middle is dropped.
const VERSIONS_MAX: usize = 16;

/// Delay of [`Flushes::Late`], in flushes. With one, a file system shows it in one power cut of
/// thirty.
pub const LATE_FLUSHES: usize = 4;

/// A version of a unit, after a write.
struct Version {
    bytes: Box<[u8]>,
    /// Number of the write.
    write: u64,
    /// When the write was answered; None: it was not.
    answered: Option<u64>,
    /// Whether a failed flush has dropped it: reads return it, no flush makes it durable, and a
    /// power cut loses it.
    given_up: bool,
}

/// Result of a power cut.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
pub struct Cut {
    /// Units with unflushed versions.
    pub unflushed: u64,
    /// Of these, units that were reset to the flushed version.
    pub lost: u64,
    /// Units whose newest version a failed flush had dropped.
    pub given_up: u64,
}

/// How a disk handles a flush that it answers.
#[derive(Clone, Copy, PartialEq, Eq, Debug, clap::ValueEnum)]
pub enum Flushes {
    /// As required.
    Honest,
    /// It never does anything.
    Never,
    /// It carries out the one [`LATE_FLUSHES`] flushes earlier.
    Late,
}

/// The disk.
pub struct Lossy {
    durable: Vec<u8>,
    /// The versions of every unit since it was last made durable, in order.
    volatile: BTreeMap<u64, Vec<Version>>,
    /// Counts all events.
    tick: u64,
    flushes: Flushes,
    /// When the flushes began that are answered only, in order ([`Flushes::Late`]).
    late: VecDeque<u64>,
}

impl Lossy {
    /// Returns a disk of this size, all zero.
    pub fn new(bytes: u64, flushes: Flushes) -> Lossy {
        let durable = vec![0; bytes as usize];
        Lossy { durable, volatile: BTreeMap::new(), tick: 0, flushes, late: VecDeque::new() }
    }

    /// Returns its size in bytes.
    pub fn bytes(&self) -> u64 {
        self.durable.len() as u64
    }

    /// Returns the number of units with a version that a flush would make durable.
    pub fn unflushed(&self) -> usize {
        let is_pending =
            |versions: &&Vec<Version>| versions.iter().any(|version| !version.given_up);
        self.volatile.values().filter(is_pending).count()
    }

    fn unit(&self, unit: u64) -> &[u8] {
        let start = unit as usize * UNIT_BYTES;
        match self.volatile.get(&unit).and_then(|versions| versions.last()) {
            Some(version) => &version.bytes,
            None => &self.durable[start..start + UNIT_BYTES],
        }
    }

    /// Reads at `offset`.
    pub fn read(&self, offset: u64, into: &mut [u8]) {
        for (unit, within, part) in parts(offset, into.len()) {
            let from = &self.unit(unit)[within..within + part.len()];
            into[part].copy_from_slice(from);
        }
    }

    /// Applies a write to the volatile cache; returns its number for [`Lossy::answered`].
    pub fn write(&mut self, offset: u64, from: &[u8]) -> u64 {
        self.tick += 1;
        let write = self.tick;
        for (unit, within, part) in parts(offset, from.len()) {
            let mut bytes: Box<[u8]> = self.unit(unit).into();
            bytes[within..within + part.len()].copy_from_slice(&from[part]);
            let versions = self.volatile.entry(unit).or_default();
            versions.push(Version { bytes, write, answered: None, given_up: false });
            if versions.len() > VERSIONS_MAX {
                versions.remove(VERSIONS_MAX / 2);
            }
        }
        write
    }

    /// Notes that the write is answered: from now on a flush covers it.
    pub fn answered(&mut self, write: u64, offset: u64, length: usize) {
        self.tick += 1;
        for (unit, _, _) in parts(offset, length) {
            let versions = self.volatile.get_mut(&unit).into_iter().flatten();
            let ours = versions.filter(|version| version.write == write);
            ours.for_each(|version| version.answered = Some(self.tick));
        }
    }

    /// Begins a flush.
    pub fn begin_flush(&mut self) -> u64 {
        self.tick += 1;
        self.tick
    }

    /// Ends a flush: writes answered before it began are durable.
    pub fn end_flush(&mut self, begun: u64) {
        let begun = match self.flushes {
            Flushes::Honest => begun,
            Flushes::Never => return,
            Flushes::Late => {
                self.late.push_back(begun);
                if self.late.len() <= LATE_FLUSHES {
                    return;
                }
                self.late.pop_front().expect("there are some")
            }
        };
        let Lossy { durable, volatile, .. } = self;
        volatile.retain(|&unit, versions| {
            settle(durable, unit, versions, begun);
            !versions.is_empty()
        });
    }

    /// Fails a flush, as on Linux: each version that was answered before `until` is dropped at
    /// random. Returns the number of dropped versions.
    pub fn fail_flush(&mut self, until: u64, random: &mut Random) -> u64 {
        let is_covered = |version: &&mut Version| version.answered.is_some_and(|at| at < until);
        let mut given_up = 0;
        for version in self.volatile.values_mut().flatten().filter(is_covered) {
            if !version.given_up && random.one_in(2) {
                version.given_up = true;
                given_up += 1;
            }
        }
        given_up
    }

    /// Makes the units of one answered write durable (FUA).
    pub fn harden(&mut self, offset: u64, length: usize) {
        if self.flushes != Flushes::Honest {
            return;
        }
        self.tick += 1;
        for (unit, _, _) in parts(offset, length) {
            let Some(versions) = self.volatile.get_mut(&unit) else { continue };
            settle(&mut self.durable, unit, versions, self.tick);
            if versions.is_empty() {
                self.volatile.remove(&unit);
            }
        }
    }

    /// Cuts the power: every unit keeps one of its versions since the last flush.
    pub fn cut(&mut self, random: &mut Random) -> Cut {
        let mut cut = Cut::default();
        for (unit, mut versions) in std::mem::take(&mut self.volatile) {
            cut.unflushed += 1;
            cut.given_up += u64::from(versions.last().is_some_and(|version| version.given_up));
            versions.retain(|version| !version.given_up);
            // Half of the time all or nothing, which a choice among many would seldom give.
            let kept = match random.below(4) {
                0 => 0,
                1 => versions.len(),
                _ => random.below(versions.len() as u64 + 1) as usize,
            };
            cut.lost += u64::from(kept == 0);
            if let Some(version) = kept.checked_sub(1).and_then(|kept| versions.get(kept)) {
                self.keep(unit, &version.bytes);
            }
        }
        cut
    }

    fn keep(&mut self, unit: u64, bytes: &[u8]) {
        let start = unit as usize * UNIT_BYTES;
        self.durable[start..start + UNIT_BYTES].copy_from_slice(bytes);
    }

    /// Returns the whole image as reads see it.
    pub fn image(&self) -> Vec<u8> {
        let mut image = self.durable.clone();
        for &unit in self.volatile.keys() {
            let start = unit as usize * UNIT_BYTES;
            image[start..start + UNIT_BYTES].copy_from_slice(self.unit(unit));
        }
        image
    }

    /// Replaces the whole image, durably.
    ///
    /// # Panics
    /// If the image has another size.
    pub fn replace(&mut self, image: Vec<u8>) {
        assert_eq!(image.len(), self.durable.len());
        self.durable = image;
        self.volatile.clear();
    }
}

/// Makes versions durable that were answered before `begun`, and drops those that an answered
/// version has replaced. A dropped version stays visible to reads, and does not replace older
/// versions.
fn settle(durable: &mut [u8], unit: u64, versions: &mut Vec<Version>, begun: u64) {
    let is_covered =
        |version: &Version| !version.given_up && version.answered.is_some_and(|at| at < begun);
    let Some(newest) = versions.iter().rposition(is_covered) else { return };
    let start = unit as usize * UNIT_BYTES;
    durable[start..start + UNIT_BYTES].copy_from_slice(&versions[newest].bytes);
    versions.drain(..=newest);
}

/// Splits a range of bytes by units: the unit, the offset in it, and the part of the range.
fn parts(offset: u64, length: usize) -> impl Iterator<Item = (u64, usize, std::ops::Range<usize>)> {
    let mut done = 0;
    std::iter::from_fn(move || {
        let at = offset + done as u64;
        let within = at as usize % UNIT_BYTES;
        let count = (UNIT_BYTES - within).min(length - done);
        let part = done..done + count;
        done += count;
        (count > 0).then_some((at / UNIT_BYTES as u64, within, part))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn byte(disk: &Lossy, offset: u64) -> u8 {
        let mut bytes = [0; 1];
        disk.read(offset, &mut bytes);
        bytes[0]
    }

    fn written(disk: &mut Lossy, offset: u64, bytes: &[u8]) {
        let write = disk.write(offset, bytes);
        disk.answered(write, offset, bytes.len());
    }

    #[test]
    fn a_flush_covers_what_was_answered_before_it_began() {
        let mut disk = Lossy::new(4 * 4096, Flushes::Honest);
        written(&mut disk, 512, &[1; 512]);
        let pending = disk.write(4096, &[2; 4096]);
        let flush = disk.begin_flush();
        written(&mut disk, 512, &[3; 512]);
        disk.answered(pending, 4096, 4096);
        disk.end_flush(flush);
        assert_eq!(disk.unflushed(), 2, "the late one and the one that was pending");
        assert_eq!((byte(&disk, 512), byte(&disk, 4096)), (3, 2));
        assert_eq!((disk.durable[512], disk.durable[4096]), (1, 0));
    }

    #[test]
    fn a_cut_keeps_any_version_and_never_tears_a_unit() {
        let mut seen = [false; 3];
        for seed in 0..64 {
            let mut disk = Lossy::new(8192, Flushes::Honest);
            written(&mut disk, 0, &[1; 8192]);
            written(&mut disk, 0, &[2; 4096]);
            disk.cut(&mut Random::new(seed));
            let first = byte(&disk, 0);
            assert_eq!(byte(&disk, 4095), first);
            seen[usize::from(first)] = true;
        }
        assert_eq!(seen, [true; 3]);
    }

    #[test]
    fn a_failed_flush_gives_up_versions_for_good() {
        let mut lost = 0;
        for seed in 0..64 {
            let mut random = Random::new(seed);
            let mut disk = Lossy::new(4096, Flushes::Honest);
            written(&mut disk, 0, &[1; 4096]);
            let first = disk.begin_flush();
            disk.end_flush(first);
            written(&mut disk, 0, &[2; 4096]);
            let failing = disk.begin_flush();
            let given_up = disk.fail_flush(failing, &mut random);
            assert_eq!((byte(&disk, 0), disk.unflushed() as u64), (2, 1 - given_up));
            let next = disk.begin_flush();
            disk.end_flush(next);
            assert_eq!(byte(&disk, 0), 2, "reads show it still");
            disk.cut(&mut random);
            assert_eq!(u64::from(byte(&disk, 0)), 2 - given_up);
            lost += given_up;
        }
        assert!((1..64).contains(&lost), "{lost} of 64 were given up");
    }

    #[test]
    fn a_failed_flush_gives_up_nothing_that_it_does_not_cover() {
        for seed in 0..64 {
            let mut random = Random::new(seed);
            let mut disk = Lossy::new(2 * 4096, Flushes::Honest);
            let pending = disk.write(0, &[1; 4096]);
            let failing = disk.begin_flush();
            written(&mut disk, 4096, &[2; 4096]);
            assert_eq!(disk.fail_flush(failing, &mut random), 0);
            disk.answered(pending, 0, 4096);
            let next = disk.begin_flush();
            disk.end_flush(next);
            assert_eq!((disk.durable[0], disk.durable[4096]), (1, 2));
        }
    }

    #[test]
    fn a_write_over_what_was_given_up_makes_both_durable() {
        let mut random = Random::new(1);
        let mut disk = Lossy::new(4096, Flushes::Honest);
        written(&mut disk, 0, &[1; 512]);
        let failing = disk.begin_flush();
        while disk.fail_flush(failing, &mut random) == 0 {}
        written(&mut disk, 512, &[2; 512]);
        let next = disk.begin_flush();
        disk.end_flush(next);
        disk.cut(&mut random);
        assert_eq!((byte(&disk, 0), byte(&disk, 512), disk.unflushed()), (1, 2, 0));
    }

    /// Whether a cut ever loses data that was flushed this many times.
    fn loses(flushes: Flushes, times: usize) -> bool {
        (0..64).any(|seed| {
            let mut disk = Lossy::new(4096, flushes);
            written(&mut disk, 0, &[7; 4096]);
            for _ in 0..times {
                let flush = disk.begin_flush();
                disk.end_flush(flush);
            }
            disk.cut(&mut Random::new(seed)).lost > 0
        })
    }

    #[test]
    fn what_was_flushed_survives_unless_the_disk_lies() {
        assert!(!loses(Flushes::Honest, 1));
        assert!(loses(Flushes::Never, 2));
        assert!(loses(Flushes::Late, 1));
        assert!(loses(Flushes::Late, LATE_FLUSHES));
        assert!(!loses(Flushes::Late, LATE_FLUSHES + 1), "the last does what the first had to do");
    }
}
