//! Which policies there are to choose from.

use policy::Kind;

/// What `default` stands for: the policy that `overdrive serve` uses.
pub const DEFAULT: Kind = Kind::Adaptive;

/// A policy as it was asked for.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Choice {
    /// Its name, or `default`.
    pub name: &'static str,
    /// What it is.
    pub what: What,
}

/// What can be simulated.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum What {
    /// A policy that knows the past.
    Kind(Kind),
    /// Belady's optimum, which knows the future.
    Optimum,
}

impl Choice {
    /// All choices.
    pub fn all() -> impl Iterator<Item = Choice> {
        let special = [("default", What::Kind(DEFAULT)), ("opt", What::Optimum)];
        let special = special.into_iter().map(|(name, what)| Choice { name, what });
        special.chain(Kind::ALL.map(|kind| Choice { name: kind.name(), what: What::Kind(kind) }))
    }

    /// The choice of this name.
    pub fn by_name(name: &str) -> Option<Choice> {
        Choice::all().find(|choice| choice.name.eq_ignore_ascii_case(name))
    }
}
