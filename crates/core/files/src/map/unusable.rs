//! Reasons why bytes are not usable as a map.

use core::fmt;

/// The reason why bytes are not usable as a map.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// They do not begin as a map does.
    NoMap,
    /// They are of a later version of the program.
    Newer(u32),
    /// They are damaged or truncated, or contradict themselves.
    Damaged,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::NoMap => f.write_str("is no map of files"),
            Unusable::Newer(version) => write!(f, "is of a later version ({version})"),
            Unusable::Damaged => f.write_str("is damaged"),
        }
    }
}

impl core::error::Error for Unusable {}
