//! Lines of the kernel's block tracepoints, as `trace_pipe` of tracefs prints them.
//!
//! ```text
//!   process in 16 columns-id [cpu] flags seconds: event: device RWBS bytes (command)
//!       sector + sectors priority [process]
//!   dd-311     [001] ..... 30622.360995: block_rq_issue: 7,0 WS 4096 () 0 + 8 be,0,4 [dd]
//!   dd-311     [001] d.s1. 30622.361127: block_rq_complete: 7,0 WS () 0 + 8 be,0,4 [0]
//! ```
//!
//! A process chooses its own name, of 15 bytes at most. The first 16 columns are therefore skipped,
//! and all other fields are before the second name. A name with a line feed splits its own lines,
//! which are then not events; an event does not fit into a name.

use crate::access::Marks;
use crate::event::Operation;
use crate::fields::{decimal, number};
use crate::formats::blkparse;

/// Columns of the name of the process.
const NAME_COLUMNS: usize = 16;
/// Maximum number of words between the process and the time.
const FLAGS_MAX: usize = 4;

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
    /// Time by the clock of the trace, in nanoseconds; the kernel prints microseconds.
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

impl BlockEvent<'_> {
    /// Reads a line. None: it is not an event of a request.
    pub fn of(line: &[u8]) -> Option<BlockEvent<'_>> {
        let mut left = line.get(NAME_COLUMNS..)?.strip_prefix(b"-")?;
        number(word(&mut left)?)?;
        let time_ns = time(&mut left)?;
        let event = word(&mut left)?.strip_suffix(b":")?;
        let step = Step::ALL.into_iter().find(|step| step.tracepoint().as_bytes() == event)?;
        word(&mut left)?;
        let rwbs = word(&mut left)?;
        // A command may have blanks, but neither it nor the bytes before it have brackets.
        let close = left.iter().position(|byte| *byte == b')')?;
        left = &left[close + 1..];
        let first = number(word(&mut left)?)?;
        let is_plus = word(&mut left)? == b"+";
        let sectors = u32::try_from(number(word(&mut left)?).filter(|_| is_plus)?).ok()?;
        let last = between_brackets(left)?;
        let is_answer = step == Step::Complete;
        let failed = if is_answer || step == Step::Requeue { errno(last)? } else { None };
        let process = if is_answer || step == Step::Requeue { &[][..] } else { last };
        let operation = operation(rwbs, sectors);
        let is_flush = operation == Some(Operation::Flush);
        // A flush has no sector; the kernel then prints 0 or the largest number.
        let first = if is_flush { 0 } else { first };
        let marks = blkparse::marks(rwbs);
        Some(BlockEvent { time_ns, step, operation, marks, first, sectors, failed, process })
    }
}

/// Splits off the next word.
fn word<'a>(left: &mut &'a [u8]) -> Option<&'a [u8]> {
    let begin = left.iter().position(|byte| *byte != b' ')?;
    let rest = &left[begin..];
    let end = rest.iter().position(|byte| *byte == b' ').unwrap_or(rest.len());
    *left = &rest[end..];
    Some(&rest[..end])
}

/// Returns the time behind the processor and the flags.
fn time(left: &mut &[u8]) -> Option<u64> {
    for _ in 0..FLAGS_MAX {
        if let Some(text) = word(left)?.strip_suffix(b":") {
            return decimal(text, 9);
        }
    }
    None
}

fn between_brackets(text: &[u8]) -> Option<&[u8]> {
    let inside = text.trim_ascii_end().strip_suffix(b"]")?;
    let open = inside.iter().position(|byte| *byte == b'[')?;
    Some(&inside[open + 1..])
}

/// Returns the error of a completion. The outer None: it is no number.
#[expect(clippy::option_option, reason = "no error, and no number")]
fn errno(text: &[u8]) -> Option<Option<i32>> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let errno = i32::try_from(number(digits)?).ok()?;
    Some((errno != 0).then_some(errno))
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
    use proptest::prelude::*;
    use std::format;

    const ISSUE: &str = "              dd-311     [001] ..... 30622.360995: block_rq_issue: 7,0 WS 4096 () 24 \
                         + 8 be,0,4 [dd]";
    const COMPLETE: &str = "     ksoftirqd/1-22      [001] ..s.. 30622.361127: block_rq_complete: \
                            7,0 WS () 24 + 8 be,0,4 [0]";

    fn event(line: &str) -> BlockEvent<'_> {
        BlockEvent::of(line.as_bytes()).expect("an event")
    }

    #[test]
    fn lines_of_the_kernel_are_events() {
        let issue = event(ISSUE);
        let expected = BlockEvent {
            time_ns: 30_622_360_995_000,
            step: Step::Issue,
            operation: Some(Operation::Write { fua: false }),
            marks: Marks(Marks::SYNC),
            first: 24,
            sectors: 8,
            failed: None,
            process: b"dd",
        };
        assert_eq!(issue, expected);
        let complete = event(COMPLETE);
        assert_eq!((complete.step, complete.failed), (Step::Complete, None));
        let failed = COMPLETE.replace("[0]", "[-5]");
        assert_eq!(event(&failed).failed, Some(5));
        // Kernels before 6.11 print no priority; some print no flags.
        let old = ISSUE.replace("be,0,4 ", "").replace("..... ", "");
        assert_eq!(event(&old), expected);
    }

    #[test]
    fn letters_are_operations() {
        let of = |rwbs: &str, sectors: &str| {
            event(&ISSUE.replace("WS", rwbs).replace("+ 8", sectors)).operation
        };
        assert_eq!(of("RA", "+ 8"), Some(Operation::Read));
        assert_eq!(of("WFS", "+ 8"), Some(Operation::Write { fua: true }));
        assert_eq!(of("FF", "+ 0"), Some(Operation::Flush));
        assert_eq!(of("DS", "+ 8"), Some(Operation::Discard));
        let zeros = Operation::Zero { fua: false, may_unmap: false };
        assert_eq!(of("NS", "+ 8"), Some(zeros));
        // A command of a tool; the answer to a write's flush; the reset of a zone.
        assert_eq!((of("N", "+ 0"), of("WS", "+ 0"), of("ZR", "+ 8")), (None, None, None));
        let line = "     ksoftirqd/1-22      [001] ..s.. 30622.376101: block_rq_complete: 7,0 FF () \
                    18446744073709551615 + 0 none,0,0 [0]";
        let flush = event(line);
        assert_eq!((flush.operation, flush.first), (Some(Operation::Flush), 0));
    }

    #[test]
    fn names_of_processes_are_not_fields() {
        for name in ["a b", "x [1] y", "1: block_rq_is", "] () 0 + 9 [x", ") + 1 [0]"] {
            let line = format!(
                "{name:>16}-7       [000] d..1. 5.000001: block_rq_issue: 7,0 R 512 () 8 + 1 [{name}]"
            );
            let event = event(&line);
            assert_eq!((event.time_ns, event.first, event.sectors), (5_000_001_000, 8, 1));
            assert_eq!(event.process, name.as_bytes());
        }
        let split =
            b"              a\nb-7 [000] d..1. 5.000001: block_rq_issue: 7,0 R 512 () 8 + 1 [a";
        assert!(split.split(|byte| *byte == b'\n').all(|line| BlockEvent::of(line).is_none()));
    }

    #[test]
    fn other_lines_are_not_events() {
        let others = [
            "",
            "CPU:1 [LOST 123 EVENTS]",
            "              dd-311     [001] ..... 1.0: block_plug: [dd]",
            "              dd-311     [001] ..... 1.0: block_rq_issue: 7,0 WS 4096 () 0 + 99999999999 [dd]",
            "              dd-311     [001] ..... 1.0: block_rq_issue: 7,0 WS 4096 () 0 - 8 [dd]",
            "              dd-311     [001] ..... 1.0: block_rq_complete: 7,0 WS () 0 + 8 [x]",
        ];
        for line in others {
            assert_eq!(BlockEvent::of(line.as_bytes()), None, "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_panics(line in proptest::collection::vec(any::<u8>(), 0..200), at in 0usize..200) {
            let _ = BlockEvent::of(&line);
            // A good line with damage.
            let mut damaged = ISSUE.as_bytes().to_vec();
            let at = at % damaged.len();
            damaged.truncate(at);
            damaged.extend_from_slice(&line);
            let _ = BlockEvent::of(&damaged);
        }
    }
}
