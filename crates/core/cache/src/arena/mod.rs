//! The arena: slots of one block each, with a header of two words per slot.
//!
//! It is in shared memory, so that it outlives the process; it contains no pointer, lock or index.
//!
//! ```text
//! offset 0      superblock   16 words (superblock/mod.rs): identity, and the volume's condition
//! offset 128    extents      4 words each: first position, blocks | unmap, epoch, life (as below)
//! 4 KiB border  headers      2 words per slot, for the maximum number of slots:
//!                              place  | block 40 | mask 8 | epoch 16 |
//!                              life   | sequence 44 | state 4 | check 16 |
//! 4 KiB border  slots        8 sectors of `grain` bytes each, for the maximum number of slots
//! ```
//!
//! Every shard has an equal part of the extents, of the headers and of the slots. An extent's
//! positions are those of its shard (`spread.rs`); in versions before 4 they are blocks. The first
//! headers and slots of each part are live; the others are spare, and need no memory
//! (`Arena::used`).
//!
//! ```text
//! headers   | shard 0: live ... spare ... | shard 1: live ... spare ... |
//! ```
//!
//! `mask` has a bit for each valid sector. `check` is a CRC-16 over both words and the slot's
//! number. A slot is published by the store of `life`, after its bytes and its `place` word are
//! stored. The bytes and the `place` word of a published slot never change, only its state. One
//! exception: a held copy gets an epoch when recovery makes it dirty (`Arena::verified`). In a
//! clean slot's header the low bits of `sequence` show whether the policy holds it (0), or how it
//! was fetched ahead ([`Clean`]); the bits above hold the time of that, or the stamp of a
//! write-through (superblock/flush_note.rs). The highest bit marks a clean slot that is still read
//! while a write-through of its block is in flight: no successor keeps it. A clean slot that is
//! shadowed has the copy of a change that was sent and is not answered. If two slots hold the same
//! block, the later epoch wins, then the higher sequence (both compare modulo their width: values
//! that are dirty at the same time are near each other).

#[cfg(test)]
mod tests;

pub(crate) mod layout;
pub(crate) mod pages;
pub(crate) mod superblock;

use crate::geometry::Geometry;
use crate::planted::{in_halves, stored};
use alloc::sync::Arc;
use alloc::vec::Vec;
use block::{Buf, Memory};
use core::ops::Range;
use lane::atomic::Ordering;
use layout::{EXTENT_BYTES, HEADER_BYTES, Layout};

const PREFETCH_BYTES: usize = 256;

/// The CRC-16 of the polynomial 0x1021 (CCITT; distance 4 over this length, so it detects any three
/// flipped bits), eight bytes per step. Source: M. Kounavis, F. Berry, "A Systematic Approach to
/// Building High Performance Software-Based CRC Generators", ISCC 2005 (slicing).
pub(crate) mod crc {
    const fn tables() -> [[u16; 256]; 8] {
        let mut tables = [[0u16; 256]; 8];
        let mut byte = 0;
        while byte < 256 {
            let mut value = (byte as u16) << 8;
            let mut bit = 0;
            while bit < 8 {
                value = if value & 0x8000 != 0 { value << 1 ^ 0x1021 } else { value << 1 };
                bit += 1;
            }
            tables[0][byte] = value;
            byte += 1;
        }
        let mut slice = 1;
        while slice < 8 {
            let mut byte = 0;
            while byte < 256 {
                let last = tables[slice - 1][byte];
                tables[slice][byte] = last << 8 ^ tables[0][(last >> 8) as usize];
                byte += 1;
            }
            slice += 1;
        }
        tables
    }

    static TABLES: [[u16; 256]; 8] = tables();

    #[inline]
    pub(crate) fn step(crc: u16, word: u64) -> u16 {
        let bytes = (word ^ u64::from(crc) << 48).to_be_bytes();
        let mut next = 0;
        for (index, byte) in bytes.into_iter().enumerate() {
            next ^= TABLES[7 - index][byte as usize];
        }
        next
    }
}

/// The state of a slot.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum State {
    /// The slot is empty.
    Free,
    /// The same data as on the backing.
    Clean,
    /// Waits for writeback.
    Dirty,
    /// In flight to the backing: pinned.
    Writing,
    /// Written to the backing, which has not been flushed since.
    Written,
}

impl State {
    /// Decodes the state of a published header; a free one is not published.
    fn from_bits(bits: u64) -> Option<State> {
        Some(match bits {
            1 => State::Clean,
            2 => State::Dirty,
            3 => State::Writing,
            4 => State::Written,
            _ => return None,
        })
    }

    /// Whether it is neither free nor clean: its data must not be lost.
    #[inline]
    pub fn is_dirty(self) -> bool {
        matches!(self, State::Dirty | State::Writing | State::Written)
    }
}

const SHADOWED: u64 = 8;
/// The bit of a clean slot's sequence that marks it as lying under a write-through: above the time
/// or stamp in it.
const UNDER_WRITE_THROUGH: u64 = 1 << 43;
/// The bits of a header's first word that hold the epoch.
const EPOCH: u64 = 0xffff;

/// How a clean slot is held. Stored in the lowest bits of `sequence`, which clean slots do not use
/// otherwise. The bits above hold the time when an unread block was fetched; in the other slots
/// they hold the stamp of a write-through, or 0.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Clean {
    /// By the policy.
    Kept = 0,
    /// Fetched ahead of a stream, and not read yet.
    Unread = 1,
    /// Fetched ahead of a stream that is too long to be cached, and not read yet.
    UnreadBypassed = 2,
    /// Read or written by such a stream, or only held until it is durable: evicted first.
    Bypassed = 3,
}

/// A slot's header, decoded.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Header {
    /// The block in the slot.
    pub block: u64,
    /// A bit for each sector that is valid.
    pub mask: u8,
    /// The epoch in which it was written, modulo 2^16.
    pub epoch: u16,
    /// Its admission number, modulo 2^44; for a clean slot, how it is held.
    pub sequence: u64,
    /// Its current state.
    pub state: State,
    /// True if a newer version of the block exists, in another slot or as a range of zeros. For a
    /// clean slot: true if it has the copy of a change that is not answered yet.
    pub shadowed: bool,
}

impl Header {
    const FREE: Header =
        Header { block: 0, mask: 0, epoch: 0, sequence: 0, state: State::Free, shadowed: false };

    /// Makes the header of a clean slot, filled at this time of its shard's readahead clock.
    pub(crate) fn of_clean(block: u64, mask: u8, clean: Clean, filled_at: u64) -> Header {
        let sequence = if clean == Clean::Kept { 0 } else { filled_at << 2 | clean as u64 };
        Header { block, mask, epoch: 0, sequence, state: State::Clean, shadowed: false }
    }

    /// Returns the header of the same clean slot, held in another way.
    pub(crate) fn becomes(&self, clean: Clean) -> Header {
        let filled_at = if clean == Clean::Bypassed { 0 } else { self.filled_at() };
        Header { epoch: self.epoch, ..Header::of_clean(self.block, self.mask, clean, filled_at) }
    }

    /// Makes the header of a clean slot of the policy ([`Clean::Kept`]) or one that is evicted
    /// first ([`Clean::Bypassed`]), with the stamp of a write-through, or 0.
    pub(crate) fn of_copy(block: u64, mask: u8, clean: Clean, stamp: u32) -> Header {
        let sequence = u64::from(stamp) << 2 | clean as u64;
        Header { sequence, ..Header::of_clean(block, mask, Clean::Kept, 0) }
    }

    /// Returns the stamp of a write-through, or 0.
    #[inline]
    pub(crate) fn stamp(&self) -> u32 {
        let has_stamp = self.state == State::Clean && matches!(self.sequence & 3, 0 | 3);
        if has_stamp { (self.sequence >> 2) as u32 } else { 0 }
    }

    /// Whether this is the copy of a change that was sent to the backing and is not answered: no
    /// read may see it yet, but a successor must write it.
    #[inline]
    pub(crate) fn is_unanswered(&self) -> bool {
        self.state == State::Clean && self.shadowed
    }

    /// Returns how a clean slot is held.
    pub(crate) fn clean(&self) -> Clean {
        match self.sequence & 3 {
            0 => Clean::Kept,
            1 => Clean::Unread,
            2 => Clean::UnreadBypassed,
            _ => Clean::Bypassed,
        }
    }

    /// Returns the header of the same clean slot while a write-through of its sectors is in flight.
    /// Reads still use the slot, but it may be older than the backing: a successor drops it.
    pub(crate) fn under_write_through(&self) -> Header {
        Header { sequence: self.sequence | UNDER_WRITE_THROUGH, ..*self }
    }

    /// Whether a clean slot has sectors for which a write-through may be in flight.
    pub(crate) fn is_under_write_through(&self) -> bool {
        self.state == State::Clean && self.sequence & UNDER_WRITE_THROUGH != 0
    }

    /// Whether it is a clean slot that the policy does not hold.
    #[inline]
    pub(crate) fn is_ahead(&self) -> bool {
        self.state == State::Clean && self.sequence & 3 != 0
    }

    /// Returns the time when a clean slot that the policy does not hold was filled, modulo 2^42.
    pub(crate) fn filled_at(&self) -> u64 {
        self.sequence >> 2
    }

    #[inline]
    fn words(&self, number: u32) -> (u64, u64) {
        let place = self.block << 24 | u64::from(self.mask) << 16 | u64::from(self.epoch);
        let state = self.state as u64 | if self.shadowed { SHADOWED } else { 0 };
        let life = (self.sequence & ((1 << 44) - 1)) << 20 | state << 16;
        (place, life | u64::from(check(place, life, number)))
    }

    #[inline]
    fn unchecked(place: u64, life: u64) -> Header {
        Header {
            block: place >> 24,
            mask: (place >> 16) as u8,
            epoch: place as u16,
            sequence: life >> 20,
            state: State::from_bits(life >> 16 & 7).unwrap_or(State::Free),
            shadowed: life >> 16 & SHADOWED != 0,
        }
    }
}

#[inline]
fn check(place: u64, life: u64, number: u32) -> u16 {
    crc::step(crc::step(0xffff ^ number as u16 ^ (number >> 16) as u16, place), life & !0xffff)
}

/// Returns the header in these words, if its checksum is correct.
fn sound(place: u64, life: u64, number: u32) -> Option<Header> {
    let is_sound =
        check(place, life, number) == life as u16 && State::from_bits(life >> 16 & 7).is_some();
    is_sound.then(|| Header::unchecked(place, life))
}

fn check_extent(words: &[u64; 4], number: u32) -> u16 {
    let start = 0xffff ^ number as u16 ^ (number >> 16) as u16;
    let crc = words[..3].iter().fold(start, |crc, word| crc::step(crc, *word));
    crc::step(crc, words[3] & !0xffff)
}

/// A pending range of zeros, as stored in the arena.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct ExtentHeader {
    /// Its first position in the shard.
    pub(crate) first: u64,
    pub(crate) blocks: u32,
    pub(crate) may_unmap: bool,
    pub(crate) epoch: u64,
    pub(crate) sequence: u64,
}

/// The shared memory of one volume.
#[derive(Clone, Debug)]
pub struct Arena {
    memory: Arc<Memory>,
    grain: u32,
    layout: Layout,
}

impl Arena {
    /// Returns the size of an arena of this geometry, in bytes, including spare slots.
    pub fn bytes(geometry: &Geometry, grain: u32) -> usize {
        Layout::of(geometry, grain).bytes
    }

    /// Returns the parts of its memory that are in use, ascending and disjoint: all except spare
    /// slots. The rest need not exist, and is not accessed.
    pub fn used(geometry: &Geometry, grain: u32) -> Vec<Range<usize>> {
        Layout::of(geometry, grain).used(geometry)
    }

    /// Lays an arena of this geometry over a memory.
    ///
    /// # Panics
    /// If the memory is smaller than [`Arena::bytes`].
    pub fn from_memory(memory: Arc<Memory>, geometry: &Geometry, grain: u32) -> Arena {
        let layout = Layout::of(geometry, grain);
        assert!(memory.bytes() >= layout.bytes, "the arena's memory is too small");
        Arena { memory, grain, layout }
    }

    /// Stores a word. Every store goes through here, so that the laboratory can kill between two
    /// stores.
    #[inline]
    pub(crate) fn store(&self, offset: usize, word: u64) {
        self.memory.word(offset).store(word, Ordering::Release);
        stored();
    }

    /// Updates a word that several lanes change.
    pub(crate) fn update(&self, offset: usize, change: impl Fn(u64) -> u64) {
        let word = self.memory.word(offset);
        let changed =
            word.fetch_update(Ordering::SeqCst, Ordering::SeqCst, |word| Some(change(word)));
        debug_assert!(changed.is_ok(), "the change is never refused");
        stored();
    }

    /// Returns the byte offset of a slot's header (two words).
    pub fn header_at(&self, slot: u32) -> usize {
        self.layout.headers_at + slot as usize * HEADER_BYTES
    }

    /// Returns the header of a slot, unverified.
    #[inline]
    pub fn header(&self, slot: u32) -> Header {
        let at = self.header_at(slot);
        let life = self.memory.word(at + 8).load(Ordering::Acquire);
        Header::unchecked(self.memory.word(at).load(Ordering::Relaxed), life)
    }

    /// Returns the block of a slot's header, without the rest.
    #[inline]
    pub(crate) fn block(&self, slot: u32) -> u64 {
        self.memory.word(self.header_at(slot)).load(Ordering::Relaxed) >> 24
    }

    /// Returns the verified header of a slot; None if its checksum is wrong.
    ///
    /// A recovery gives an epoch to the held copies that become dirty. If it was killed between the
    /// two stores, the header has the new epoch and the old state: that is still the copy.
    pub(crate) fn verified(&self, slot: u32) -> Option<Header> {
        let at = self.header_at(slot);
        let place = self.memory.word(at).load(Ordering::Relaxed);
        let life = self.memory.word(at + 8).load(Ordering::Acquire);
        if life == 0 {
            return Some(Header::FREE);
        }
        let is_copy = |header: &Header| header.stamp() != 0 || header.is_unanswered();
        sound(place, life, slot).or_else(|| sound(place & !EPOCH, life, slot).filter(is_copy))
    }

    /// Publishes a filled slot, or changes the state of a published one: the store of one word.
    #[inline]
    pub(crate) fn publish(&self, slot: u32, header: &Header) {
        let at = self.header_at(slot);
        let (place, life) = header.words(slot);
        // Until the second store the slot is free (life is 0), or its place does not change, or it
        // is a held copy that becomes dirty.
        self.store(at, place);
        self.store(at + 8, life);
    }

    /// Frees a slot: it holds nothing afterwards.
    #[inline]
    pub(crate) fn free(&self, slot: u32) {
        self.store(self.header_at(slot) + 8, 0);
    }

    /// Returns the byte offset of a sector of a slot.
    #[inline]
    pub(crate) fn sector_at(&self, slot: u32, sector: u32) -> usize {
        self.layout.slots_at
            + slot as usize * self.layout.slot_bytes
            + sector as usize * self.grain as usize
    }

    /// Returns the memory, for pieces of requests.
    pub(crate) fn memory(&self) -> &Arc<Memory> {
        &self.memory
    }

    /// Returns the number of bytes per sector.
    pub(crate) fn grain(&self) -> u32 {
        self.grain
    }

    /// Copies `sectors` sectors into a slot that is not published: from offset `skip` of the buffer
    /// to `sector` in the slot.
    #[inline]
    pub(crate) fn put(&self, slot: u32, sector: u32, from: &Buf, skip: u32, sectors: u32) {
        in_halves(sectors, |first, count| {
            let to = self.sector_at(slot, sector + first);
            from.copy_part_to(skip + first, count, &self.memory, to);
        });
    }

    /// Same as [`Arena::put`], for bytes that are not expected to be read soon.
    #[inline]
    pub(crate) fn put_cold(&self, slot: u32, sector: u32, from: &Buf, skip: u32, sectors: u32) {
        in_halves(sectors, |first, count| {
            let to = self.sector_at(slot, sector + first);
            from.copy_part_past_caches(skip + first, count, &self.memory, to);
        });
    }

    /// The number of bytes of a slot.
    #[inline]
    pub(crate) fn slot_bytes(&self) -> usize {
        self.layout.slot_bytes
    }

    /// Copies bytes from byte `at` of a slot on.
    #[inline]
    pub(crate) fn read_bytes(&self, slot: u32, at: usize, into: &mut [u8]) {
        debug_assert!(at + into.len() <= self.layout.slot_bytes);
        self.memory.read(self.sector_at(slot, 0) + at, into);
    }

    /// Copies bytes to byte `at` of a slot that is not published.
    #[inline]
    pub(crate) fn write_bytes(&self, slot: u32, at: usize, from: &[u8]) {
        debug_assert!(at + from.len() <= self.layout.slot_bytes);
        self.memory.write(self.sector_at(slot, 0) + at, from);
    }

    /// Copies sectors from a slot to a buffer.
    #[inline]
    pub(crate) fn get(&self, slot: u32, sector: u32, into: &Buf, skip: u32, sectors: u32) {
        into.fill_part(skip, sectors, &self.memory, self.sector_at(slot, sector));
    }

    /// Zeros sectors of a slot that is not published.
    pub(crate) fn zero(&self, slot: u32, sector: u32, sectors: u32) {
        in_halves(sectors, |first, count| {
            let bytes = count as usize * self.grain as usize;
            self.memory.zero(self.sector_at(slot, sector + first), bytes);
        });
    }

    /// Copies sectors from one slot to another that is not published.
    pub(crate) fn copy_sectors(&self, from: u32, to: u32, sector: u32, sectors: u32) {
        in_halves(sectors, |first, count| {
            let bytes = count as usize * self.grain as usize;
            let [from, to] = [from, to].map(|slot| self.sector_at(slot, sector + first));
            self.memory.copy(from, &self.memory, to, bytes);
        });
    }

    /// Prefetches a slot's header and its first bytes; the processor's own prefetcher detects the
    /// rest of a copy.
    #[inline]
    pub(crate) fn prefetch(&self, slot: u32) {
        self.memory.prefetch(self.header_at(slot), HEADER_BYTES);
        self.memory.prefetch(self.sector_at(slot, 0), self.layout.slot_bytes.min(PREFETCH_BYTES));
    }

    /// Prefetches a slot's header.
    #[inline]
    pub(crate) fn prefetch_header(&self, slot: u32) {
        self.memory.prefetch(self.header_at(slot), HEADER_BYTES);
    }

    fn extent_words(&self, number: u32) -> [usize; 4] {
        let at = self.layout.extents_at + number as usize * EXTENT_BYTES;
        [at, at + 8, at + 16, at + 24]
    }

    /// Publishes a pending zeroed range under a number that is free.
    pub(crate) fn publish_extent(&self, number: u32, extent: &ExtentHeader) {
        let at = self.extent_words(number);
        let size = u64::from(extent.blocks) | u64::from(extent.may_unmap) << 32;
        let life = (extent.sequence & ((1 << 44) - 1)) << 20 | (State::Dirty as u64) << 16;
        let words = [extent.first, size, extent.epoch, life];
        for (offset, word) in at.into_iter().zip(words).take(3) {
            self.store(offset, word);
        }
        let life = life | u64::from(check_extent(&words, number));
        self.store(at[3], life);
    }

    /// Withdraws a pending range of zeros.
    pub(crate) fn free_extent(&self, number: u32) {
        self.store(self.extent_words(number)[3], 0);
    }

    /// Returns a pending range of zeros; `Err` if its checksum is wrong or it exceeds every
    /// possible volume, `Ok(None)` if there is none.
    pub(crate) fn extent(&self, number: u32) -> Result<Option<ExtentHeader>, ()> {
        let at = self.extent_words(number);
        let [first, size, epoch, life] =
            at.map(|offset| self.memory.word(offset).load(Ordering::Acquire));
        if life == 0 {
            return Ok(None);
        }
        let is_sound = check_extent(&[first, size, epoch, life], number) == life as u16
            && first.saturating_add(u64::from(size as u32)) <= superblock::BLOCKS_MAX;
        if !is_sound {
            return Err(());
        }
        Ok(Some(ExtentHeader {
            first,
            blocks: size as u32,
            may_unmap: size >> 32 & 1 == 1,
            epoch,
            sequence: life >> 20,
        }))
    }
}
