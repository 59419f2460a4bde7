//! The orders in which requests may follow one another.

/// The order of a stream's requests.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// Each begins where the one before ends.
    Forward,
    /// Each ends where the one before begins.
    Backward,
    /// Each begins this number of sectors after the beginning of the one before.
    Strided(i64),
}
