//! Pages of the compressed tier (`compressed/`), as a successor finds them.
//!
//! ```text
//!  header of the slot   mark | number 32 | first / 4: 11 | check 21 |     life 0: the slot is free
//!
//!  bytes of the slot
//!    | seal 8 | end of an object | head 8 | check 4 | data ... | pad | head 8 | ... | 0: no more |
//!                                ^ first
//!  head, first half          | block's upper bits 8 | check 9 | encoding 2 | bytes 13 |
//!        second half         | block's lower bits 32 |
//! ```
//!
//! A page's slot counts as free, so older programs take the arena over and use the slot: that
//! overwrites the mark. A successor takes a page only if its mark and its seal agree with the
//! number of the slot, and if the epochs show that the process before kept the marks true
//! ([`Arena::keeps_pages`]): older programs end that.
//!
//! An object is published by the store of its head's first half, after all its other bytes, after
//! the zero behind it, and after the marks of the pages in which it goes on. A change of its block
//! overwrites the upper bits of the block's number with one store. The mark is removed before the
//! slot is used for anything else.

use super::Arena;
use crate::epochs::PAGES;
use crate::geometry::Geometry;
use crate::planted::in_halves;
use lane::mix_bits;
use packing::Encoding;

/// Bytes of a page before its first object.
pub(crate) const SEAL_BYTES: usize = 8;
/// Bytes of an object's head.
pub(crate) const HEAD_BYTES: usize = 8;
/// Bytes of the check of its data.
pub(crate) const CHECK_BYTES: usize = 4;
/// Objects begin at multiples of this: the first half of a head is in one word of the memory.
pub(crate) const STEP_BYTES: usize = 4;

/// Another one than in pages whose objects began at multiples of 8: those are not taken over.
const SEAL: u64 = u64::from_le_bytes(*b"overpag4");
const FIRST_BITS: u32 = 11;
const CHECK_BITS: u32 = 21;

/// The upper bits of the number of no block: the object was removed.
const REMOVED: u32 = 0xff;
/// Blocks from here on are not stored: volumes of 16 PiB.
pub(crate) const BLOCKS_MAX: u64 = (REMOVED as u64) << 32;
const BLOCK_AT: u32 = 24;
const HEAD_CHECK_AT: u32 = 15;
const HEAD_CHECK: u32 = 0x1ff << HEAD_CHECK_AT;
const ENCODING_AT: u32 = 13;
const LENGTH: u32 = (1 << ENCODING_AT) - 1;

/// Returns the bytes that an object with this many bytes of data takes, with its head.
pub(crate) const fn object_bytes(data: usize) -> usize {
    (HEAD_BYTES + CHECK_BYTES + data).next_multiple_of(STEP_BYTES)
}

/// Returns the check of an object's data. `digest`: see [`digest_of`].
pub(crate) fn check_of(block: u64, encoding: Encoding, digest: u32) -> u32 {
    mix_bits(u64::from(digest) << 32 ^ mix_bits(block << 2 | encoding as u64)) as u32
}

/// Returns a digest of bytes, for [`check_of`].
pub(crate) fn digest_of(data: &[u8]) -> u32 {
    const FACTOR: u64 = 0x9e37_79b9_7f4a_7c15;
    let step = |sum: u64, word: u64| (sum ^ word).wrapping_mul(FACTOR).rotate_left(29);
    let (words, rest) = data.as_chunks();
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    let sum =
        words.iter().fold(data.len() as u64, |sum, word| step(sum, u64::from_le_bytes(*word)));
    (mix_bits(step(sum, u64::from_le_bytes(last))) >> 32) as u32
}

/// An object's head, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Head {
    /// None: it was removed.
    pub(crate) block: Option<u64>,
    pub(crate) encoding: Encoding,
    /// The length of its data in bytes; 0: a block of zeros.
    pub(crate) bytes: usize,
}

impl Head {
    /// Returns its halves. The second one of a removed object is not used.
    fn halves(&self, slot: u32, at: usize) -> (u32, u32) {
        let (upper, lower) = match self.block {
            Some(block) => ((block >> 32) as u32, block as u32),
            None => (REMOVED, 0),
        };
        let fields = upper << BLOCK_AT | (self.encoding as u32) << ENCODING_AT | self.bytes as u32;
        (fields | head_check(fields, lower, slot, at), lower)
    }

    fn decode(first: u32, second: u32, slot: u32, at: usize) -> Option<Head> {
        let fields = first & !HEAD_CHECK;
        let upper = first >> BLOCK_AT;
        let lower = if upper == REMOVED { 0 } else { second };
        let bytes = (first & LENGTH) as usize;
        if first != fields | head_check(fields, lower, slot, at) {
            return None;
        }
        let encoding = Encoding::from_number((first >> ENCODING_AT) as u8 & 3)?;
        if bytes == 0 && encoding != Encoding::Word {
            return None;
        }
        let block = (upper != REMOVED).then_some(u64::from(upper) << 32 | u64::from(lower));
        Some(Head { block, encoding, bytes })
    }
}

/// Returns the check of a head. It is not 0, so no head begins with a half of 0.
fn head_check(fields: u32, lower: u32, slot: u32, at: usize) -> u32 {
    let place = u64::from(slot) << 16 | at as u64;
    let mixed = mix_bits((u64::from(lower) << 32 | u64::from(fields)) ^ mix_bits(place));
    (1 + (mixed >> 32) as u32 % (HEAD_CHECK >> HEAD_CHECK_AT)) << HEAD_CHECK_AT
}

/// The mark of a page.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct PageMark {
    /// Pages are numbered in the order in which they are filled, modulo 2^32.
    pub(crate) number: u32,
    /// The offset of the first object that begins in it, in bytes.
    pub(crate) first: usize,
}

impl PageMark {
    fn word(self, slot: u32) -> u64 {
        let fields = u64::from(self.number) << FIRST_BITS | (self.first / STEP_BYTES) as u64;
        let check = mix_bits(fields ^ mix_bits(SEAL ^ u64::from(slot))) >> (64 - CHECK_BITS);
        fields << CHECK_BITS | check
    }

    fn decode(word: u64, slot: u32) -> Option<PageMark> {
        let first = (word >> CHECK_BITS & ((1 << FIRST_BITS) - 1)) as usize * STEP_BYTES;
        let number = (word >> (CHECK_BITS + FIRST_BITS)) as u32;
        let mark = PageMark { number, first };
        (mark.word(slot) == word).then_some(mark)
    }

    fn seal(self, slot: u32) -> u64 {
        mix_bits(SEAL ^ mix_bits(u64::from(self.number) << 32 | u64::from(slot)))
    }
}

impl Arena {
    /// Makes a slot a page of the tier in which no object begins yet. The slot is free for older
    /// programs.
    pub(crate) fn mark_page(&self, slot: u32, mark: PageMark) {
        self.store(self.sector_at(slot, 0), mark.seal(slot));
        if mark.first < self.slot_bytes() {
            self.end_objects(slot, mark.first);
        }
        self.store(self.header_at(slot), mark.word(slot));
    }

    /// Makes a page an ordinary free slot.
    pub(crate) fn unmark_page(&self, slot: u32) {
        self.store(self.header_at(slot), 0);
    }

    /// Makes a free slot an ordinary one, if it has the mark of a page.
    pub(crate) fn drop_page(&self, slot: u32) {
        if self.page_mark(slot).is_some() {
            self.unmark_page(slot);
        }
    }

    fn page_mark(&self, slot: u32) -> Option<PageMark> {
        let at = self.header_at(slot);
        let is_free = self.load_word(at + 8) == 0;
        if is_free { PageMark::decode(self.load_word(at), slot) } else { None }
    }

    /// Returns the mark of a slot that is a page.
    pub(crate) fn page(&self, slot: u32) -> Option<PageMark> {
        let mark = self.page_mark(slot)?;
        let is_inside = (SEAL_BYTES..=self.slot_bytes()).contains(&mark.first);
        (is_inside && self.load_word(self.sector_at(slot, 0)) == mark.seal(slot)).then_some(mark)
    }

    /// Returns the head of the object at this offset of a page. None: no object begins there.
    pub(crate) fn object_head(&self, slot: u32, at: usize) -> Option<Head> {
        if at + HEAD_BYTES > self.slot_bytes() {
            return None;
        }
        let mut second = [0; HEAD_BYTES - STEP_BYTES];
        self.read_bytes(slot, at + STEP_BYTES, &mut second);
        Head::decode(self.half_word(slot, at), u32::from_le_bytes(second), slot, at)
    }

    /// Publishes an object, or removes a published one.
    pub(crate) fn set_object_head(&self, slot: u32, at: usize, head: &Head) {
        let (first, second) = head.halves(slot, at);
        if head.block.is_some() {
            self.write_bytes(slot, at + STEP_BYTES, &second.to_le_bytes());
        }
        self.set_half_word(slot, at, first);
    }

    /// Notes that no object begins at this offset of a page.
    pub(crate) fn end_objects(&self, slot: u32, at: usize) {
        self.set_half_word(slot, at, 0);
    }

    fn half_word(&self, slot: u32, at: usize) -> u32 {
        let (word_at, shift) = self.half_word_at(slot, at);
        (u64::from_le(self.load_word(word_at)) >> shift) as u32
    }

    /// Stores half a word, and the other half as it is. The shard's lock excludes other writers.
    fn set_half_word(&self, slot: u32, at: usize, half: u32) {
        let (word_at, shift) = self.half_word_at(slot, at);
        let others = u64::from_le(self.load_word(word_at)) & !(u64::from(u32::MAX) << shift);
        self.store(word_at, (others | u64::from(half) << shift).to_le());
    }

    /// Returns the offset of the word that has this half, and the half's shift in it.
    fn half_word_at(&self, slot: u32, at: usize) -> (usize, u32) {
        let half_at = self.sector_at(slot, 0) + at;
        (half_at & !7, (half_at as u32 & 4) * 8)
    }

    /// Copies bytes to byte `at` of a page.
    pub(crate) fn write_object(&self, slot: u32, at: usize, data: &[u8]) {
        in_halves(data.len() as u32, |first, count| {
            let first = first as usize;
            self.write_bytes(slot, at + first, &data[first..first + count as usize]);
        });
    }

    /// Whether the process that has used the arena last has kept the marks of all live slots true:
    /// it removed the mark of each page that it released. Older programs know no marks.
    pub(crate) fn keeps_pages(&self) -> bool {
        self.epoch() & PAGES != 0
    }

    /// Removes the marks of all pages: their objects may be older than the backing.
    pub(crate) fn drop_pages(&self, geometry: &Geometry) {
        // After a kill in between, a successor must not trust the rest of them.
        if self.keeps_pages() {
            self.note_epoch(self.epoch() & !PAGES);
        }
        geometry.live_slots().for_each(|slot| self.drop_page(slot));
    }
}
