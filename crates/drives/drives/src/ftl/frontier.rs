//! Superblocks that are being filled, and those that are being emptied.

/// No superblock.
pub(super) const NONE: u32 = u32::MAX;

/// An open superblock.
#[derive(Clone, Copy)]
pub(super) struct Frontier {
    pub(super) superblock: u32,
    /// The next slot and the end, as positions in the superblock.
    pub(super) next: u32,
    pub(super) end: u32,
}

impl Frontier {
    pub(super) const CLOSED: Frontier = Frontier { superblock: NONE, next: 0, end: 0 };

    pub(super) fn left(&self) -> u32 {
        self.end - self.next
    }
}

/// A superblock being emptied.
#[derive(Clone, Copy)]
pub(super) struct Victim {
    pub(super) superblock: u32,
    /// The first position that was not examined yet.
    pub(super) next: u32,
    /// Number of valid slots when it was chosen.
    pub(super) valid: u32,
}
