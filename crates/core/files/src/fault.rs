//! Reasons why a reader cannot go on.

use crate::map::Full;

/// The reason why a reader has left an object, or the whole volume.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Fault {
    /// These bytes are not of the expected form; other objects may be.
    Damaged,
    /// The source could not read these bytes.
    Unreadable,
    /// A bound is reached: reading ends.
    Exhausted,
}

impl From<Full> for Fault {
    fn from(_: Full) -> Fault {
        Fault::Exhausted
    }
}

/// Result of a step of a reader.
pub(crate) type Step<T = ()> = Result<T, Fault>;
