//! Errors of a backing, by kind of request.

use cache::Counters;
use serde::{Deserialize, Serialize};
use stack::{Counts, Kind};
use std::fmt;
use std::sync::atomic::Ordering;

/// Numbers of requests that a backing has answered with an error.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct BackingErrors {
    /// Reads.
    pub reads: u64,
    /// Writes, of clients and of writeback.
    pub writes: u64,
    /// Write-zeroes.
    pub zeroes: u64,
    /// Discards.
    pub discards: u64,
    /// Flushes.
    pub flushes: u64,
}

impl BackingErrors {
    fn kinds(&self) -> [(u64, &'static str, &'static str); 5] {
        [
            (self.reads, "read", "reads"),
            (self.writes, "write", "writes"),
            (self.zeroes, "write-zeroes", "write-zeroes"),
            (self.discards, "discard", "discards"),
            (self.flushes, "flush", "flushes"),
        ]
    }

    /// Returns the sum over all kinds.
    pub fn sum(&self) -> u64 {
        self.kinds().iter().map(|(number, ..)| number).sum()
    }

    /// Returns the errors counted since `before`.
    pub fn since(&self, before: &BackingErrors) -> BackingErrors {
        BackingErrors {
            reads: self.reads.saturating_sub(before.reads),
            writes: self.writes.saturating_sub(before.writes),
            zeroes: self.zeroes.saturating_sub(before.zeroes),
            discards: self.discards.saturating_sub(before.discards),
            flushes: self.flushes.saturating_sub(before.flushes),
        }
    }

    /// Returns the counters of a cache with these errors.
    pub(crate) fn to_counters(self) -> Counters {
        Counters {
            errors_read: self.reads,
            errors_write: self.writes,
            errors_zero: self.zeroes,
            errors_discard: self.discards,
            errors_flush: self.flushes,
            ..Counters::default()
        }
    }

    /// True if changes or flushes are among them.
    pub fn has_changes(&self) -> bool {
        self.sum() > self.reads
    }
}

impl From<&Counters> for BackingErrors {
    /// Returns the errors that a cache has counted.
    fn from(counted: &Counters) -> BackingErrors {
        BackingErrors {
            reads: counted.errors_read,
            writes: counted.errors_write,
            zeroes: counted.errors_zero,
            discards: counted.errors_discard,
            flushes: counted.errors_flush,
        }
    }
}

impl From<&Counts> for BackingErrors {
    /// Returns the errors that are counted without a cache.
    fn from(counts: &Counts) -> BackingErrors {
        let load = |kind: &Kind| kind.errors.load(Ordering::Relaxed);
        BackingErrors {
            reads: load(&counts.reads),
            writes: load(&counts.writes),
            zeroes: load(&counts.zeroes),
            discards: load(&counts.discards),
            flushes: load(&counts.flushes),
        }
    }
}

impl fmt::Display for BackingErrors {
    /// Writes the kinds that are not zero: `4 writes, 1 flush`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kinds = self.kinds().into_iter().filter(|(number, ..)| *number > 0);
        for (index, (number, one, many)) in kinds.enumerate() {
            let comma = if index > 0 { ", " } else { "" };
            write!(f, "{comma}{number} {}", if number == 1 { one } else { many })?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_nonzero_kinds_are_displayed() {
        let before = BackingErrors { reads: 2, writes: 1, ..BackingErrors::default() };
        let now = BackingErrors { writes: 5, flushes: 1, ..before };
        assert_eq!(now.to_string(), "2 reads, 5 writes, 1 flush");
        let new = now.since(&before);
        assert_eq!((new.to_string().as_str(), new.sum()), ("4 writes, 1 flush", 5));
        assert!(
            new.has_changes() && !BackingErrors { reads: 1, ..Default::default() }.has_changes()
        );
        assert_eq!(BackingErrors::default().to_string(), "");
    }
}
