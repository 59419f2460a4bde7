//! A change of a volume, as the ledger has it and the journal tells it.

/// A change that is to be sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Change {
    /// Its number.
    pub number: u64,
    /// Its first sector.
    pub first: u64,
    /// Its sectors.
    pub count: u32,
    /// It is an FUA write: a write and a flush.
    pub fua: bool,
    /// When it was sent.
    pub(crate) sent: u64,
}
