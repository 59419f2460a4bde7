//! Findings of the laboratory.

use std::fmt;

/// A broken promise.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Finding {
    /// The clause of the contract, such as "C1", or "panic", or "hang".
    pub clause: String,
    /// The expected and the found result, as a sentence.
    pub text: String,
}

impl Finding {
    /// Returns a finding against `clause`.
    pub fn new(clause: &str, text: impl Into<String>) -> Finding {
        Finding { clause: clause.into(), text: text.into() }
    }

    /// Returns the same finding, with its position.
    #[must_use]
    pub fn at(mut self, place: fmt::Arguments<'_>) -> Finding {
        self.text = format!("{} ({place})", self.text);
        self
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.clause, self.text)
    }
}
