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

    /// A step that comes some steps later, if that is known already: for devices that get ready for it.
    fn ahead(&self) -> Option<&Step> {
        None
    }
}
