//! Reason why bytes are not a trace.

use alloc::string::String;
use core::fmt;

/// Reason why bytes are not a trace: position, problem, and remedy.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Malformed(String);

impl Malformed {
    pub(crate) fn new(what: String) -> Malformed {
        Malformed(what)
    }
}

impl fmt::Display for Malformed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl core::error::Error for Malformed {}
