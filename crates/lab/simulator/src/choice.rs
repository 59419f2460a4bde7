//! The policies that a simulation offers.

use policy::Kind;

/// The policy of the name `default`: that of `overdrive serve`.
pub const DEFAULT: Kind = Kind::Adaptive;

/// A policy as the user named it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Its name, or `default`.
    pub name: &'static str,
    /// The policy.
    pub what: What,
}

/// A policy that can be simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A policy that sees only past accesses.
    Kind(Kind),
    /// Belady's optimum, which uses future accesses.
    Optimum,
}

impl Choice {
    /// Returns all choices.
    pub fn all() -> impl Iterator<Item = Choice> {
        let special = [("default", What::Kind(DEFAULT)), ("opt", What::Optimum)];
        let special = special.into_iter().map(|(name, what)| Choice { name, what });
        special.chain(Kind::ALL.map(|kind| Choice { name: kind.name(), what: What::Kind(kind) }))
    }

    /// Returns the choice of this name.
    pub fn by_name(name: &str) -> Option<Choice> {
        Choice::all().find(|choice| choice.name.eq_ignore_ascii_case(name))
    }
}
