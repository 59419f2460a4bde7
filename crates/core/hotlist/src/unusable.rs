//! Reasons why a list cannot be used.

use core::fmt;

/// The reason why bytes are not usable as a list.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Unusable {
    /// They do not begin as a list does.
    NoList,
    /// They do not begin as a start-up list does.
    NoStartList,
    /// They do not begin as the state of a policy does.
    NoPolicy,
    /// They do not begin as the classes of blocks do.
    NoClasses,
    /// They are a list of a later version of the program.
    Newer(u32),
    /// They are damaged or truncated.
    Damaged,
    /// They are longer than any list.
    TooLarge,
}

impl fmt::Display for Unusable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Unusable::NoList => f.write_str("is no list of hot blocks"),
            Unusable::NoStartList => f.write_str("is no start-up list"),
            Unusable::NoPolicy => f.write_str("is no state of a policy"),
            Unusable::NoClasses => f.write_str("is no list of the classes of blocks"),
            Unusable::Newer(version) => write!(f, "is of a later version ({version})"),
            Unusable::Damaged => f.write_str("is damaged"),
            Unusable::TooLarge => f.write_str("is larger than any list"),
        }
    }
}

impl core::error::Error for Unusable {}
