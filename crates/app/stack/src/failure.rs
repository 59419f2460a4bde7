//! Failures of whole commands: one sentence for the user, one exit status for scripts.

use host::{OpenError, OpenErrorKind};
use std::fmt;

/// Exit statuses of the command. They are documented and never reused.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
#[repr(u8)]
pub enum Exit {
    /// A negative result: not found, or a check that failed.
    Negative = 1,
    /// The command line or a setting is wrong.
    Usage = 2,
    /// No daemon is running.
    NoDaemon = 3,
    /// Not permitted.
    Permission = 4,
    /// Busy or locked.
    Busy = 5,
    /// The device failed.
    Io = 6,
    /// Data differs from the data that was written.
    Integrity = 7,
}

impl Exit {
    /// Returns the exit status with this number; an unknown number becomes a device error.
    pub fn of(number: u8) -> Exit {
        use Exit::*;
        let all = [Negative, Usage, NoDaemon, Permission, Busy, Io, Integrity];
        all.into_iter().find(|exit| *exit as u8 == number).unwrap_or(Io)
    }

    /// Whether another start with the same arguments would be refused as well, as in the service
    /// units. Other refusals may pass without an operator: a server that cannot be reached comes
    /// back.
    pub fn is_lasting(self) -> bool {
        matches!(self, Exit::Usage | Exit::Permission | Exit::Busy | Exit::Integrity)
    }
}

/// Reason why a command ends.
#[derive(Clone, Debug)]
pub struct Failure {
    /// The exit status.
    pub exit: Exit,
    /// One sentence: what failed, where, and what to do.
    pub message: String,
}

impl Failure {
    /// Returns a failure with this status and sentence.
    pub fn new(exit: Exit, message: impl Into<String>) -> Failure {
        Failure { exit, message: message.into() }
    }

    /// Returns a failure whose sentence another process has already printed.
    pub fn already_printed(exit: Exit) -> Failure {
        Failure { exit, message: String::new() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

impl From<OpenError> for Failure {
    fn from(error: OpenError) -> Failure {
        let exit = match error.kind {
            OpenErrorKind::NotFound => Exit::Negative,
            OpenErrorKind::Permission | OpenErrorKind::ReadOnly => Exit::Permission,
            OpenErrorKind::Busy => Exit::Busy,
            OpenErrorKind::TooSmall | OpenErrorKind::Misaligned | OpenErrorKind::Unsupported => {
                Exit::Usage
            }
            OpenErrorKind::Io => Exit::Io,
        };
        Failure::new(exit, error.message)
    }
}
