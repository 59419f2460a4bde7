//! A source of steps: the requests of a load.

use crate::plan::LoadError;
use block::{Advice, Buf, Extent, Limits, Request, SECTOR};
use trace::Operation;

/// A request, and when it is due.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// The time when it is due, in nanoseconds from the load's start. None: as soon as the number
    /// of requests under way allows.
    pub due_ns: Option<u64>,
    /// The operation.
    pub operation: Operation,
    /// The extent; not used by a flush.
    pub at: Extent,
}

impl Step {
    /// Returns the sectors of its buffer.
    pub fn buffer_sectors(&self) -> u32 {
        match self.operation {
            Operation::Read | Operation::Write { .. } => self.at.count,
            Operation::Flush | Operation::Discard | Operation::Zero { .. } | Operation::Advise => 0,
        }
    }

    /// Returns the bytes that it reads or writes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.buffer_sectors()) * SECTOR
    }

    /// Checks that a device with these limits supports it.
    ///
    /// # Errors
    /// The part that is not supported.
    pub(crate) fn check(&self, limits: &Limits) -> Result<(), LoadError> {
        if self.operation == Operation::Flush {
            return Ok(());
        }
        let unit = u64::from(limits.block_logical_bytes) / SECTOR;
        let is_large = self.bytes() > u64::from(limits.io_max_bytes);
        let is_aligned =
            self.at.first.is_multiple_of(unit) && u64::from(self.at.count).is_multiple_of(unit);
        if is_large || !is_aligned {
            return Err(LoadError::Block { unit: limits.block_logical_bytes });
        }
        if limits.read_only && self.operation != Operation::Read {
            return Err(LoadError::ReadOnly);
        }
        let end = self.at.first.checked_add(self.at.count.into());
        if end.is_none_or(|end| end > limits.sectors) {
            return Err(LoadError::Span { sectors: limits.sectors });
        }
        Ok(())
    }

    /// Returns the request, with a buffer of [`Step::buffer_sectors`] sectors.
    pub fn request(&self, buffer: Buf) -> Request {
        let at = self.at;
        match self.operation {
            Operation::Read => Request::Read { at, into: buffer },
            Operation::Write { fua } => Request::Write { at, from: buffer, fua },
            Operation::Flush => Request::Flush,
            Operation::Discard => Request::Discard { at },
            Operation::Zero { fua, may_unmap } => Request::Zero { at, fua, may_unmap },
            Operation::Advise => Request::Advise { at, advice: Advice::WillNeed },
        }
    }
}

/// Gives the requests of a load, step by step: any operation, any size, with or without a due time.
pub trait Source {
    /// Checks that a device with these limits supports all of its steps. Called once, before the
    /// first step.
    ///
    /// # Errors
    /// The part that is not supported.
    fn check(&self, limits: &Limits) -> Result<(), LoadError>;

    /// Returns the next step; None: the source has ended. Steps with due times come in the order of
    /// these times.
    fn next(&mut self) -> Option<Step>;

    /// Whether the step with this number (0: the first), which was given and is due, may start.
    /// Called again whenever [`Source::answered`] returns true.
    fn may_start(&self, _number: u64) -> bool {
        true
    }

    /// Records the answer to the step with this number. Returns whether it lets another step start.
    fn answered(&mut self, _number: u64) -> bool {
        false
    }

    /// Returns steps further ahead, where they are already known, for devices that prefetch for
    /// them. Each is given once, many at a time; after most steps the slice is empty.
    fn ahead(&self) -> &[Step] {
        &[]
    }
}
