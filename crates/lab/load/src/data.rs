//! The data of writes, and the comparison of reads with it. The data is a function of a seed, the
//! address and a count.
//!
//! ```text
//!   sector:  key of (seed, address)  8 bytes | generation  8 bytes | pseudo-random bytes | zeros
//!                                                                   `- data_percent -'
//! ```
//!
//! Each write has a generation of its own: a sector that is written twice gets different data, and
//! a sector identifies the write that it came from. Some of the slots of 4 KiB, chosen by their
//! addresses, share contents with other slots, so that a device with deduplication stores them
//! once.

use crate::source::Step;
use block::{Buf, Extent, SECTOR};
use lane::{Random, mix_bits};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use trace::Operation;

const SECTOR_BYTES: usize = SECTOR as usize;
/// Sectors of a slot: duplicates are whole slots, and the newest write is tracked per slot.
const SLOT_SECTORS: u64 = 8;
/// Bytes at the start of a sector that identify it.
const HEAD_BYTES: usize = 16;
/// The number of different slots that the duplicates are copies of.
const ORIGINALS: u64 = 64;

/// The properties of a load's data.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Content {
    /// The seed of all data.
    pub seed: u64,
    /// The part of each sector that cannot be compressed, in percent, at least 16 bytes; the rest
    /// is zeros.
    pub data_percent: u32,
    /// The part of the slots of 4 KiB that are copies of one of 64 slots, in percent.
    pub dedupe_percent: u32,
}

/// A difference between a sector and the data that was written there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// The sector, from the device's start.
    pub sector: u64,
    /// The kind of data that was found instead.
    pub found: Found,
}

/// The data found in a wrong sector.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// The head of another address, or no valid head.
    Foreign,
    /// The data of a write that a later one had replaced before the read began.
    Stale,
    /// The right head with a wrong body.
    Damaged,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.sector * SECTOR;
        match self.found {
            Found::Foreign => {
                write!(f, "at byte {at}, a read returns data that was never written there")
            }
            Found::Stale => {
                write!(f, "at byte {at}, a read returns data that a later write had replaced")
            }
            Found::Damaged => {
                write!(f, "at byte {at}, a read returns only a part of the data written there")
            }
        }
    }
}

impl Content {
    /// Returns data that can be neither compressed nor deduplicated.
    pub const fn random(seed: u64) -> Content {
        Content { seed, data_percent: 100, dedupe_percent: 0 }
    }

    /// Returns the key of a sector, and whether its slot is a copy.
    fn key(&self, sector: u64) -> (u64, bool) {
        let slot = mix_bits(self.seed ^ mix_bits((sector / SLOT_SECTORS).wrapping_add(1)));
        if slot % 100 < u64::from(self.dedupe_percent.min(100)) {
            let original = mix_bits(slot) % ORIGINALS;
            return (
                mix_bits(self.seed ^ mix_bits((original << 8) | (sector % SLOT_SECTORS))),
                true,
            );
        }
        (mix_bits(slot ^ mix_bits(!sector)), false)
    }

    /// Fills a sector.
    fn sector(&self, sector: u64, generation: u64, into: &mut [u8]) {
        let (key, is_copy) = self.key(sector);
        self.of_key(key, if is_copy { 0 } else { generation }, into);
    }

    /// Returns the number of bytes of a sector, after its head, that are not zeros: whole words.
    fn body_bytes(&self) -> usize {
        let random = SECTOR_BYTES * self.data_percent.min(100) as usize / 100;
        random.saturating_sub(HEAD_BYTES) / 8 * 8
    }

    /// Returns the exact part of a sector that cannot be compressed, in percent: `data_percent`,
    /// with the head and rounded to whole words.
    pub fn data_percent_exact(&self) -> f64 {
        (HEAD_BYTES + self.body_bytes()) as f64 * 100.0 / SECTOR_BYTES as f64
    }

    fn of_key(&self, key: u64, generation: u64, into: &mut [u8]) {
        let (head, body) = into.split_at_mut(HEAD_BYTES);
        head[..8].copy_from_slice(&key.to_le_bytes());
        head[8..].copy_from_slice(&generation.to_le_bytes());
        let (filled, zeros) = body.split_at_mut(self.body_bytes());
        let mut words = Random::new(key ^ mix_bits(generation));
        for word in filled.chunks_exact_mut(8) {
            word.copy_from_slice(&words.next_u64().to_le_bytes());
        }
        zeros.fill(0);
    }

    /// Fills bytes with the data of a write of this generation, from sector `first` on. Bytes after
    /// the last whole sector are not changed.
    pub fn fill_bytes(&self, first: u64, generation: u64, into: &mut [u8]) {
        for (sector, into) in (first..).zip(into.chunks_exact_mut(SECTOR_BYTES)) {
            self.sector(sector, generation, into);
        }
    }

    /// Fills a buffer with the data of a write of this generation, from sector `first` on.
    pub(crate) fn fill(&self, first: u64, generation: u64, buffer: &Buf) {
        let mut bytes = [0; SLOT_SECTORS as usize * SECTOR_BYTES];
        let mut done = 0;
        while done < buffer.sectors() {
            let count = (buffer.sectors() - done).min(SLOT_SECTORS as u32);
            let part = &mut bytes[..count as usize * SECTOR_BYTES];
            self.fill_bytes(first + u64::from(done), generation, part);
            buffer.part(done, count).write(part);
            done += count;
        }
    }

    /// Checks that a sector comes from a write of generation `least` to `most`.
    fn check(&self, sector: u64, found: &[u8], least: u64, most: u64) -> Result<(), Mismatch> {
        let (key, is_copy) = self.key(sector);
        let word = |at: usize| {
            found[at..].first_chunk().map_or(0, |bytes: &[u8; 8]| u64::from_le_bytes(*bytes))
        };
        let generation = word(8);
        // Generated before anything is compared, so that each sector takes the same time.
        let mut wanted = [0; SECTOR_BYTES];
        self.of_key(key, generation, &mut wanted);
        let known = if is_copy { generation == 0 } else { (1..=most).contains(&generation) };
        if word(0) != key || !known {
            return Err(Mismatch { sector, found: Found::Foreign });
        }
        if !is_copy && generation < least {
            return Err(Mismatch { sector, found: Found::Stale });
        }
        let whole = wanted[..] == *found;
        if whole { Ok(()) } else { Err(Mismatch { sector, found: Found::Damaged }) }
    }
}

/// Overlapping writes to one slot.
struct Group {
    under_way: u32,
    /// The smallest generation of them.
    least: u64,
    /// One of them covers the whole slot.
    whole: bool,
    /// All that have been answered so far have succeeded.
    sound: bool,
}

/// The known contents of the device.
#[derive(Default)]
struct Known {
    /// Number of writes.
    generation: u64,
    /// The smallest generation that a read of each slot may find; 0: the contents are unknown.
    least: Vec<u64>,
    groups: BTreeMap<u64, Group>,
}

/// The data of successive loads on one device. Cheap to clone.
#[derive(Clone)]
pub struct Data {
    content: Content,
    verify: bool,
    /// Reads are compared at full cost, and the result is ignored.
    rehearses: bool,
    known: Rc<RefCell<Known>>,
}

/// A request that has started: what its answer is compared with.
pub(crate) enum Begun {
    /// The answer needs no check.
    Plain,
    /// A write.
    Write(Extent),
    /// A read, and the smallest generation of each slot that it touches.
    Read(Extent, Vec<u64>),
}

fn slots(at: &Extent) -> std::ops::RangeInclusive<u64> {
    at.first / SLOT_SECTORS..=(at.end() - 1) / SLOT_SECTORS
}

impl Data {
    /// Returns data without known writes. With `verify`, reads are compared with the data that was
    /// written. Sectors without a known write are not compared.
    pub fn new(content: Content, verify: bool) -> Data {
        Data { content, verify, rehearses: false, known: Rc::default() }
    }

    /// Returns the same work for a device that stores nothing: every read is compared as if all of
    /// it had been written, and the result is ignored.
    pub fn rehearsal(&self) -> Data {
        Data { rehearses: true, ..Data::new(self.content, self.verify) }
    }

    /// Returns its properties.
    pub fn content(&self) -> Content {
        self.content
    }

    /// Whether reads are compared with the data that was written.
    pub fn verifies(&self) -> bool {
        self.verify
    }

    /// Returns data with other properties, with no known writes.
    pub fn with(&self, content: Content) -> Data {
        Data::new(content, self.verify)
    }

    /// Marks the contents of the device as unknown, for example after a trim.
    pub fn forget(&self) {
        self.known.borrow_mut().least.clear();
    }

    /// Returns a generation for a write.
    pub(crate) fn generate(&self) -> u64 {
        let mut known = self.known.borrow_mut();
        known.generation += 1;
        known.generation
    }

    /// Fills the buffer of a write, unless it is already staged with this generation, and records
    /// what its answer is compared with.
    pub(crate) fn begin(&self, step: &Step, buffer: &Buf, staged: Option<u64>) -> Begun {
        let at = step.at;
        match step.operation {
            Operation::Write { .. } if buffer.grain() as usize == SECTOR_BYTES => {
                let generation = staged.unwrap_or_else(|| {
                    let generation = self.generate();
                    self.content.fill(at.first, generation, buffer);
                    generation
                });
                if self.verify {
                    self.known.borrow_mut().begin(&at, generation);
                }
                if self.verify { Begun::Write(at) } else { Begun::Plain }
            }
            Operation::Read if self.verify && buffer.grain() as usize == SECTOR_BYTES => {
                let known = self.known.borrow();
                let unknown = u64::from(self.rehearses);
                let least = |slot| known.least.get(slot as usize).copied().unwrap_or(unknown);
                Begun::Read(at, slots(&at).map(least).collect())
            }
            Operation::Discard | Operation::Zero { .. } if self.verify => {
                self.known.borrow_mut().forget(&at);
                Begun::Plain
            }
            _ => Begun::Plain,
        }
    }

    /// Handles the answer to a request: a success, or an error.
    pub(crate) fn end(&self, begun: Begun, buffer: &Buf, is_good: bool) -> Result<(), Mismatch> {
        match begun {
            Begun::Plain => Ok(()),
            Begun::Write(at) => {
                self.known.borrow_mut().end(&at, is_good);
                Ok(())
            }
            Begun::Read(..) if !is_good => Ok(()),
            Begun::Read(at, least) => self.compare(&at, &least, buffer),
        }
    }

    fn compare(&self, at: &Extent, least: &[u64], buffer: &Buf) -> Result<(), Mismatch> {
        let most = self.known.borrow().generation;
        let first = at.first / SLOT_SECTORS;
        let mut found = [0; SECTOR_BYTES];
        for (number, sector) in (at.first..at.end()).enumerate() {
            let least = least[(sector / SLOT_SECTORS - first) as usize];
            if least > 0 {
                buffer.part(number as u32, 1).read(&mut found);
                let checked = self.content.check(sector, &found, least, most);
                if !self.rehearses {
                    checked?;
                }
            }
        }
        Ok(())
    }
}

impl Known {
    /// Marks the contents of these sectors as unknown.
    fn forget(&mut self, at: &Extent) {
        let (first, end) = (at.first / SLOT_SECTORS, at.end().div_ceil(SLOT_SECTORS));
        let end = end.min(self.least.len() as u64);
        if first < end {
            self.least[first as usize..end as usize].fill(0);
        }
    }

    fn begin(&mut self, at: &Extent, generation: u64) {
        for slot in slots(at) {
            let start = slot * SLOT_SECTORS;
            let is_whole = at.first <= start && at.end() >= start + SLOT_SECTORS;
            let fresh = Group { under_way: 0, least: generation, whole: false, sound: true };
            let group = self.groups.entry(slot).or_insert(fresh);
            group.under_way += 1;
            group.least = group.least.min(generation);
            group.whole |= is_whole;
        }
    }

    /// Records the answer to a write. Any write of a group may have been the last one, so a read
    /// finds at least the smallest generation of the group.
    fn end(&mut self, at: &Extent, is_good: bool) {
        for slot in slots(at) {
            let Some(group) = self.groups.get_mut(&slot) else { continue };
            group.under_way -= 1;
            group.sound &= is_good;
            if group.under_way > 0 {
                continue;
            }
            let group = self.groups.remove(&slot).expect("it was there just now");
            if !group.whole || !group.sound {
                continue;
            }
            let index = slot as usize;
            if self.least.len() <= index {
                self.least.resize(index + 1, 0);
            }
            self.least[index] = self.least[index].max(group.least);
        }
    }
}

/// Returns a seed for data, independent of the choices of a load with the same seed.
pub fn content_seed(seed: u64) -> u64 {
    Random::new(!seed).next_u64()
}

#[cfg(test)]
mod tests {
    use super::*;

    const READ: Operation = Operation::Read;
    const WRITE: Operation = Operation::Write { fua: false };

    fn step(operation: Operation, first: u64, count: u32) -> Step {
        Step { due_ns: None, operation, at: Extent::new(first, count) }
    }

    fn write(data: &Data, first: u64, buffer: &Buf) {
        let begun = data.begin(&step(WRITE, first, buffer.sectors()), buffer, None);
        assert_eq!(data.end(begun, buffer, true), Ok(()));
    }

    fn read(data: &Data, first: u64, buffer: &Buf) -> Result<(), Mismatch> {
        let begun = data.begin(&step(READ, first, buffer.sectors()), buffer, None);
        data.end(begun, buffer, true)
    }

    #[test]
    fn what_was_written_is_recognized_and_nothing_else() {
        let data = Data::new(Content::random(7), true);
        let (old, new, other) = (Buf::new(16, 512), Buf::new(16, 512), Buf::new(16, 512));
        write(&data, 8, &old);
        assert_eq!(read(&data, 8, &old), Ok(()));
        write(&data, 8, &new);
        write(&data, 32, &other);
        assert_eq!(read(&data, 8, &new), Ok(()));
        let wrong = |found| Err(Mismatch { sector: 8, found });
        assert_eq!(read(&data, 8, &old), wrong(Found::Stale));
        assert_eq!(read(&data, 8, &other), wrong(Found::Foreign));
        assert_eq!(read(&data, 8, &Buf::new(16, 512)), wrong(Found::Foreign));
        let mut bytes = new.to_vec();
        bytes[5 * 512 + 300] ^= 1;
        new.write(&bytes);
        assert_eq!(read(&data, 8, &new), Err(Mismatch { sector: 13, found: Found::Damaged }));
        // The contents are unknown where nothing was written, and everywhere after a trim.
        assert_eq!(read(&data, 400, &old), Ok(()));
        data.forget();
        assert_eq!(read(&data, 8, &old), Ok(()));
    }

    #[test]
    fn a_rehearsal_compares_what_was_never_written_and_finds_no_fault() {
        let data = Data::new(Content::random(7), true);
        let buffer = Buf::new(16, 512);
        let compared = |data: &Data| match data.begin(&step(READ, 8, 16), &buffer, None) {
            Begun::Read(_, least) => least.iter().all(|least| *least > 0),
            _ => false,
        };
        assert!(!compared(&data) && compared(&data.rehearsal()));
        assert_eq!(read(&data.rehearsal(), 8, &buffer), Ok(()));
        assert!(
            !compared(&Data::new(Content::random(7), false).rehearsal()),
            "nothing is to be compared"
        );
    }

    #[test]
    fn writes_that_overlap_may_end_in_either_order() {
        let data = Data::new(Content::random(7), true);
        let (one, two, three) = (Buf::new(8, 512), Buf::new(8, 512), Buf::new(8, 512));
        let first = data.begin(&step(WRITE, 0, 8), &one, None);
        let second = data.begin(&step(WRITE, 0, 8), &two, None);
        assert_eq!(data.end(second, &two, true), Ok(()));
        assert_eq!(data.end(first, &one, true), Ok(()));
        assert_eq!((read(&data, 0, &one), read(&data, 0, &two)), (Ok(()), Ok(())));
        // A read that began before the next write may find the data before it.
        let reading = data.begin(&step(READ, 0, 8), &one, None);
        write(&data, 0, &three);
        assert_eq!(data.end(reading, &one, true), Ok(()));
        assert!(read(&data, 0, &two).is_err());
        // A write that failed may or may not be there.
        let failed = data.begin(&step(WRITE, 0, 8), &one, None);
        assert_eq!(data.end(failed, &one, false), Ok(()));
        assert_eq!(read(&data, 0, &three), Ok(()));
    }

    #[test]
    fn data_is_compressible_and_shared_as_far_as_was_asked_for() {
        let content = Content { seed: 3, data_percent: 25, dedupe_percent: 40 };
        let data = Data::new(content, true);
        let mut slots = Vec::new();
        for slot in 0..2000 {
            let buffer = Buf::new(8, 512);
            write(&data, slot * 8, &buffer);
            assert_eq!(read(&data, slot * 8, &buffer), Ok(()));
            slots.push(buffer.to_vec());
        }
        let zeros = slots.iter().flatten().filter(|byte| **byte == 0).count();
        let share = zeros as f64 / (slots.len() * 4096) as f64;
        assert!((0.73..0.78).contains(&share), "{share} are zeros");
        slots.sort_unstable();
        slots.dedup();
        let copies = 2000 - slots.len();
        assert!((650..830).contains(&copies), "{copies} of 2000 are copies");
    }
}
