//! What a load asks for: a source of steps.

use crate::plan::LoadError;
use block::{Advice, Buf, Extent, Limits, Request, SECTOR};
use trace::Operation;

/// What is asked for, and when.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Step {
    /// When it is due, in nanoseconds from the load's start; None: as soon as fewer requests are under way than may
    /// be.
    pub due_ns: Option<u64>,
    /// What is asked for.
    pub operation: Operation,
    /// Where; of a flush it says nothing.
    pub at: Extent,
}

impl Step {
    /// Sectors that its buffer must have.
    pub fn buffer_sectors(&self) -> u32 {
        match self.operation {
            Operation::Read | Operation::Write { .. } => self.at.count,
            Operation::Flush | Operation::Discard | Operation::Zero { .. } | Operation::Advise => 0,
        }
    }

    /// Bytes that it reads or writes.
    pub fn bytes(&self) -> u64 {
        u64::from(self.buffer_sectors()) * SECTOR
    }

    /// Whether a device with these limits can take it.
    ///
    /// # Errors
    /// What does not fit.
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

    /// The request, with a buffer of [`Step::buffer_sectors`] sectors.
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

/// Says what a load asks for, step by step: any operation, any size, due or not.
pub trait Source {
    /// Whether a device with these limits can take all of its steps. Asked once, before the first step.
    ///
    /// # Errors
    /// What does not fit.
    fn check(&self, limits: &Limits) -> Result<(), LoadError>;

    /// The next step; None: that was all. Steps that are due come in the order of their times.
    fn next(&mut self) -> Option<Step>;

    /// Whether the step with this number (0: the first) may start, now that it was given and is due. Asked again whenever
    /// [`Source::answered`] says so.
    fn may_start(&self, _number: u64) -> bool {
        true
    }

    /// The step with this number has been answered. Returns whether another one may start for that.
    fn answered(&mut self, _number: u64) -> bool {
        false
    }

    /// Steps that come some steps later, where they are known already: for devices that get ready for them.
    /// Each is given once, many at a time, and after most steps there are none.
    fn ahead(&self) -> &[Step] {
        &[]
    }
}
