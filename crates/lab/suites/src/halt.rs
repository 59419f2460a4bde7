//! The watch of a running suite, and the reasons why one ends early.

use block::Error;
use load::{LoadError, Mismatch};
use std::fmt;

/// Receives the progress of a suite, and may end it.
pub trait Watch {
    /// Called every few milliseconds with the current action and the share of it that is done.
    /// False ends the suite with its results so far.
    fn look(&mut self, stage: &str, share: f64) -> bool;
}

/// Shows nothing, and never interrupts.
impl Watch for () {
    fn look(&mut self, _: &str, _: f64) -> bool {
        true
    }
}

/// Reason why a suite ended early.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Halt {
    /// The watch interrupted it.
    Interrupted,
    /// The watch interrupted it, and a real device did not answer the requests under way within ten
    /// seconds.
    Unanswered,
    /// The device answered with an error.
    Failed(Error),
    /// A read returned data that was not written.
    Wrong(Mismatch),
    /// The device does not support a load of the suite.
    Load(LoadError),
    /// Parts of the plan do not fit together.
    Plan(String),
}

impl fmt::Display for Halt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Halt::Interrupted => write!(f, "interrupted"),
            Halt::Unanswered => {
                write!(
                    f,
                    "interrupted, and the target did not answer the requests in flight within 10 s"
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
