//! What is written, and what reads are compared with: a stream that follows from a seed, the address and a count.
//!
//! ```text
//!   sector:  key of (seed, address)  8 bytes | generation  8 bytes | pseudo-random bytes | zeros
//!                                                                   `- data_percent -'
//! ```
//!
//! Each write has a generation of its own, so that nothing that is written twice is the same, and a sector tells which
//! write it came from. A part of the slots of 4 KiB, chosen by their addresses, has contents that many slots share: what
//! a device that looks for duplicates stores once.

use crate::source::Step;
use block::{Buf, Extent, SECTOR};
use lane::Random;
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;
use trace::Operation;

const SECTOR_BYTES: usize = SECTOR as usize;
/// Sectors of a slot: duplicates are whole slots, and what was written last is known of whole slots.
const SLOT_SECTORS: u64 = 8;
/// Bytes of a sector that say what it is.
const HEAD_BYTES: usize = 16;
/// How many different slots the duplicates are copies of.
const ORIGINALS: u64 = 64;
/// The golden ratio in 64 bits: steps of a counter that meets every number.
const STEP: u64 = 0x9e37_79b9_7f4a_7c15;

/// What the data of a load is like.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Content {
    /// What all of it follows from.
    pub seed: u64,
    /// Of each sector so many percent cannot be compressed, 16 bytes at least; the rest are zeros.
    pub data_percent: u32,
    /// So many percent of the slots of 4 KiB are copies of one of 64.
    pub dedupe_percent: u32,
}

/// How a sector differs from what was written there.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Mismatch {
    /// The sector, from the device's start.
    pub sector: u64,
    /// What it has instead.
    pub found: Found,
}

/// What a wrong sector has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Found {
    /// The head of another address, or of nothing.
    Foreign,
    /// A write that another one had replaced before the read began.
    Stale,
    /// The right head, and a body that does not belong to it.
    Damaged,
}

impl fmt::Display for Mismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = self.sector * SECTOR;
        match self.found {
            Found::Foreign => write!(f, "at byte {at} is read what was never written there"),
            Found::Stale => write!(f, "at byte {at} is read what a later write had replaced"),
            Found::Damaged => write!(f, "at byte {at} is read a part of what was written there"),
        }
    }
}

/// Scrambles a number: the finisher of S. Vigna's SplitMix64.
#[inline]
fn mixed(number: u64) -> u64 {
    let number = (number ^ (number >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let number = (number ^ (number >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    number ^ (number >> 31)
}

impl Content {
    /// Data that can be neither compressed nor shared.
    pub const fn random(seed: u64) -> Content {
        Content { seed, data_percent: 100, dedupe_percent: 0 }
    }

    /// The key of a sector, and whether its slot is a copy.
    fn key(&self, sector: u64) -> (u64, bool) {
        let slot = mixed(self.seed ^ mixed((sector / SLOT_SECTORS).wrapping_add(1)));
        if slot % 100 < u64::from(self.dedupe_percent.min(100)) {
            let original = mixed(slot) % ORIGINALS;
            return (mixed(self.seed ^ mixed((original << 8) | (sector % SLOT_SECTORS))), true);
        }
        (mixed(slot ^ mixed(!sector)), false)
    }

    /// Fills a sector.
    fn sector(&self, sector: u64, generation: u64, into: &mut [u8]) {
        let (key, is_copy) = self.key(sector);
        self.of_key(key, if is_copy { 0 } else { generation }, into);
    }

    /// Bytes of a sector behind its head that are not zeros: whole words.
    fn body_bytes(&self) -> usize {
        let random = SECTOR_BYTES * self.data_percent.min(100) as usize / 100;
        random.saturating_sub(HEAD_BYTES) / 8 * 8
    }

    /// How many percent of a sector really cannot be compressed: `data_percent`, but for the head and whole words.
    pub fn data_percent_exact(&self) -> f64 {
        (HEAD_BYTES + self.body_bytes()) as f64 * 100.0 / SECTOR_BYTES as f64
    }

    fn of_key(&self, key: u64, generation: u64, into: &mut [u8]) {
        let (head, body) = into.split_at_mut(HEAD_BYTES);
        head[..8].copy_from_slice(&key.to_le_bytes());
        head[8..].copy_from_slice(&generation.to_le_bytes());
        let (filled, zeros) = body.split_at_mut(self.body_bytes());
        let mut counter = key ^ mixed(generation);
        for word in filled.chunks_exact_mut(8) {
            counter = counter.wrapping_add(STEP);
            word.copy_from_slice(&mixed(counter).to_le_bytes());
        }
        zeros.fill(0);
    }

    /// Fills bytes, from sector `first` on, with what a write of this generation has there. What is left beyond whole
    /// sectors stays as it is.
    pub fn fill_bytes(&self, first: u64, generation: u64, into: &mut [u8]) {
        for (sector, into) in (first..).zip(into.chunks_exact_mut(SECTOR_BYTES)) {
            self.sector(sector, generation, into);
        }
    }

    /// Fills a buffer with what a write of this generation has from sector `first` on.
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

    /// What is wrong with a sector that must come from a write of generation `least` to `most`.
    fn check(&self, sector: u64, found: &[u8], least: u64, most: u64) -> Result<(), Mismatch> {
        let (key, is_copy) = self.key(sector);
        let word = |at: usize| {
            found[at..].first_chunk().map_or(0, |bytes: &[u8; 8]| u64::from_le_bytes(*bytes))
        };
        let generation = word(8);
        // Made before anything is compared, so that each sector takes the same time.
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

/// Writes to a slot that were under way together.
struct Group {
    under_way: u32,
    /// The least generation of all of them.
    least: u64,
    /// One of them covers the whole slot.
    whole: bool,
    /// All that have been answered have succeeded.
    sound: bool,
}

/// What is known of the device's contents.
#[derive(Default)]
struct Known {
    /// Writes so far.
    generation: u64,
    /// Of each slot the least generation that a read may find; 0: it is not known what is there.
    least: Vec<u64>,
    groups: BTreeMap<u64, Group>,
}

/// The data of loads that follow one another on one device. Cheap to clone.
#[derive(Clone)]
pub struct Data {
    content: Content,
    verify: bool,
    /// Reads cost what comparing costs, whatever they find.
    rehearses: bool,
    known: Rc<RefCell<Known>>,
}

/// A request that has begun: what its answer is compared with.
pub(crate) enum Begun {
    /// Nothing is to be done when it is answered.
    Plain,
    /// A write.
    Write(Extent),
    /// A read, and of each slot that it touches the least generation.
    Read(Extent, Vec<u64>),
}

fn slots(at: &Extent) -> std::ops::RangeInclusive<u64> {
    at.first / SLOT_SECTORS..=(at.end() - 1) / SLOT_SECTORS
}

impl Data {
    /// With `verify`, reads are compared with what was written. What is not known to have been written is not.
    pub fn new(content: Content, verify: bool) -> Data {
        Data { content, verify, rehearses: false, known: Rc::default() }
    }

    /// The same work for a device that keeps nothing: what is read there is compared as if all of it had been
    /// written, and what it is does not matter.
    pub fn rehearsal(&self) -> Data {
        Data { rehearses: true, ..Data::new(self.content, self.verify) }
    }

    /// What it is like.
    pub fn content(&self) -> Content {
        self.content
    }

    /// Whether reads are compared with what was written.
    pub fn verifies(&self) -> bool {
        self.verify
    }

    /// Data of another kind from now on, as if nothing had been written.
    pub fn with(&self, content: Content) -> Data {
        Data::new(content, self.verify)
    }

    /// From now on it is not known what the device holds: it was trimmed, say.
    pub fn forget(&self) {
        self.known.borrow_mut().least.clear();
    }

    /// A generation for a write.
    pub(crate) fn generate(&self) -> u64 {
        let mut known = self.known.borrow_mut();
        known.generation += 1;
        known.generation
    }

    /// Fills the buffer of a write, unless that was done with this generation, and remembers what is to be remembered.
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
            _ => Begun::Plain,
        }
    }

    /// It was answered: without an error, or with one.
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

    /// Any write of a group may be the last one, so that the least of them is what a read finds at least.
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

/// A seed for data that has nothing to do with the choices of a load of the same seed.
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
        // Beyond what was written nothing is known, and after a trim nothing at all.
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
        // A read that began before the next write may find what was there before.
        let reading = data.begin(&step(READ, 0, 8), &one, None);
        write(&data, 0, &three);
        assert_eq!(data.end(reading, &one, true), Ok(()));
        assert!(read(&data, 0, &two).is_err());
        // Of a write that failed it is not known whether it is there.
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
