//! Formats of the metadata on members. All numbers are little-endian. Each structure begins with a
//! checksum (XXH64, seeded with the pool's identity) of the bytes after it.
//!
//! ```text
//! superblock  | checksum u64 | "odpool01" | pool u128 | version u16 | members u8 | number u8 |
//!             | journal u32 | pages u32 | logical u32 | sizes 16 x u32 |        written once
//! journal     | checksum u64 | "odjl" | life u32 | sequence u64 | tail u64 | previous u64 |
//! block       | pool u64 | count u32 | absent u32 | count records |
//! record      | slot u32 | place u32 | count u32 |        `count` slots are now from `place` on
//! map page    | checksum u64 | "odpg" | number u32 | sequence u64 | pool u64 | places u32 ... |
//! ```
//! `previous` is the checksum of the preceding journal block. So the remains of a batch that a
//! power cut has torn apart are never mistaken for the continuation of blocks that were written
//! later. `life` counts openings; `absent` has a bit for each member that does not get this block.

use crate::layout::{
    JOURNAL_HEADER, Layout, MEMBERS_MAX, PAGE_HEADER, RECORD_BYTES, SUPERBLOCK_BYTES,
};
use crate::planted::{Bug, planted};
use twox_hash::XxHash64;

const SUPERBLOCK: u64 = u64::from_le_bytes(*b"odpool01");
const JOURNAL: u32 = u32::from_le_bytes(*b"odjl");
const PAGE: u32 = u32::from_le_bytes(*b"odpg");
const VERSION: u16 = 1;

/// In the map: nothing is stored, reads return zeros.
pub(crate) const ABSENT: u32 = u32::MAX;
/// In the map: a member has lost the data, reads fail.
pub(crate) const LOST: u32 = u32::MAX - 1;
/// Value of `slot` in records of a member's wear: this plus the member's number.
pub(crate) const WEAR: u32 = 0xffff_ff00;

/// Consecutive slots and their new place; or a member's wear.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Record {
    pub(crate) slot: u32,
    pub(crate) place: u32,
    pub(crate) count: u32,
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

/// Writes fields one after the other.
struct Writer<'a> {
    bytes: &'a mut [u8],
    at: usize,
}

impl Writer<'_> {
    fn put<const N: usize>(&mut self, field: [u8; N]) -> &mut Self {
        self.bytes[self.at..self.at + N].copy_from_slice(&field);
        self.at += N;
        self
    }
}

fn writer(bytes: &mut [u8]) -> Writer<'_> {
    bytes.fill(0);
    Writer { bytes, at: 8 }
}

fn sum_of(bytes: &[u8], pool: u128) -> u64 {
    XxHash64::oneshot(pool as u64 ^ (pool >> 64) as u64, &bytes[8..])
}

/// Writes the checksum at the front. Returns it.
fn seal(bytes: &mut [u8], pool: u128) -> u64 {
    let sum = sum_of(bytes, pool);
    bytes[..8].copy_from_slice(&sum.to_le_bytes());
    sum
}

fn is_sealed(bytes: &[u8], pool: u128) -> bool {
    planted(Bug::BelieveDamaged) || u64_at(bytes, 0) == sum_of(bytes, pool)
}

/// The pool of a member, and the member's position in it.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) struct Superblock {
    pub(crate) pool: u128,
    pub(crate) number: usize,
    pub(crate) layout: Layout,
}

/// Contents of a device's first slot.
#[derive(PartialEq, Eq, Debug)]
pub(crate) enum First {
    Member(Superblock),
    /// A member, according to its first bytes, but damaged.
    Damaged,
    /// A member with another format version.
    Version(u16),
    /// Zeros.
    Blank,
    Foreign,
}

impl Superblock {
    pub(crate) fn encode(&self, bytes: &mut [u8]) {
        let layout = &self.layout;
        let mut out = writer(bytes);
        out.put(SUPERBLOCK.to_le_bytes()).put(self.pool.to_le_bytes()).put(VERSION.to_le_bytes());
        out.put([layout.members as u8, self.number as u8]);
        for field in [layout.journal, layout.pages, layout.logical] {
            out.put(field.to_le_bytes());
        }
        layout.sizes.iter().for_each(|size| _ = out.put(size.to_le_bytes()));
        debug_assert!(out.at <= SUPERBLOCK_BYTES as usize);
        seal(bytes, self.pool);
    }

    pub(crate) fn decode(bytes: &[u8], grain: u32) -> First {
        if bytes.iter().all(|byte| *byte == 0) {
            return First::Blank;
        }
        if bytes.len() < SUPERBLOCK_BYTES as usize || u64_at(bytes, 8) != SUPERBLOCK {
            return First::Foreign;
        }
        let pool = u128::from(u64_at(bytes, 24)) << 64 | u128::from(u64_at(bytes, 16));
        if !is_sealed(bytes, pool) {
            return First::Damaged;
        }
        let version = u16::from_le_bytes([bytes[32], bytes[33]]);
        if version != VERSION {
            return First::Version(version);
        }
        let (members, number) = (bytes[34] as usize, bytes[35] as usize);
        if members > MEMBERS_MAX || number >= members {
            return First::Damaged;
        }
        let mut sizes = [0; MEMBERS_MAX];
        sizes.iter_mut().enumerate().for_each(|(at, size)| *size = u32_at(bytes, 48 + 4 * at));
        // The layout is derived from the sizes and compared with the stored values.
        match Layout::for_sizes(&sizes[..members], grain) {
            Ok(layout)
                if [layout.journal, layout.pages, layout.logical]
                    == [36, 40, 44].map(|at| u32_at(bytes, at)) =>
            {
                First::Member(Superblock { pool, number, layout })
            }
            _ => First::Damaged,
        }
    }
}

/// The header of a journal block.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Head {
    /// The opening of the pool that wrote it.
    pub(crate) life: u32,
    pub(crate) sequence: u64,
    /// The oldest block that is still needed.
    pub(crate) tail: u64,
    /// The checksum of the preceding block.
    pub(crate) previous: u64,
    /// A bit for each member that does not get this block.
    pub(crate) absent: u32,
    pub(crate) count: u32,
    /// Its own checksum.
    pub(crate) sum: u64,
}

impl Head {
    /// Writes a block. Returns its checksum.
    pub(crate) fn encode(&self, pool: u128, records: &[Record], bytes: &mut [u8]) -> u64 {
        let mut out = writer(bytes);
        out.put(JOURNAL.to_le_bytes()).put(self.life.to_le_bytes());
        for field in [self.sequence, self.tail, self.previous, pool as u64] {
            out.put(field.to_le_bytes());
        }
        out.put((records.len() as u32).to_le_bytes()).put(self.absent.to_le_bytes());
        for record in records {
            out.put(record.slot.to_le_bytes()).put(record.place.to_le_bytes());
            out.put(record.count.to_le_bytes());
        }
        seal(bytes, pool)
    }

    /// Returns the header of the block at a position of the journal. None: it is not a block of
    /// this pool.
    pub(crate) fn decode(bytes: &[u8], pool: u128, position: u32, layout: &Layout) -> Option<Head> {
        let head = Head {
            sum: u64_at(bytes, 0),
            life: u32_at(bytes, 12),
            sequence: u64_at(bytes, 16),
            tail: u64_at(bytes, 24),
            previous: u64_at(bytes, 32),
            count: u32_at(bytes, 48),
            absent: u32_at(bytes, 52),
        };
        let sound = u32_at(bytes, 8) == JOURNAL
            && u64_at(bytes, 40) == pool as u64
            && is_sealed(bytes, pool)
            && head.sequence % u64::from(layout.journal) == u64::from(position)
            && head.count <= layout.records_a_block()
            && head.tail <= head.sequence
            && head.sequence - head.tail < u64::from(layout.journal);
        sound.then_some(head)
    }

    /// Whether a block may follow this one.
    pub(crate) fn is_followed_by(&self, next: &Head) -> bool {
        let follows = next.sequence == self.sequence + 1;
        follows
            && (planted(Bug::BelieveBroken)
                || next.previous == self.sum && next.life >= self.life && next.tail >= self.tail)
    }

    /// The records of a block.
    pub(crate) fn records(bytes: &[u8]) -> impl Iterator<Item = Record> + '_ {
        let count = u32_at(bytes, 48) as usize;
        let records = bytes[JOURNAL_HEADER as usize..].chunks_exact(RECORD_BYTES as usize);
        records.take(count).map(|bytes| Record {
            slot: u32_at(bytes, 0),
            place: u32_at(bytes, 4),
            count: u32_at(bytes, 8),
        })
    }
}

/// Writes a page of the map.
pub(crate) fn encode_page(
    pool: u128,
    number: u32,
    sequence: u64,
    places: &[u32],
    bytes: &mut [u8],
) {
    let mut out = writer(bytes);
    out.put(PAGE.to_le_bytes()).put(number.to_le_bytes()).put(sequence.to_le_bytes());
    out.put((pool as u64).to_le_bytes());
    places.iter().for_each(|place| _ = out.put(place.to_le_bytes()));
    seal(bytes, pool);
}

/// Returns the sequence of a page of the map. None: it is not that page.
pub(crate) fn page_sequence(bytes: &[u8], pool: u128, number: u32) -> Option<u64> {
    let sound = u32_at(bytes, 8) == PAGE
        && u32_at(bytes, 12) == number
        && u64_at(bytes, 24) == pool as u64
        && is_sealed(bytes, pool);
    sound.then(|| u64_at(bytes, 16))
}

/// The places of a page.
pub(crate) fn places(bytes: &[u8]) -> impl Iterator<Item = u32> + '_ {
    bytes[PAGE_HEADER as usize..].chunks_exact(4).map(|place| u32_at(place, 0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::vec;

    const POOL: u128 = 0x0123_4567_89ab_cdef_0011_2233_4455_6677;

    fn layout() -> Layout {
        Layout::for_sizes(&[300, 200], 16).expect("a small pool")
    }

    #[test]
    fn a_superblock_is_read_as_written_and_no_flipped_bit_is_missed() {
        let superblock = Superblock { pool: POOL, number: 1, layout: layout() };
        let mut bytes = vec![0; 128];
        superblock.encode(&mut bytes);
        assert_eq!(Superblock::decode(&bytes, 16), First::Member(superblock.clone()));
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert!(!matches!(Superblock::decode(&damaged, 16), First::Member(_)), "bit {bit}");
        }
        assert_eq!(Superblock::decode(&[0; 128], 16), First::Blank);
        assert_eq!(Superblock::decode(&[7; 128], 16), First::Foreign);
    }

    #[test]
    fn a_journal_block_is_read_as_written_and_no_flipped_bit_is_missed() {
        let layout = layout();
        let records = [Record { slot: 5, place: 7, count: 3 }; 4];
        let mut head =
            Head { life: 2, sequence: 35, tail: 30, previous: 9, absent: 1, ..Head::default() };
        let mut bytes = vec![0; 128];
        head.sum = head.encode(POOL, &records, &mut bytes);
        head.count = 4;
        let position = 35 % layout.journal;
        assert_eq!(Head::decode(&bytes, POOL, position, &layout), Some(head));
        assert!(Head::records(&bytes).eq(records));
        assert_eq!(Head::decode(&bytes, POOL + 1, position, &layout), None, "of another pool");
        assert_eq!(Head::decode(&bytes, POOL, position + 1, &layout), None, "in another place");
        for bit in 0..bytes.len() * 8 {
            let mut damaged = bytes.clone();
            damaged[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(Head::decode(&damaged, POOL, position, &layout), None, "bit {bit}");
        }
    }

    #[test]
    fn a_page_knows_its_number() {
        let mut bytes = vec![0; 128];
        encode_page(POOL, 3, 77, &[1, ABSENT, 2], &mut bytes);
        assert_eq!(page_sequence(&bytes, POOL, 3), Some(77));
        assert_eq!(page_sequence(&bytes, POOL, 4), None);
        assert!(places(&bytes).take(3).eq([1, ABSENT, 2]));
    }
}
