//! The orders in which requests may follow one another.

/// How the requests of a stream follow one another.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Order {
    /// Each begins where the one before ends.
    Forward,
    /// Each ends where the one before begins.
    Backward,
    /// Each begins so many sectors behind the beginning of the one before.
    Strided(i64),
}
