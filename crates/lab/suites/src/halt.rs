//! What looks on while a suite runs, and why one ends before its end.

use block::Error;
use load::{LoadError, Mismatch};
use std::fmt;

/// Hears how far a suite has come, and may end it.
pub trait Watch {
    /// Called every few milliseconds: what is being done, and the share of it that is done. False
    /// ends the suite with what it has.
    fn look(&mut self, stage: &str, share: f64) -> bool;
}

/// Does not look.
impl Watch for () {
    fn look(&mut self, _: &str, _: f64) -> bool {
        true
    }
}

/// Why a suite ends before its end.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Halt {
    /// The watch wanted it.
    Interrupted,
    /// The watch wanted it, and a real device did not answer what was under way within ten seconds.
    Unanswered,
    /// The device answered with an error.
    Failed(Error),
    /// What was read is not what was written.
    Wrong(Mismatch),
    /// The device cannot take a load of the suite.
    Load(LoadError),
    /// What was asked for does not fit together.
    Plan(String),
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Halt::Interrupted => write!(f, "interrupted"),
            Halt::Unanswered => {
                write!(
                    f,
                    "interrupted, and the target did not answer what was under way within 10 s"
                )
            }
            Halt::Failed(error) => write!(f, "{error}"),
            Halt::Wrong(mismatch) => write!(f, "{mismatch}"),
            Halt::Load(error) => write!(f, "{error}"),
            Halt::Plan(what) => write!(f, "{what}"),
        }
    }
}

impl From<LoadError> for Halt {
    fn from(error: LoadError) -> Halt {
        Halt::Load(error)
    }
}
