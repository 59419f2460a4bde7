//! What was written, in memory that is taken as it is needed.

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use block::{Buf, Extent, Memory, SECTOR, Stretch};

/// Sectors of a slot, the unit in which a drive loses data.
pub(crate) const SLOT_SECTORS: u64 = drives::SLOT_BYTES / SECTOR;

/// Sectors of a chunk, 2 MiB: taken as a whole, but pages of it that nobody touches cost nothing.
const CHUNK_SECTORS: u64 = 4096;

/// What a slot held.
pub(crate) enum Page {
    /// Nothing: it reads as zeros.
    Zeros,
    /// These bytes.
    Bytes(Box<[u8]>),
}

/// A sparse array of sectors.
pub(crate) struct Store {
    chunks: Vec<Option<Memory>>,
    sectors: u64,
    /// Pages that were given back.
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

/// An extent cut at the borders of chunks.
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
    /// `sectors` sectors of zeros.
    pub(crate) fn new(sectors: u64) -> Store {
        let chunks = sectors.div_ceil(CHUNK_SECTORS);
        Store { chunks: (0..chunks).map(|_| None).collect(), sectors, spare: Vec::new() }
    }

    /// Bytes of memory that are taken, at most: pages of it that were never written are not.
    pub(crate) fn bytes(&self) -> u64 {
        self.chunks.iter().flatten().map(|chunk| chunk.bytes() as u64).sum()
    }

    pub(crate) fn read(&self, at: Extent, into: &Buf) {
        for piece in pieces(at) {
            match &self.chunks[piece.chunk] {
                Some(chunk) => into.fill_part(piece.done, piece.sectors, chunk, piece.offset),
                None => into.zero_part(piece.done, piece.sectors),
            }
        }
    }

    pub(crate) fn write(&mut self, at: Extent, from: &Buf) {
        for piece in pieces(at) {
            let chunk = self.chunk(piece.chunk);
            from.copy_part_to(piece.done, piece.sectors, chunk, piece.offset);
        }
    }

    /// A chunk that is sure to be there.
    fn chunk(&mut self, index: usize) -> &Memory {
        self.chunks[index].get_or_insert_with(|| Memory::heap((CHUNK_SECTORS * SECTOR) as usize))
    }

    /// Zeros; whole chunks of them give their memory back.
    pub(crate) fn zero(&mut self, at: Extent) {
        for piece in pieces(at) {
            let whole = u64::from(piece.sectors) == CHUNK_SECTORS;
            let chunk = &mut self.chunks[piece.chunk];
            match chunk {
                Some(_) if whole => *chunk = None,
                Some(memory) => memory.zero(piece.offset, piece.sectors as usize * SECTOR as usize),
                None => {}
            }
        }
    }

    /// A copy of a slot.
    pub(crate) fn page(&mut self, slot: u64) -> Page {
        let (chunk, offset) = place_of(slot);
        let Some(memory) = &self.chunks[chunk] else { return Page::Zeros };
        let empty = || vec![0; drives::SLOT_BYTES as usize].into_boxed_slice();
        let mut bytes = self.spare.pop().unwrap_or_else(empty);
        memory.read(offset, &mut bytes);
        Page::Bytes(bytes)
    }

    /// Puts a slot back as it was.
    pub(crate) fn restore(&mut self, slot: u64, page: &Page) {
        let (chunk, offset) = place_of(slot);
        match page {
            Page::Bytes(bytes) => self.chunk(chunk).write(offset, bytes),
            Page::Zeros => {
                let at = Extent::new(slot * SLOT_SECTORS, SLOT_SECTORS as u32);
                self.zero(at);
            }
        }
    }

    /// The page is no longer needed.
    pub(crate) fn give_back(&mut self, page: Page) {
        if let Page::Bytes(bytes) = page {
            self.spare.push(bytes);
        }
    }

    /// What is known to be zeros, and what is not, in an extent; at most so many stretches.
    pub(crate) fn status(&self, at: Extent, most: usize) -> Vec<Stretch> {
        let mut list = Vec::new();
        for piece in pieces(at) {
            let hole = self.chunks[piece.chunk].is_none();
            let next = Stretch { sectors: u64::from(piece.sectors), hole, zero: hole };
            Stretch::push(&mut list, next);
            if list.len() >= most {
                break;
            }
        }
        list
    }

    /// The size in sectors.
    pub(crate) fn sectors(&self) -> u64 {
        self.sectors
    }
}

/// Where a slot lies: chunks are multiples of slots.
fn place_of(slot: u64) -> (usize, usize) {
    let first = slot * SLOT_SECTORS;
    ((first / CHUNK_SECTORS) as usize, (first % CHUNK_SECTORS * SECTOR) as usize)
}
