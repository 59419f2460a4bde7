//! Events of requests, as the kernel's block tracepoints report them.

use crate::access::Marks;
use crate::event::Operation;
use crate::formats::blkparse;

/// A step of a request through the kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Step {
    /// The scheduler has it in its queue.
    Insert,
    /// It is sent to the device.
    Issue,
    /// The device, or the driver, gives it back to be sent again.
    Requeue,
    /// It became a part of another request.
    Merge,
    /// It is answered, or a part of it.
    Complete,
}

impl Step {
    /// All of them.
    pub const ALL: [Step; 5] =
        [Step::Insert, Step::Issue, Step::Requeue, Step::Merge, Step::Complete];

    /// Returns the name of its tracepoint.
    pub fn tracepoint(self) -> &'static str {
        match self {
            Step::Insert => "block_rq_insert",
            Step::Issue => "block_rq_issue",
            Step::Requeue => "block_rq_requeue",
            Step::Merge => "block_rq_merge",
            Step::Complete => "block_rq_complete",
        }
    }
}

/// An event of a request.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct BlockEvent<'a> {
    /// Time by the clock of the trace, in nanoseconds.
    pub time_ns: u64,
    /// The step.
    pub step: Step,
    /// The operation. None: a command that has no sectors, or one that is unknown.
    pub operation: Option<Operation>,
    /// Its marks.
    pub marks: Marks,
    /// The first sector of 512 bytes; 0 for a flush.
    pub first: u64,
    /// Number of sectors; 0 for a flush. Of a completion: of the part that is answered.
    pub sectors: u32,
    /// The errno of a completion that failed.
    pub failed: Option<i32>,
    /// The process whose call made this step; empty for completions.
    pub process: &'a [u8],
}

/// Returns the operation of these letters. Zeros have no letter of their own (N), and neither have
/// commands without sectors; operations on zones begin with a Z.
pub(crate) fn operation(rwbs: &[u8], sectors: u32) -> Option<Operation> {
    let operation = match rwbs.first()? {
        b'N' => Some(Operation::Zero { fua: false, may_unmap: false }),
        b'Z' => None,
        _ => blkparse::operation(rwbs),
    };
    operation.filter(|operation| (*operation == Operation::Flush) == (sectors == 0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn letters_are_operations() {
        let of = |rwbs: &str, sectors| operation(rwbs.as_bytes(), sectors);
        assert_eq!(of("RA", 8), Some(Operation::Read));
        assert_eq!(of("WFS", 8), Some(Operation::Write { fua: true }));
        assert_eq!(of("FF", 0), Some(Operation::Flush));
        assert_eq!(of("DS", 8), Some(Operation::Discard));
        assert_eq!(of("NS", 8), Some(Operation::Zero { fua: false, may_unmap: false }));
        // A command of a tool; the answer to a write's flush; the reset of a zone; nothing.
        let others = [("N", 0), ("WS", 0), ("ZR", 8), ("", 8)];
        assert!(others.iter().all(|(rwbs, sectors)| of(rwbs, *sectors).is_none()));
    }
}
