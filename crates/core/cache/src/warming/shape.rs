//! Pieces: listed blocks that are fetched with one request.

use block::Extent;

/// Maximum number of blocks that a piece spans: 256 KiB.
pub(super) const PIECE_BLOCKS: u64 = u64::BITS as u64;

/// The list that names a block.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Source {
    /// The list of hot blocks.
    Ranking,
    /// The start-up list.
    StartUp,
}

/// The blocks of a piece that a list names.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    pub(crate) source: Source,
    first: u64,
    last: u64,
    bits: u64,
}

/// A piece: its sectors, and its listed blocks.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Piece {
    pub(crate) at: Extent,
    pub(crate) listed: Listed,
}

impl Listed {
    /// Makes a piece of one block.
    pub(super) fn new(block: u64, source: Source) -> Listed {
        Listed { source, first: block, last: block, bits: 1 }
    }

    /// Adds a later block, which [`Shape::extends`] allows.
    pub(super) fn insert(&mut self, block: u64) {
        (self.last, self.bits) = (block, self.bits | 1 << (block - self.first));
    }

    /// Whether the list names a block.
    pub(crate) fn has(&self, block: u64) -> bool {
        let at = block.wrapping_sub(self.first);
        at < PIECE_BLOCKS && self.bits >> at & 1 != 0
    }

    /// Returns the piece with these blocks.
    pub(super) fn piece(self) -> Piece {
        let sectors = u64::from(crate::BLOCK_SECTORS);
        let count = (self.last - self.first + 1) * sectors;
        Piece { at: Extent::new(self.first * sectors, count as u32), listed: self }
    }
}

/// The limits of a piece.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shape {
    /// Maximum number of blocks that it spans.
    pub(super) piece_blocks: u64,
    /// It lies in one region of this number of blocks.
    pub(super) region_blocks: u64,
    /// The number of the volume's whole blocks.
    pub(super) volume_blocks: u64,
}

impl Shape {
    /// Whether a block lies within the volume.
    pub(super) fn has(&self, block: u64) -> bool {
        block < self.volume_blocks
    }

    /// Whether a piece may have this block, too, with at most `gap` others before it.
    pub(super) fn extends(&self, listed: &Listed, block: u64, gap: u64) -> bool {
        block > listed.last
            && block - listed.last - 1 <= gap
            && block - listed.first < self.piece_blocks
            && block / self.region_blocks == listed.first / self.region_blocks
            && self.has(block)
    }
}
