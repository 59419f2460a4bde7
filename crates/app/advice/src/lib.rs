//! Verdicts: what figures show, in a few sentences for people. For the command and every page.
#![forbid(unsafe_code)]

// Outcomes that the pages of simulations are tested with, too.
pub mod drive;
#[cfg(test)]
#[path = "../../overdrive/src/sim/examples.rs"]
mod examples;
pub mod load;
mod simulation;
mod volume;

pub use simulation::verdict as of_simulation;
pub use volume::of as of_volume;
