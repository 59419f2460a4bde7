//! The data of a drive, in memory that is allocated on demand.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use block::{Buf, Extent, Memory, SECTOR, Stretch};
use core::ops::Range;

/// Sectors of a slot, the unit in which a drive loses data.
pub(crate) const SLOT_SECTORS: u64 = drives::SLOT_BYTES / SECTOR;

/// Sectors of a chunk, 2 MiB: allocated as a whole, but untouched pages of it use no memory.
const CHUNK_SECTORS: u64 = 4096;
/// Slots of a chunk.
const SLOTS: usize = (CHUNK_SECTORS / SLOT_SECTORS) as usize;

/// The contents of a slot.
pub(crate) enum Page {
    /// No data: it reads as zeros.
    Zeros,
    /// These bytes.
    Bytes(Box<[u8]>),
}

/// Memory of a chunk, and a bit for each of its slots that was written.
struct Chunk {
    memory: Memory,
    written: [u64; SLOTS / 64],
}

impl Chunk {
    fn new() -> Box<Chunk> {
        let memory = Memory::heap((CHUNK_SECTORS * SECTOR) as usize);
        Box::new(Chunk { memory, written: [0; SLOTS / 64] })
    }

    fn mark(&mut self, slot: usize, written: bool) {
        let bit = 1 << (slot % 64);
        let word = &mut self.written[slot / 64];
        *word = if written { *word | bit } else { *word & !bit };
    }

    fn is_written(&self, slot: usize) -> bool {
        self.written[slot / 64] & (1 << (slot % 64)) != 0
    }

    fn slots(&self) -> u64 {
        self.written.iter().map(|word| u64::from(word.count_ones())).sum()
    }
}

/// A sparse array of sectors.
pub(crate) struct Store {
    chunks: Vec<Option<Box<Chunk>>>,
    sectors: u64,
    /// Pages for reuse.
    spare: Vec<Box<[u8]>>,
}

/// A stretch of sectors inside one chunk.
struct Piece {
    chunk: usize,
    /// Bytes from the chunk's start.
    offset: usize,
    /// Sectors from the extent's start.
    done: u32,
    sectors: u32,
}

impl Piece {
    /// Returns the slots that it touches, counted from the chunk's start.
    fn touched(&self) -> Range<usize> {
        let slot = drives::SLOT_BYTES as usize;
        self.offset / slot..(self.offset + self.bytes()).div_ceil(slot)
    }

    /// Returns the slots that it covers.
    fn covered(&self) -> Range<usize> {
        let slot = drives::SLOT_BYTES as usize;
        self.offset.div_ceil(slot)..(self.offset + self.bytes()) / slot
    }

    fn bytes(&self) -> usize {
        self.sectors as usize * SECTOR as usize
    }
}

/// Splits an extent at the borders of chunks.
fn pieces(at: Extent) -> impl Iterator<Item = Piece> {
    let mut next = at.first;
    core::iter::from_fn(move || {
        (next < at.end()).then(|| {
            let inside = next % CHUNK_SECTORS;
            let sectors = (CHUNK_SECTORS - inside).min(at.end() - next);
            let piece = Piece {
                chunk: (next / CHUNK_SECTORS) as usize,
                offset: (inside * SECTOR) as usize,
                done: (next - at.first) as u32,
                sectors: sectors as u32,
            };
            next += sectors;
            piece
        })
    })
}

impl Store {
    /// Returns `sectors` sectors of zeros.
    pub(crate) fn new(sectors: u64) -> Store {
        let chunks = sectors.div_ceil(CHUNK_SECTORS);
        Store { chunks: (0..chunks).map(|_| None).collect(), sectors, spare: Vec::new() }
    }

    /// Returns the bytes of slots with data.
    pub(crate) fn bytes(&self) -> u64 {
        let slots: u64 = self.chunks.iter().flatten().map(|chunk| chunk.slots()).sum();
        slots * drives::SLOT_BYTES
    }

    pub(crate) fn read(&self, at: Extent, into: &Buf) {
        for piece in pieces(at) {
            match &self.chunks[piece.chunk] {
                Some(chunk) => {
                    into.fill_part(piece.done, piece.sectors, &chunk.memory, piece.offset);
                }
                None => into.zero_part(piece.done, piece.sectors),
            }
        }
    }

    pub(crate) fn write(&mut self, at: Extent, from: &Buf) {
        for piece in pieces(at) {
            let chunk = self.chunks[piece.chunk].get_or_insert_with(Chunk::new);
            from.copy_part_to(piece.done, piece.sectors, &chunk.memory, piece.offset);
            piece.touched().for_each(|slot| chunk.mark(slot, true));
        }
    }

    /// Writes zeros; frees the memory of chunks without other data.
    pub(crate) fn zero(&mut self, at: Extent) {
        for piece in pieces(at) {
            let place = &mut self.chunks[piece.chunk];
            let Some(chunk) = place else { continue };
            piece.covered().for_each(|slot| chunk.mark(slot, false));
            if chunk.slots() == 0 {
                *place = None;
            } else {
                chunk.memory.zero(piece.offset, piece.bytes());
            }
        }
    }

    /// Returns a copy of a slot.
    pub(crate) fn page(&mut self, slot: u64) -> Page {
        let (chunk, offset) = place_of(slot);
        let Some(chunk) = &self.chunks[chunk] else { return Page::Zeros };
        let empty = || vec![0; drives::SLOT_BYTES as usize].into_boxed_slice();
        let mut bytes = self.spare.pop().unwrap_or_else(empty);
        chunk.memory.read(offset, &mut bytes);
        Page::Bytes(bytes)
    }

    /// Restores an earlier version of a slot.
    pub(crate) fn restore(&mut self, slot: u64, page: &Page) {
        match page {
            Page::Bytes(bytes) => {
                let (chunk, offset) = place_of(slot);
                let chunk = self.chunks[chunk].get_or_insert_with(Chunk::new);
                chunk.memory.write(offset, bytes);
                chunk.mark(slot as usize % SLOTS, true);
            }
            Page::Zeros => {
                let at = Extent::new(slot * SLOT_SECTORS, SLOT_SECTORS as u32);
                self.zero(at);
            }
        }
    }

    /// Takes back a page for reuse.
    pub(crate) fn give_back(&mut self, page: Page) {
        if let Page::Bytes(bytes) = page {
            self.spare.push(bytes);
        }
    }

    /// Returns which parts of an extent are known to be zeros; ends early at `most` stretches.
    pub(crate) fn status(&self, at: Extent, most: usize) -> Vec<Stretch> {
        let mut list = Vec::new();
        for piece in pieces(at) {
            let Some(chunk) = &self.chunks[piece.chunk] else {
                let sectors = u64::from(piece.sectors);
                Stretch::push(&mut list, Stretch { sectors, hole: true, zero: true });
                continue;
            };
            let first = piece.offset as u64 / SECTOR;
            let end = first + u64::from(piece.sectors);
            for slot in piece.touched() {
                let start = first.max(slot as u64 * SLOT_SECTORS);
                let sectors = end.min((slot as u64 + 1) * SLOT_SECTORS) - start;
                let hole = !chunk.is_written(slot);
                Stretch::push(&mut list, Stretch { sectors, hole, zero: hole });
            }
            if list.len() >= most {
                break;
            }
        }
        list
    }

    /// Returns the size in sectors.
    pub(crate) fn sectors(&self) -> u64 {
        self.sectors
    }
}

/// Returns the position of a slot: its chunk, and the bytes from the chunk's start. Chunks are
/// multiples of slots.
fn place_of(slot: u64) -> (usize, usize) {
    let first = slot * SLOT_SECTORS;
    ((first / CHUNK_SECTORS) as usize, (first % CHUNK_SECTORS * SECTOR) as usize)
}
