//! Kinds of requests.

use load::{Load, Order};

/// Kind of a load's requests, as far as a drive's speed depends on it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Access {
    /// Reads only.
    Reads,
    /// Writes in order, among others.
    SequentialWrites,
    /// Writes at random, among others.
    RandomWrites,
}

impl Access {
    /// Returns the kind of a load.
    pub(crate) fn of(load: &Load) -> Access {
        match load.order {
            _ if load.reads_percent == 100 => Access::Reads,
            Order::Sequential => Access::SequentialWrites,
            _ => Access::RandomWrites,
        }
    }

    /// Returns its name in a sentence.
    pub fn name(self) -> &'static str {
        match self {
            Access::Reads => "reads",
            Access::SequentialWrites => "sequential writes",
            Access::RandomWrites => "random writes",
        }
    }
}
