//! A change of a volume, for the ledger and the journal.

/// A change to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Its number.
    pub number: u64,
    /// Its first sector.
    pub first: u64,
    /// Its sectors.
    pub count: u32,
    /// Whether it is an FUA write: a write and a flush.
    pub fua: bool,
    /// When it was sent.
    pub(crate) sent: u64,
}
