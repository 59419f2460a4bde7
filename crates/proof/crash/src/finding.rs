//! What the laboratory finds.

use std::fmt;

/// A promise that was not kept.
#[derive(Clone, PartialEq, Eq, Debug, serde::Serialize)]
pub struct Finding {
    /// The clause of the contract, such as "C1", or "panic", or "hang".
    pub clause: String,
    /// What was expected and what was seen, in a sentence.
    pub text: String,
}

impl Finding {
    /// A finding against `clause`.
    pub fn new(clause: &str, text: impl Into<String>) -> Finding {
        Finding { clause: clause.into(), text: text.into() }
    }

    /// The same finding, with where it was made.
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
