//! Eras: a suite as its reviewers ran it in other years.
//!
//! A figure of 2009 can only be compared with a run of the test of 2009. Each suite's own file has
//! a table of its eras: years, and the differences. Without an era a suite has its defaults.

use super::{ALL, Suite};
use crate::plan::{Plan, Profile};
use crate::target::Target;
use std::fmt;

/// Years in which a suite was run in the same way.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Era {
    /// The first of them.
    pub first: u16,
    /// The last of them; [`Era::OPEN`]: it has not ended.
    pub last: u16,
    /// Its description, in one line without a full stop.
    pub about: &'static str,
    /// The suite's defaults in that era.
    pub profile: &'static Profile,
}

impl Era {
    /// The last year of an era that has not ended.
    pub const OPEN: u16 = u16::MAX;

    fn covers(&self, year: u16) -> bool {
        (self.first..=self.last).contains(&year)
    }
}

impl fmt::Display for Era {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.first, self.last) {
            (first, last) if first == last => write!(f, "{first}"),
            (first, Era::OPEN) => write!(f, "{first} on"),
            (first, last) => write!(f, "{first} to {last}"),
        }
    }
}

/// Returns the entry of a suite's table for the plan's era. None: the plan has none, or the table
/// does not.
pub(super) fn of<'a, T>(plan: &Plan, table: &'a [(Era, T)]) -> Option<&'a T> {
    let year = plan.era?;
    table.iter().find(|(era, _)| era.covers(year)).map(|(_, it)| it)
}

/// Returns the eras of a suite's table.
pub(super) fn all<T>(table: &[(Era, T)]) -> Vec<Era> {
    table.iter().map(|(era, _)| *era).collect()
}

/// Returns the suite's era that contains this year.
///
/// # Errors
/// There is none; the sentence lists the existing ones.
pub(super) fn find(suite: &dyn Suite, year: u16) -> Result<Era, String> {
    let (name, eras) = (suite.profile().name, suite.eras());
    if let Some(era) = eras.iter().find(|era| era.covers(year)) {
        return Ok(*era);
    }
    let list = |all: Vec<String>| all.join(", ");
    if eras.is_empty() {
        let with = ALL.iter().filter(|suite| !suite.eras().is_empty());
        let with = list(with.map(|suite| suite.profile().name.to_owned()).collect());
        return Err(format!(
            "--era {year}: {name} has no eras; omit it, or choose a suite with eras: {with}"
        ));
    }
    let known = list(eras.iter().map(Era::to_string).collect());
    Err(format!("--era {year}: {name} has no such era; write a year of {known}"))
}

/// Returns the suite as it was in a year.
///
/// # Errors
/// The suite has no era with this year; the sentence lists those that it has.
pub fn plan_in(suite: &dyn Suite, year: u16, target: Target) -> Result<Plan, String> {
    let era = find(suite, year)?;
    Ok(Plan { era: Some(year), ..Plan::new(era.profile, target) })
}
