//! The exit status and the message of a suite that is not complete.

use stack::{Exit, Failure};
use suites::{Halt, Plan};

/// Returns the failure for the reason why a suite is not complete.
pub(crate) fn failure(plan: &Plan, halt: &Halt) -> Failure {
    let (exit, what) = match halt {
        Halt::Interrupted => (Exit::Negative, "interrupted; the measurement is not complete"),
        Halt::Unanswered => (Exit::Negative, "the measurement is not complete"),
        Halt::Failed(_) => (Exit::Io, "it failed; the measurement is not complete"),
        Halt::Wrong(_) => (Exit::Integrity, "it returns other data than was written"),
        Halt::Load(_) | Halt::Plan(_) => (Exit::Usage, "it cannot be tested in this way"),
    };
    let message = match halt {
        Halt::Interrupted => format!("{}: {what}", plan.suite.name),
        error => format!("{}: {what}: {error}", plan.target.text),
    };
    Failure::new(exit, message)
}
